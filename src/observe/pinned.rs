//! A process, held by a handle of its directory in `/proc`: the one reader of its files.
//!
//! The handle shows nothing once the process is gone, even if its pid is used again, so
//! that what is read through it never mixes two processes. A file that cannot be read says
//! why: [`NotRead::Gone`] is said by the kernel alone.
//!
//! A thread has the same files in a directory below `task`, and is read in the same way.

use std::fmt;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::procfile::{self, CgroupLines, Stat, parse_stat};
use crate::sys::absence::is_end;
use crate::sys::dir::{Dir, read_all};
use crate::sys::stat::stat_at;

/// Bytes read of `stat`: one line.
const STAT_LIMIT: usize = 8 << 10;
/// Bytes read of `status`: a process that may set its groups can have 65,536 of them
/// (`NGROUPS_MAX`), each with up to eleven bytes.
pub(in crate::observe) const STATUS_LIMIT: usize = 1 << 20;
/// Bytes read of `cgroup`: some fifteen lines of at most a path's length.
const CGROUP_LIMIT: usize = 256 << 10;
/// How often threads are listed that end before they are looked at.
const LISTINGS: usize = 8;
/// How many threads are asked that end meanwhile.
const ASKED: usize = 16;

/// A process or thread, pinned.
#[derive(Debug)]
pub(crate) struct PinnedProcess {
    pid: u32,
    dir: Dir,
}

/// Why a fact of a process is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRead {
    /// The kernel says that there is no such process, or that it has ended.
    Gone,
    /// It is there, and each of its threads ended while it was asked.
    Fleeting,
    /// Anything else: the file, and what went wrong.
    Failed(&'static str, Errno),
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it has ended"),
            Self::Fleeting => f.write_str("its threads begin and end faster than they can be looked at"),
            Self::Failed(file, errno) => write!(f, "cannot read /proc/PID{file}: {errno}"),
        }
    }
}

impl PinnedProcess {
    /// Pins the process that has this pid now in a proc file system, or the thread that has
    /// this number in a directory `task`.
    pub(crate) fn open(proc: &Dir, pid: u32) -> Result<Self, NotRead> {
        // The dot takes the right to search the directory, which hidepid refuses.
        match proc.child(format!("{pid}/.").as_str()) {
            Ok(dir) => Ok(Self { pid, dir }),
            Err(errno) if is_end(errno) => Err(NotRead::Gone),
            Err(errno) => Err(NotRead::Failed("", errno)),
        }
    }

    /// The same, by the path of the proc file system.
    pub(crate) fn at(proc: &Path, pid: u32) -> Result<Self, NotRead> {
        Self::open(&Dir::open(proc).map_err(|errno| NotRead::Failed("", errno))?, pid)
    }

    /// The process with this directory. `pid` tells it from its other threads alone.
    pub(crate) fn of_dir(dir: Dir, pid: u32) -> Self {
        Self { pid, dir }
    }

    /// Its pid, or the number of the thread.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its directory in `/proc`.
    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// The same, for a caller that keeps it.
    pub(crate) fn into_dir(self) -> Dir {
        self.dir
    }

    /// Its effective uid: whether it is dumpable or not, the directory itself belongs to
    /// that (`task_dump_owner` in fs/proc/base.c). Of a process that has ended it is 0, so
    /// ask before [`Self::stat`].
    pub(crate) fn uid(&self) -> Result<u32, NotRead> {
        Ok(self.dir.stat().map_err(|errno| self.failed("", errno))?.uid)
    }

    /// The fields of `stat`.
    pub(crate) fn stat(&self) -> Result<Stat, NotRead> {
        stat(&self.dir).map_err(|errno| self.failed("/stat", errno))
    }

    /// The text of `status`.
    pub(crate) fn status(&self) -> Result<Vec<u8>, NotRead> {
        status(&self.dir).map_err(|errno| self.failed("/status", errno))
    }

    /// Its cgroups. Of a path that is too long, some kernels show nothing at all and fail
    /// with `ENAMETOOLONG`.
    pub(crate) fn cgroups(&self) -> Result<CgroupLines, NotRead> {
        let mut text = Vec::new();
        let read = self.dir.read_piece(c"cgroup", &mut text, CGROUP_LIMIT);
        read.map(|()| CgroupLines::new(text)).map_err(|errno| self.failed("/cgroup", errno))
    }

    /// The text of its memory map, which fails with `EFBIG` beyond `limit` bytes; empty of a
    /// thread of the kernel, and of one that is ending.
    pub(crate) fn maps(&self, limit: usize) -> Result<Vec<u8>, NotRead> {
        let mut text = Vec::new();
        let read = self.dir.open_file(c"maps").and_then(|file| read_all(&file, &mut text, limit));
        match read.map_err(|errno| (errno, self.failed("/maps", errno))) {
            Ok(()) => Ok(text),
            Err((errno, NotRead::Failed(..))) if is_end(errno) && self.stat()?.has_no_memory() => {
                Ok(Vec::new())
            }
            Err((_, why)) => Err(why),
        }
    }

    /// Whether it is a process and not one of the other threads of one, which `/proc` shows
    /// too when it is asked by number.
    pub(crate) fn is_process(&self) -> Result<bool, NotRead> {
        Ok(self.process()? == self.pid)
    }

    /// The pid of the process that has this thread.
    pub(crate) fn process(&self) -> Result<u32, NotRead> {
        let text = self.status()?;
        let value = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"));
        let value = value.and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok());
        value.ok_or(NotRead::Failed("/status", Errno::EBADMSG))
    }

    /// The first thread that `lives`; `None` if there is none.
    ///
    /// The files of `/proc/PID` are those of the main thread. Once that has ended they show
    /// no descriptors, and the cgroup in which it ended, whatever the other threads do since.
    pub(crate) fn living_thread(&self, lives: impl Fn(&Stat) -> bool) -> Result<Option<Self>, NotRead> {
        let tasks = self.dir.child(c"task").map_err(|errno| self.failed("/task", errno))?;
        for _ in 0..LISTINGS {
            let (mut found, mut failure, mut vanished) = (None, None, false);
            let listed = tasks.numbers(c".", |_, tid| {
                match Self::open(&tasks, tid).and_then(|thread| Ok((thread.stat()?, thread))) {
                    Ok((stat, thread)) => found = lives(&stat).then_some(thread),
                    Err(NotRead::Gone) => vanished = true,
                    Err(error) => failure = Some(error),
                }
                found.is_none()
            });
            listed.map_err(|errno| self.failed("/task", errno))?;
            match (found, failure) {
                (None, Some(failure)) => return Err(failure),
                (None, None) if vanished => {}
                (Some(thread), _) => match self.in_proc(&thread) {
                    Err(NotRead::Gone) => {}
                    found => return found.map(Some),
                },
                (None, None) => return Ok(None),
            }
        }
        Err(NotRead::Fleeting)
    }

    /// The thread that shows what the process has if its main thread, of which `main` is the
    /// `stat`, is ending: one that goes on, else one that has not ended yet. `None` where the
    /// main thread is the one to ask.
    ///
    /// A main thread that is ending has no memory any more, and its cgroup is the one in
    /// which it began to end. It can stay so for ever: a file of its own FUSE server keeps
    /// it.
    pub(crate) fn other_thread(&self, main: &Stat) -> Result<Option<Self>, NotRead> {
        if !main.is_ending() {
            return Ok(None);
        }
        match self.living_thread(|stat| !stat.is_ending())? {
            None if main.has_ended() => self.living_thread(|stat| !stat.has_ended()),
            found => Ok(found),
        }
    }

    /// What `ask` finds out by the main thread, or by the other one ([`Self::other_thread`]):
    /// by the next one if that ends meanwhile, as each may that is there for a moment only.
    pub(crate) fn by_thread<T>(
        &self,
        main: &Stat,
        mut ask: impl FnMut(&Self) -> Result<T, NotRead>,
    ) -> Result<T, NotRead> {
        for _ in 0..ASKED {
            let other = match self.other_thread(main) {
                Err(NotRead::Fleeting) => continue,
                other => other?,
            };
            let Some(other) = other else { return ask(self) };
            match ask(&other) {
                // The process is gone if this says so.
                Err(NotRead::Gone) => self.stat().map(drop)?,
                answer => return answer,
            }
        }
        Err(NotRead::Fleeting)
    }

    /// Whether it has ended, all its threads with it; `main` is the `stat` of its main
    /// thread.
    pub(crate) fn has_ended(&self, main: &Stat) -> Result<bool, NotRead> {
        Ok(main.has_ended() && self.is_without(|stat| !stat.has_ended())?)
    }

    /// Whether none of its threads will run again: it loses its memory, its descriptors, its
    /// root directory and its namespaces one after the other, while its `stat` is still
    /// there.
    pub(crate) fn is_ending(&self) -> Result<bool, NotRead> {
        Ok(self.stat()?.is_ending() && self.is_without(|stat| !stat.is_ending())?)
    }

    fn is_without(&self, lives: impl Fn(&Stat) -> bool) -> Result<bool, NotRead> {
        match self.living_thread(lives) {
            Err(NotRead::Fleeting) => Ok(false),
            thread => Ok(thread?.is_none()),
        }
    }

    /// The same thread by the directory that `/proc` has for its number: `map_files` is in
    /// that one alone.
    fn in_proc(&self, thread: &Self) -> Result<Self, NotRead> {
        let dir = match self.dir.child(format!("../{}/.", thread.pid).as_str()) {
            Ok(dir) => dir,
            Err(errno) => return Err(thread.failed("", errno)),
        };
        // While the thread lives, nobody else has its number.
        thread.stat()?;
        Ok(Self { pid: thread.pid, dir })
    }

    /// Why one of its files could not be read: it is gone only if all of its files are.
    pub(crate) fn failed(&self, file: &'static str, errno: Errno) -> NotRead {
        let is_gone = || matches!(stat_at(&self.dir, c"stat"), Err(errno) if is_end(errno));
        if is_end(errno) && is_gone() { NotRead::Gone } else { NotRead::Failed(file, errno) }
    }
}

/// What `stat` says of the process with this directory.
///
/// # Errors
///
/// Those of openat(2) and read(2); `EBADMSG` where the text is none of `stat`.
pub(crate) fn stat(process: &Dir) -> Result<Stat, Errno> {
    let mut text = Vec::new();
    process.read_piece(c"stat", &mut text, STAT_LIMIT)?;
    parse_stat(&text).ok_or(Errno::EBADMSG)
}

/// The uids of the process with this directory: real, effective, saved and of the file
/// system.
///
/// # Errors
///
/// Those of openat(2) and read(2); `EBADMSG` where `status` does not say.
pub(crate) fn uids(process: &Dir) -> Result<[u32; 4], Errno> {
    procfile::uids(&status(process)?).ok_or(Errno::EBADMSG)
}

/// The text of `status` of the process with this directory.
///
/// # Errors
///
/// Those of openat(2) and read(2).
pub(crate) fn status(process: &Dir) -> Result<Vec<u8>, Errno> {
    let mut text = Vec::new();
    process.read_piece(c"status", &mut text, STATUS_LIMIT).map(|()| text)
}

/// Whether there is a process or thread of this number, seen or not: signal 0, which is sent to
/// nobody, takes no right to ask for that. In gpumap's own pid namespace.
pub(crate) fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0);
    pid.is_some_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

#[cfg(test)]
mod tests {
    use nix::sys::wait::{Id, WaitPidFlag, waitid};

    use super::*;

    /// Make sure that a process is gone only where the kernel says so, and that its handle
    /// shows nothing of another.
    #[test]
    fn gone() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let process = PinnedProcess::at("/proc".as_ref(), child.id()).unwrap();
        assert!(process.stat().unwrap().parent == std::process::id() && process.is_process().unwrap());
        assert_eq!(process.failed("/stat", Errno::ENOENT), NotRead::Failed("/stat", Errno::ENOENT));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(process.failed("/stat", Errno::ENOMEM), NotRead::Failed("/stat", Errno::ENOMEM));
        assert_eq!(process.stat().unwrap_err(), NotRead::Gone);
        assert!(process.status() == Err(NotRead::Gone) && process.cgroups().is_err());
        assert_eq!(PinnedProcess::at("/proc".as_ref(), child.id()).unwrap_err(), NotRead::Gone);
        let nowhere = PinnedProcess::at("/nonexistent".as_ref(), 1).unwrap_err();
        assert_eq!(nowhere, NotRead::Failed("", Errno::ENOENT));
    }

    /// Make sure that processes are there whoever may see them, and that 0 is none.
    #[test]
    fn numbers() {
        assert!(exists(std::process::id()) && exists(1));
        assert!(!exists(4_194_305) && !exists(0) && !exists(u32::MAX));
    }

    /// Make sure that one that has ended and was not waited for is still there, and ending.
    #[test]
    fn ending() {
        let me = PinnedProcess::at("/proc".as_ref(), std::process::id()).unwrap();
        assert_eq!(me.is_ending(), Ok(false));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = PinnedProcess::at("/proc".as_ref(), child.id()).unwrap();
        let it = Id::Pid(Pid::from_raw(child.id().cast_signed()));
        waitid(it, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).unwrap();
        assert_eq!(process.is_ending(), Ok(true));
        child.wait().unwrap();
        assert_eq!(process.is_ending(), Err(NotRead::Gone));
    }

    /// Make sure that a living thread is found, with the files of a process, and none where
    /// none lives.
    #[test]
    fn threads() {
        let me = PinnedProcess::at("/proc".as_ref(), std::process::id()).unwrap();
        let thread = me.living_thread(|_| true).unwrap().unwrap();
        assert!(thread.dir().child(c"map_files").is_ok());
        assert!(me.living_thread(|_| false).unwrap().is_none());
    }
}
