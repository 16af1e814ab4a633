//! Asks the kernel from inside a cgroup: a process is started right in it, asks its
//! questions, and ends.

use std::fs::File;
use std::io::Read;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use libc::{c_int, c_long};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::access::{Access, AccessAnswer, answer, mode};

/// Questions of one process: their answers fit into the smallest pipe there
/// is, one page, so that writing them never blocks.
pub const QUESTION_LIMIT: usize = 1024;

/// `struct clone_args`, `linux/sched.h`, as of Linux 5.7.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Why there are no answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskError {
    /// The process could not be started in the cgroup.
    Start(Errno),
    /// It did not answer in time and was killed.
    TimedOut,
    /// It ended without all of its answers.
    Died,
}

/// Starts a process in a cgroup that asks, for each node (a handle opened with
/// `O_PATH`, which opens no device), whether it may be accessed, and ends.
/// Answers come in the order of the questions. The process is a copy of this
/// one, makes no system call beside the questions, one write and its exit, and
/// is dead and waited for when this returns; it dies with its parent too.
///
/// Since Linux 5.8: `CLONE_INTO_CGROUP` (5.7), faccessat2 on a handle (5.8).
///
/// # Errors
///
/// Among those of clone3(2): `EBUSY` where the cgroup may have no processes of
/// its own, `EOPNOTSUPP` for one in the state "domain invalid", `EAGAIN` at its `pids.max`,
/// `ENODEV` for a removed one.
pub fn ask_inside(
    cgroup: BorrowedFd<'_>,
    questions: &[(BorrowedFd<'_>, Access)],
    limit: Duration,
) -> Result<Vec<AccessAnswer>, AskError> {
    let asked: Vec<(RawFd, c_int)> = questions
        .iter()
        .take(QUESTION_LIMIT)
        .map(|(node, access)| (node.as_raw_fd(), mode(*access)))
        .collect();
    let mut answers = vec![0_u8; asked.len() * size_of::<c_int>()];
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(AskError::Start)?;
    let child = start(cgroup, &asked, &mut answers, writer.as_raw_fd()).map_err(AskError::Start)?;
    drop(writer);
    let ended = child.wait(limit);
    let complete = File::from(reader).read_exact(&mut answers).is_ok();
    match (ended, complete) {
        (_, true) => Ok(answers.chunks_exact(size_of::<c_int>()).map(parse).collect()),
        (true, false) => Err(AskError::Died),
        (false, false) => Err(AskError::TimedOut),
    }
}

/// An errno as the child wrote it.
fn parse(bytes: &[u8]) -> AccessAnswer {
    let errno = <[u8; 4]>::try_from(bytes).map_or(libc::EIO, c_int::from_ne_bytes);
    answer(if errno == 0 { Ok(()) } else { Err(Errno::from_raw(errno)) })
}

/// The child; dropping it kills it and waits for it.
struct Child(OwnedFd);

fn start(
    cgroup: BorrowedFd<'_>,
    asked: &[(RawFd, c_int)],
    answers: &mut [u8],
    writer: RawFd,
) -> Result<Child, Errno> {
    let mut pidfd: c_int = -1;
    let args = CloneArgs {
        flags: (libc::CLONE_PIDFD as u64) | CLONE_INTO_CGROUP,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.as_raw_fd() as u64,
        ..CloneArgs::default()
    };
    let parent = c_long::from(std::process::id());
    // SAFETY: `args` is a clone_args of the size given, `pidfd` outlives the
    // call. Without CLONE_VM the child has its own copy of this memory and goes
    // on here, on a copy of this stack, as after fork(2). Other threads do not
    // exist in it and may have held any lock, so it must do nothing but what
    // `child` does.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    if pid == 0 {
        child(asked, answers, writer, parent);
    }
    Errno::result(pid)?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(Child(unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// `CLONE_INTO_CGROUP`, `linux/sched.h`.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The child's part: system calls alone. It allocates nothing, takes no lock, runs
/// no destructor and cannot panic.
fn child(asked: &[(RawFd, c_int)], answers: &mut [u8], writer: RawFd, parent: c_long) -> ! {
    // SAFETY: plain system calls with numbers; the empty path is terminated,
    // and the buffer is as long as is said. errno is this thread's own.
    unsafe {
        let none = c_long::default();
        let (die, kill) = (libc::PR_SET_PDEATHSIG as c_long, libc::SIGKILL as c_long);
        libc::syscall(libc::SYS_prctl, die, kill, none, none, none);
        // The parent may have died before that.
        if libc::syscall(libc::SYS_getppid) == parent {
            for ((node, mode), place) in asked.iter().zip(answers.chunks_exact_mut(4)) {
                let flags = (libc::AT_EACCESS | libc::AT_EMPTY_PATH) as c_long;
                let (node, mode) = (*node as c_long, *mode as c_long);
                let result = libc::syscall(libc::SYS_faccessat2, node, c"".as_ptr(), mode, flags);
                let errno = if result == 0 { 0 } else { *libc::__errno_location() };
                place.copy_from_slice(&errno.to_ne_bytes());
            }
            libc::syscall(libc::SYS_write, writer as c_long, answers.as_ptr(), answers.len());
        }
        loop {
            libc::syscall(libc::SYS_exit_group, c_long::default());
        }
    }
}

impl Child {
    /// Whether it ended by itself in time.
    fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let milliseconds = c_int::try_from(left.as_millis()).unwrap_or(c_int::MAX);
            let mut poll = libc::pollfd { fd: self.0.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one live pollfd.
            match unsafe { libc::poll(&raw mut poll, 1, milliseconds) } {
                1.. => return true,
                _ if left.is_zero() => return false,
                _ => {}
            }
        }
    }
}

/// A process that is frozen with its cgroup dies of SIGKILL too (cgroup2).
impl Drop for Child {
    fn drop(&mut self) {
        let fd = self.0.as_raw_fd() as c_long;
        let (kill, of_pidfd, ended) =
            (libc::SIGKILL as c_long, libc::P_PIDFD as c_long, libc::WEXITED as c_long);
        let none = c_long::default();
        // SAFETY: system calls on a live pidfd; P_PIDFD waits for this very
        // child, and a null siginfo is allowed for both.
        unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, fd, kill, none, none);
            while libc::syscall(libc::SYS_waitid, of_pidfd, fd, none, ended, none) < 0
                && *libc::__errno_location() == libc::EINTR
            {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::dir::Dir;

    /// Make sure that a process cannot be started where there is no cgroup.
    #[test]
    fn no_cgroup() {
        let dir = Dir::open("/proc".as_ref()).unwrap();
        let asked = ask_inside(dir.as_fd(), &[], Duration::from_secs(5));
        assert!(matches!(asked, Err(AskError::Start(_))), "{asked:?}");
    }

    #[test]
    fn layout() {
        assert_eq!(size_of::<CloneArgs>(), 88);
    }
}
