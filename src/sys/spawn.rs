//! Asks the kernel from inside a cgroup: a process is started right in it, asks its
//! questions, and ends.
//!
//! The users of that cgroup decide when the process runs, and may move it elsewhere. So
//! nothing here waits for it without limit, and its answers count only if it was in the
//! cgroup before it asked and at its end.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_ulong};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{pipe2, write};

use super::access::{Access, AccessAnswer, answer, mode};
use super::helper::{Channel, Child, Helper, MOST_LEFT_BEHIND, left_behind, wait};
use super::retry::again;

/// Questions of one process: their answers fit into the smallest pipe there
/// is, one page, so that writing them never blocks.
pub const QUESTION_LIMIT: usize = 1024;

/// How long a process that was moved out and killed is waited for: it runs beside this one
/// and needs no more than a moment.
const MOMENT: Duration = Duration::from_millis(50);

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
    /// It was not in the cgroup when it was asked, or nothing told that it was.
    Elsewhere,
    /// Too many that did not end are left behind; another one is not started.
    TooMany,
}

/// Starts a process in a cgroup that asks, for each node (a handle opened with
/// `O_PATH`, which opens no device), whether it may be accessed, and ends.
/// Answers come in the order of the questions. The process is a copy of this
/// one and makes no system call beside the questions, a read, a write and its exit; it dies
/// with its parent too.
///
/// One that does not answer within `limit` is moved to `home`, the caller's own cgroup,
/// and killed: in a cgroup that gets no processor time not even a killed process ends. It
/// is waited for only for a moment, and later by [`left_behind`].
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
    home: Option<BorrowedFd<'_>>,
    questions: &[(BorrowedFd<'_>, Access)],
    limit: Duration,
) -> Result<Vec<AccessAnswer>, AskError> {
    if left_behind() >= MOST_LEFT_BEHIND {
        return Err(AskError::TooMany);
    }
    let end = Instant::now() + limit;
    let asked: Vec<(RawFd, c_int)> = questions
        .iter()
        .take(QUESTION_LIMIT)
        .map(|(node, access)| (node.as_raw_fd(), mode(*access)))
        .collect();
    let mut answers = vec![0_u8; asked.len() * size_of::<c_int>()];
    let (reader, writer) = again(|| pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)).map_err(AskError::Start)?;
    let go = again(|| EventFd::from_flags(EfdFlags::EFD_CLOEXEC)).map_err(AskError::Start)?;
    let ends = (go.as_fd().as_raw_fd(), writer.as_raw_fd());
    let child = start(cgroup, &asked, &mut answers, ends).map_err(AskError::Start)?;
    drop(writer);
    let membership = Membership::of(&child, cgroup);
    go.write(1).map_err(AskError::Start)?;
    if !has_ended(&child, end) {
        move_to(&child, home);
        child.kill();
        has_ended(&child, Instant::now() + MOMENT);
        return Err(AskError::TimedOut);
    }
    if !membership.is_some_and(|membership| membership.still_holds(&child)) {
        return Err(AskError::Elsewhere);
    }
    File::from(reader).read_exact(&mut answers).map_err(|_| AskError::Died)?;
    Ok(answers.chunks_exact(size_of::<c_int>()).map(parse).collect())
}

/// An errno as the child wrote it.
fn parse(bytes: &[u8]) -> AccessAnswer {
    let errno = <[u8; 4]>::try_from(bytes).map_or(libc::EIO, c_int::from_ne_bytes);
    answer(if errno == 0 { Ok(()) } else { Err(Errno::from_raw(errno)) })
}

fn start(
    cgroup: BorrowedFd<'_>,
    asked: &[(RawFd, c_int)],
    answers: &mut [u8],
    ends: (RawFd, RawFd),
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
        child(asked, answers, ends, parent);
    }
    Errno::result(pid)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child::held(libc::pid_t::try_from(pid).unwrap_or_default(), Some(pidfd)))
}

/// `CLONE_INTO_CGROUP`, `linux/sched.h`.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The child's part: system calls alone. It allocates nothing, takes no lock, runs
/// no destructor and cannot panic.
fn child(asked: &[(RawFd, c_int)], answers: &mut [u8], (go, writer): (RawFd, RawFd), parent: c_long) -> ! {
    // SAFETY: plain system calls with numbers; the empty path is terminated,
    // and the buffer is as long as is said. errno is this thread's own.
    unsafe {
        let none = c_long::default();
        let (die, kill) = (libc::PR_SET_PDEATHSIG as c_long, libc::SIGKILL as c_long);
        libc::syscall(libc::SYS_prctl, die, kill, none, none, none);
        let mut told = 0_u64;
        // The parent may have died before that. Else it says when to begin.
        if libc::syscall(libc::SYS_getppid) == parent
            && libc::syscall(libc::SYS_read, go as c_long, &raw mut told, size_of::<u64>()) > 0
        {
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

/// Waits for the end of a child that nobody has waited for yet; whether it came in time.
fn has_ended(child: &Child, end: Instant) -> bool {
    let Some(pidfd) = child.pidfd() else { return false };
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left.as_millis()).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(pidfd, PollFlags::POLLIN)], timeout) {
            Ok(1..) => return true,
            _ if left.is_zero() => return false,
            _ => {}
        }
    }
}

/// Moves a child into a cgroup. Where that does not work it stays where it is: it is killed
/// and left behind in any case. The kernel may let the move wait for those who fork in the
/// cgroup, so that a helper makes it, which is waited for only for a moment.
fn move_to(child: &Child, cgroup: Option<BorrowedFd<'_>>) {
    let Some(cgroup) = cgroup else { return };
    let pid = child.pid().to_string();
    let work = |channel: &mut Channel| {
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        let procs = openat(cgroup, c"cgroup.procs", flags, Mode::empty());
        let _stays = procs.and_then(|procs| write(procs, pid.as_bytes()));
        channel.send(&[]);
    };
    if let Ok(helper) = Helper::start(&[cgroup], work) {
        wait(std::iter::once(&helper), MOMENT);
    }
}

/// `PIDFD_GET_INFO`, and the parts that are asked for (`linux/pidfd.h`): the cgroup of a
/// process that runs, and of one that has ended.
const GET_INFO: c_ulong = 0xc040_ff0b;
const CGROUP_ID: u64 = 1 << 2;
const EXIT: u64 = 1 << 3;

/// `struct pidfd_info` of Linux 6.13.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup_id: u64,
    numbers: [u32; 12],
}

/// That a child was in a cgroup, and how that is told again.
enum Membership {
    /// By the id of the cgroup, since Linux 6.13.
    Id(u64),
    /// By the line of cgroup2 in `/proc/PID/cgroup`, which was read while the child was
    /// listed in the cgroup.
    Line(Vec<u8>),
}

impl Membership {
    /// Looks for a child in a cgroup; `None` if it is not there, or nothing tells.
    fn of(child: &Child, cgroup: BorrowedFd<'_>) -> Option<Self> {
        match cgroup_id(child) {
            Ok(Some(id)) => (id == fstat(cgroup).ok()?.st_ino).then_some(Self::Id(id)),
            _ => {
                let line = line(child)?;
                is_listed(child, cgroup).then_some(Self::Line(line))
            }
        }
    }

    /// Whether the child is there still, or was there at its end.
    fn still_holds(&self, child: &Child) -> bool {
        match self {
            Self::Id(id) => cgroup_id(child) == Ok(Some(*id)),
            Self::Line(before) => line(child).is_some_and(|line| line == *before),
        }
    }
}

/// The id of the cgroup2 cgroup of a child, also of one that has ended and was not waited
/// for.
fn cgroup_id(child: &Child) -> Result<Option<u64>, Errno> {
    let pidfd = child.pidfd().ok_or(Errno::EBADF)?;
    let mut info = PidfdInfo { mask: CGROUP_ID | EXIT, ..PidfdInfo::default() };
    // SAFETY: the request has the size of the structure, which the kernel fills.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), GET_INFO as _, &raw mut info) };
    Errno::result(result).map(|_| (info.mask & CGROUP_ID != 0).then_some(info.cgroup_id))
}

/// Whether the cgroup lists the child. `cgroup.threads` can be read of threaded cgroups too.
fn is_listed(child: &Child, cgroup: BorrowedFd<'_>) -> bool {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let Ok(threads) = openat(cgroup, c"cgroup.threads", flags, Mode::empty()) else { return false };
    let pid = child.pid().to_string();
    BufReader::new(File::from(threads)).lines().map_while(Result::ok).any(|line| line == pid)
}

/// Its line of cgroup2. A process that has ended keeps it until it is waited for.
fn line(child: &Child) -> Option<Vec<u8>> {
    let text = fs::read(format!("/proc/{}/cgroup", child.pid())).ok()?;
    text.split(|byte| *byte == b'\n').find(|line| line.starts_with(b"0::")).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::dir::Dir;

    /// Make sure that a process cannot be started where there is no cgroup.
    #[test]
    fn no_cgroup() {
        let dir = Dir::open("/proc".as_ref()).unwrap();
        let asked = ask_inside(dir.as_fd(), None, &[], Duration::from_secs(5));
        assert!(matches!(asked, Err(AskError::Start(_))), "{asked:?}");
    }

    /// Make sure that a move that does not come back is not waited for.
    #[test]
    fn moves_are_not_waited_for() {
        let directory = std::env::temp_dir().join(format!("gpumap-move-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        // Whoever opens it to write waits for a reader, as the kernel may for forks.
        nix::unistd::mkfifo(&directory.join("cgroup.procs"), Mode::S_IRWXU).unwrap();
        let (dir, begun) = (Dir::open(&directory).unwrap(), Instant::now());
        move_to(&Child::held(libc::pid_t::MAX, None), Some(dir.as_fd()));
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn layout() {
        assert_eq!(size_of::<CloneArgs>(), 88);
    }

    #[test]
    fn layout_of_membership() {
        assert_eq!(size_of::<PidfdInfo>(), 64);
    }
}
