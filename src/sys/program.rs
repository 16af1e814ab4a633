//! Runs a program of the administrator's and keeps what it prints, within a time and a
//! size. It has none of gpumap's descriptors, nothing of its environment, and ends with it.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, dup2_stdout, execve, pipe2, read, setsid};

use super::helper::{Channel, Helper, MOST_LEFT_BEHIND, left_behind};
use super::retry::again;

/// All of its environment: where a script finds programs, and messages in English.
const ENVIRONMENT: [&CStr; 2] = [c"PATH=/usr/sbin:/usr/bin:/sbin:/bin", c"LC_ALL=C"];
/// How often a program that has printed all is looked at, until it has ended.
const MOMENT: Duration = Duration::from_millis(2);

/// Why a program did not print what it was run for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// No process could be made for it, or its output not be read.
    #[error("it could not be started: {}", .0.desc().to_lowercase())]
    Start(Errno),
    /// execve(2) refused it. `EPERM`: gpumap gave up starting programs (`sys::seccomp`).
    #[error("it cannot be executed: {}", .0.desc().to_lowercase())]
    Execute(Errno),
    /// It did not print all and end in its time.
    #[error("it did not end in {} seconds", .0.as_secs_f32())]
    TimedOut(Duration),
    /// It printed more than this many bytes.
    #[error("it printed more than {0} bytes")]
    TooLong(usize),
    /// It ended with this status, which is not 0.
    #[error("it ended with status {0}")]
    Failed(i32),
    /// A signal ended it.
    #[error("{} ended it", .0.as_str())]
    Signalled(Signal),
    /// Too many that were killed have not ended yet; no further one is started.
    #[error("{MOST_LEFT_BEHIND} helpers of gpumap were killed and have not ended")]
    TooMany,
}

/// What a program prints that is run with one argument, `most` bytes at most, if it ends
/// with status 0 within `limit`. Else it is killed, with all that it started and that stayed
/// in its process group; one that does not end even so is left behind. Its standard input
/// and standard error are `/dev/null`.
///
/// # Errors
///
/// Why there is no such output.
pub fn printed_by(
    program: &Path,
    argument: &CStr,
    limit: Duration,
    most: usize,
) -> Result<Vec<u8>, ProgramError> {
    if left_behind() >= MOST_LEFT_BEHIND {
        return Err(ProgramError::TooMany);
    }
    let end = Instant::now() + limit;
    let path = CString::new(program.as_os_str().as_bytes());
    let path = path.map_err(|_nul_in_it| ProgramError::Start(Errno::EINVAL))?;
    let (reader, writer) = again(|| pipe2(OFlag::O_CLOEXEC)).map_err(ProgramError::Start)?;
    let work = |channel: &mut Channel| {
        let failure = become_program(&path, argument, &writer);
        channel.send(&(failure as i32).to_ne_bytes());
    };
    let mut helper = Helper::start(&[writer.as_fd()], work).map_err(ProgramError::Start)?;
    drop(writer);
    let printed =
        Printing { reader, end, most }.all().and_then(|text| ended(&mut helper, end).map(|()| text));
    let leader = helper.child().pid();
    if leader > 0 {
        // It is not waited for yet, so nobody else has its number. There may be none left.
        let _gone = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    }
    printed.map_err(|error| match error {
        ProgramError::TimedOut(_) => ProgramError::TimedOut(limit),
        other => other,
    })
}

/// Makes this process the program. Returns why that failed.
fn become_program(program: &CStr, argument: &CStr, output: &OwnedFd) -> Errno {
    let run = || -> Result<Infallible, Errno> {
        setsid()?;
        dup2_stdout(output)?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        execve(program, &[program, argument], &ENVIRONMENT)
    };
    match run() {
        Err(errno) => errno,
        Ok(never) => match never {},
    }
}

/// The output of a program, while it comes.
struct Printing {
    reader: OwnedFd,
    end: Instant,
    most: usize,
}

impl Printing {
    /// All of it, until nobody has the other end of the pipe.
    fn all(&self) -> Result<Vec<u8>, ProgramError> {
        let (mut text, mut piece) = (Vec::new(), [0; 16 << 10]);
        loop {
            self.wait()?;
            match again(|| read(&self.reader, &mut piece)).map_err(ProgramError::Start)? {
                0 => return Ok(text),
                count => text.extend_from_slice(piece.get(..count).unwrap_or_default()),
            }
            if text.len() > self.most {
                return Err(ProgramError::TooLong(self.most));
            }
        }
    }

    fn wait(&self) -> Result<(), ProgramError> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ProgramError::TimedOut(left));
            }
            // One millisecond more, so that the time is over when poll(2) says so.
            let timeout = PollTimeout::try_from(left.as_millis() + 1).unwrap_or(PollTimeout::MAX);
            match poll(&mut [PollFd::new(self.reader.as_fd(), PollFlags::POLLIN)], timeout) {
                Ok(1..) => return Ok(()),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(ProgramError::Start(errno)),
            }
        }
    }
}

/// Waits for the end of a program that prints no more, and says how it ended.
fn ended(helper: &mut Helper, end: Instant) -> Result<(), ProgramError> {
    // A message comes only where it was not executed. Else the channel is closed.
    if let Ok(Some(message)) = helper.receive() {
        let errno = message.try_into().map_or(libc::EIO, i32::from_ne_bytes);
        return Err(ProgramError::Execute(Errno::from_raw(errno)));
    }
    loop {
        match helper.child().ending().map_err(ProgramError::Start)? {
            WaitStatus::Exited(_, 0) => return Ok(()),
            WaitStatus::Exited(_, status) => return Err(ProgramError::Failed(status)),
            WaitStatus::Signaled(_, signal, _) => return Err(ProgramError::Signalled(signal)),
            _ if Instant::now() >= end => return Err(ProgramError::TimedOut(Duration::ZERO)),
            _ => thread::sleep(MOMENT),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(2);

    /// What the shell prints for a script, which is its only argument.
    fn printed(script: &str) -> Result<String, ProgramError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gpumap-run-{}-{number}", std::process::id()));
        std::fs::write(&path, script).unwrap();
        // A shell reads its script while it runs: the file itself is never executed, so
        // that nobody finds it busy.
        let argument = CString::new(path.as_os_str().as_bytes()).unwrap();
        let printed = printed_by("/bin/sh".as_ref(), &argument, LIMIT, 4096);
        std::fs::remove_file(path).unwrap();
        printed.map(|text| String::from_utf8(text).unwrap())
    }

    /// Make sure that all output comes, from all that it starts, and that it knows nothing
    /// of this process.
    #[test]
    fn output() {
        assert_eq!(printed("echo a; (sleep 0.2; echo b)& echo c"), Ok("a\nc\nb\n".to_owned()));
        assert_eq!(printed("cat; echo x >&2; pwd"), Ok("/\n".to_owned()));
        let environment = printed("env | sort").unwrap();
        let names = environment.lines().filter_map(|line| Some(line.split_once('=')?.0));
        let names: Vec<&str> = names.filter(|name| !["PWD", "SHLVL", "_", "OLDPWD"].contains(name)).collect();
        assert_eq!(names, ["LC_ALL", "PATH"], "{environment}");
        assert_eq!(
            printed("ls /proc/self/fd").unwrap().split_whitespace().collect::<Vec<_>>(),
            ["0", "1", "2", "3"]
        );
    }

    /// Make sure that each kind of failure is told, soon.
    #[test]
    fn failures() {
        let begun = Instant::now();
        assert_eq!(printed("echo a; exit 9"), Err(ProgramError::Failed(9)));
        assert_eq!(printed("kill -SEGV $$; sleep 600"), Err(ProgramError::Signalled(Signal::SIGSEGV)));
        assert_eq!(printed("yes; :"), Err(ProgramError::TooLong(4096)));
        for hanging in
            ["sleep 600", "exec >&-; sleep 601", "sleep 6020 & exit 0", "trap '' TERM; sleep 60300"]
        {
            assert_eq!(printed(hanging), Err(ProgramError::TimedOut(LIMIT)), "{hanging}");
        }
        let refused = |path: &str| printed_by(path.as_ref(), c"-L", LIMIT, 10);
        assert_eq!(refused("/no/such/file"), Err(ProgramError::Execute(Errno::ENOENT)));
        assert_eq!(refused("/"), Err(ProgramError::Execute(Errno::EACCES)));
        assert!(begun.elapsed() < Duration::from_secs(40));
    }

    /// Make sure that nothing is left of what it started.
    #[test]
    fn descendants() {
        let number = format!("{}", 7_000_000 + std::process::id());
        assert_eq!(printed(&format!("sleep {number} & sleep {number}")), Err(ProgramError::TimedOut(LIMIT)));
        let end = Instant::now() + Duration::from_secs(20);
        let lives = || {
            let lists = |entry: std::fs::DirEntry| {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                line.split(|byte| *byte == 0).any(|word| word == number.as_bytes())
            };
            std::fs::read_dir("/proc").unwrap().flatten().any(lists)
        };
        while lives() && Instant::now() < end {
            thread::sleep(MOMENT);
        }
        assert!(!lives());
    }

    /// Make sure that a command that gave up starting programs says so.
    #[test]
    fn given_up() {
        let refused = thread::spawn(|| {
            crate::sys::seccomp::forbid().unwrap();
            printed_by("/bin/true".as_ref(), c"-L", LIMIT, 10)
        });
        assert_eq!(refused.join().unwrap(), Err(ProgramError::Execute(Errno::EPERM)));
    }
}
