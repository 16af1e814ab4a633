//! A pseudoterminal of our own, whose other end is in our hands.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{FlowArg, tcflow};

use super::wait::patience;

/// A command whose terminal it is, without a shell between.
#[derive(Debug)]
pub struct Pty {
    master: Option<PtyMaster>,
    child: Child,
    seen: String,
}

impl Pty {
    /// Runs a command line, whose words are parted by spaces, in a terminal of this size.
    pub fn start(line: &str, (width, height): (u16, u16)) -> Self {
        // No process but this one may have our end: the terminal would not be lost then.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).expect("a pty");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("a pty");
        let name = ptsname_r(&master).expect("a name");
        let mut options = OpenOptions::new();
        let slave = options.read(true).write(true).custom_flags(OFlag::O_NOCTTY.bits()).open(name);
        let slave: File = slave.expect("a terminal");
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        let sized = Command::new("stty")
            .args(["cols", &width.to_string(), "rows", &height.to_string()])
            .stdin(end())
            .status();
        assert!(sized.is_ok_and(|status| status.success()));
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(line.split(' ')).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("setsid");
        Self { master: Some(master), child, seen: String::new() }
    }

    /// Reads until the command has written this.
    pub fn wait(&mut self, what: &str) {
        let end = Instant::now() + patience();
        let master = self.master.as_mut().expect("a terminal");
        while !self.seen.contains(what) {
            assert!(Instant::now() < end, "never: {what}\n{:?}", self.seen);
            let mut fds = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(100_u8)).expect("poll") > 0 {
                let mut bytes = [0; 4096];
                let count = master.read(&mut bytes).expect("bytes");
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        }
    }

    /// Types text.
    pub fn press(&mut self, text: &str) {
        let master = self.master.as_mut().expect("a terminal");
        master.write_all(text.as_bytes()).expect("a terminal");
    }

    /// Stops the output of the terminal, as its user can, or lets it go on.
    pub fn flow(&self, action: FlowArg) {
        let mut options = OpenOptions::new();
        let terminal = options.read(true).custom_flags(OFlag::O_NOCTTY.bits());
        let terminal = terminal.open(format!("/proc/{}/fd/1", self.pid())).expect("a terminal");
        tcflow(&terminal, action).expect("a terminal");
    }

    /// The pid of the command.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Closes our end, as a terminal emulator or sshd that ends.
    pub fn hang_up(&mut self) {
        drop(self.master.take());
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}
