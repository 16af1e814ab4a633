//! Tells systemd that a command is ready and that it still works: sd_notify(3), by the
//! protocol alone (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`).

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The service manager, or nobody.
#[derive(Debug)]
pub(in crate::commands) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// How often it wants to hear of this process.
    every: Option<Duration>,
    told: Instant,
}

impl ServiceManager {
    /// The one that started this process. It is told as well as can be: where that fails
    /// it says itself that it heard nothing.
    pub(in crate::commands) fn connect() -> Self {
        let path = std::env::var_os("NOTIFY_SOCKET");
        let socket = path.and_then(|path| {
            let address = match path.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&path),
            };
            // See above.
            let socket = UnixDatagram::unbound().ok()?;
            // The same.
            socket.connect_addr(&address.ok()?).ok()?;
            // One that does not read must not keep gpumap waiting; see above.
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        });
        let number = |name: &str| -> Option<u64> { std::env::var_os(name)?.to_str()?.parse().ok() };
        let is_meant = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        // Half of the time, as sd_watchdog_enabled(3) advises.
        let every = number("WATCHDOG_USEC").filter(|_| is_meant).map(|all| Duration::from_micros(all / 2));
        Self { every: every.filter(|_| socket.is_some()), socket, told: Instant::now() }
    }

    /// Says that the command does what it is for.
    pub(in crate::commands) fn ready(&mut self) {
        self.say("READY=1\nWATCHDOG=1");
    }

    /// Says that the command still works, if it is time to.
    pub(in crate::commands) fn works(&mut self) {
        if self.next().is_some_and(|next| Instant::now() >= next) {
            self.say("WATCHDOG=1");
        }
    }

    /// When it has to hear of this process again.
    pub(in crate::commands) fn next(&self) -> Option<Instant> {
        self.told.checked_add(self.every?)
    }

    fn say(&mut self, text: &str) {
        self.told = Instant::now();
        if let Some(socket) = &self.socket {
            // It says itself that it heard nothing.
            let _sent = socket.send(text.as_bytes());
        }
    }
}
