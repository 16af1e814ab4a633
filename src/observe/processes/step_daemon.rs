//! Slurm's daemon of a step, slurmstepd: its title, and the number of a job from it or from
//! its sockets, where the job's cgroup has only a SLUID.
//!
//! The title is read from the memory area that `/proc/PID/stat` names. `/proc/PID/cmdline`
//! shows the same, but reading it faults pages in, which can block for ever.

use nix::errno::Errno;

use super::helpers::{Depth, HelperPool, Requests};
use super::memory::{self, Memory};
use crate::model::InOrder as _;
use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::owner::{job_of_socket, job_of_title};
use crate::sys::absence::{OrAbsent as _, is_end};
use crate::sys::dir::Dir;

/// Bytes read of `net/unix`, some hundred thousand sockets.
const SOCKETS_LIMIT: usize = 16 << 20;
/// Descriptors looked at; a slurmstepd has some dozens.
const DESCRIPTORS: usize = 4096;

/// The job that one of these processes of a cgroup says it serves: a process of
/// root's that is in that cgroup still, by its title, or else by its sockets if
/// they all say the same.
///
/// # Errors
///
/// One of them cannot be read, and no other says it.
pub(in crate::observe) fn job(
    options: &Options,
    hierarchy: &Hierarchy,
    cgroup: &Text,
    pids: &[u32],
) -> Result<Option<u64>, Errno> {
    let proc = Dir::open(&options.proc)?;
    let mut pool = HelperPool::new(proc, |proc, requests: Requests<'_, (), Result<Option<u64>, i32>>| {
        let number = |pid: u32, depth: Depth| -> Result<Option<u64>, NotRead> {
            let process = PinnedProcess::open(proc, pid)?;
            let (uid, lines) = (process.uid()?, process.cgroups()?);
            let inside = hierarchy.line(&lines).and_then(|line| hierarchy.mount.inside(line));
            let is_it = uid == 0 && depth == Depth::Full && inside.as_deref() == Some(cgroup.as_bytes());
            if is_it { served(&process) } else { Ok(None) }
        };
        requests.answer(|pid, (), depth| match number(pid, depth) {
            Ok(job) => Ok(job),
            // Without the right to look the job has no number.
            Err(NotRead::Gone | NotRead::Failed(_, Errno::EACCES | Errno::EPERM)) => Ok(None),
            Err(NotRead::Failed(_, errno)) => Err(errno as i32),
            Err(NotRead::Fleeting) => Err(Errno::EAGAIN as i32),
        });
    });
    let questions: Vec<(u32, ())> = pids.iter().map(|pid| (*pid, ())).collect();
    let (mut jobs, mut failed) = (Vec::new(), None);
    pool.ask(&questions, options.deadline, |index, answer| match answer {
        Some(Ok(job)) => jobs.extend(job.map(|job| (index, job))),
        Some(Err(errno)) => failed = Some(Errno::from_raw(errno)),
        None => failed = Some(Errno::ETIMEDOUT),
    });
    match (jobs.into_iter().min(), failed) {
        (Some((_, job)), _) => Ok(Some(job)),
        (None, Some(errno)) => Err(errno),
        (None, None) => Ok(None),
    }
}

fn served(process: &PinnedProcess) -> Result<Option<u64>, NotRead> {
    let job = job_of_title(of_process(process)?.as_bytes());
    if job.is_some() {
        return Ok(job);
    }
    let sockets = match sockets(process.dir()) {
        Err(errno) if is_end(errno) && process.is_ending()? => return Ok(None),
        sockets => sockets.map_err(|errno| process.failed("/net/unix", errno))?,
    };
    let mut jobs = sockets.iter().filter_map(|name| job_of_socket(name.as_bytes()));
    let first = jobs.next();
    Ok(first.filter(|first| jobs.all(|job| job == *first)))
}

/// Bound Unix sockets that a process has open and that are named like those of
/// slurmstepd (`NODE_JOB.STEP[.HET]`), by file name, sorted. `process` is a handle
/// of `/proc/PID`.
///
/// It is meant for root's processes in the `slurm` directory of a job with a SLUID,
/// and only if the title does not contain the job's number, because the socket table
/// of a node can be large.
///
/// # Errors
///
/// Its descriptors or the table cannot be read.
pub(in crate::observe) fn sockets(process: &Dir) -> Result<Vec<Text>, Errno> {
    let inodes = inodes(process)?;
    if inodes.is_empty() {
        return Ok(Vec::new());
    }
    let mut table = Vec::new();
    process.read_into(c"net/unix", &mut table, SOCKETS_LIMIT)?;
    let lines = table.split(|byte| *byte == b'\n').filter_map(bound);
    let own = lines.filter(|(inode, name)| inodes.contains(inode) && job_of_socket(name).is_some());
    let mut names: Vec<Text> = own.map(|(_, name)| name.into()).collect();
    names.order();
    names.dedup();
    Ok(names)
}

/// Inodes of the sockets of a process's descriptors, as `/proc/PID/fd` writes them.
fn inodes(process: &Dir) -> Result<Vec<u64>, Errno> {
    let (fds, mut inodes, mut seen) = (process.child(c"fd")?, Vec::new(), 0);
    let mut failed = None;
    fds.numbers(c".", |name, _| {
        match fds.link(name).or_ended() {
            Ok(link) => inodes.extend(link.and_then(|link| inode(&link))),
            Err(errno) => failed = Some(errno),
        }
        seen += 1;
        seen < DESCRIPTORS && failed.is_none()
    })?;
    failed.map_or(Ok(inodes), Err)
}

/// The inode in a link `socket:[1234]`.
fn inode(link: &[u8]) -> Option<u64> {
    std::str::from_utf8(link).ok()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Inode and file name of a socket bound to a path, from a line of `net/unix`
/// (`unix_seq_show` in net/unix/af_unix.c: six columns, the inode, the path).
///
/// A path may contain a newline and so forge a line. The true line is still there,
/// so a forger can only make a process contradict itself.
fn bound(line: &[u8]) -> Option<(u64, &[u8])> {
    let (inode, path) = (0..6).try_fold(line, |rest, _| Some(column(rest)?.1)).and_then(column)?;
    let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
    path.starts_with(b"/").then(|| (inode, path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()))
}

/// The first column, and the rest after its blank.
fn column(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|byte| *byte == b' ')?;
    Some((line.get(..end)?, line.get(end + 1..)?))
}

/// Bytes that are kept.
const LIMIT: u64 = 256;
/// The name of Slurm's daemon of a step, with which its title begins
/// (`slurmstepd: [4711.batch]`).
pub(super) const STEP_DAEMON: &[u8] = b"slurmstepd";

/// The title of a step's daemon, without trailing NULs; empty for all other
/// processes, whose arguments may be secrets.
pub(super) fn of_daemon(memory: &mut Memory, arguments: (u64, u64), last: u64) -> Text {
    let mut text = Vec::new();
    read(memory, arguments, last, &mut text);
    let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let title = text.get(..end).unwrap_or_default();
    if title.starts_with(STEP_DAEMON) { title.into() } else { Text::default() }
}

/// The title of a process; empty if it is no step's daemon, or a right to its memory is
/// missing.
///
/// # Errors
///
/// `stat` or its memory cannot be read.
pub(super) fn of_process(process: &PinnedProcess) -> Result<Text, NotRead> {
    let title = memory::of_one_program(process, |memory, stat| {
        Some(match memory {
            Ok(memory) => {
                let title = of_daemon(memory, stat.arguments, stat.environment.1);
                memory.failure().map_or(Ok(title), |errno| Err(NotRead::Failed("/mem", errno)))
            }
            Err(none) => match none.errno {
                Errno::EACCES | Errno::EPERM | Errno::EOPNOTSUPP => Ok(Text::default()),
                // It is exiting, and has no memory any more.
                errno if is_end(errno) => Ok(Text::default()),
                errno => Err(process.failed("/mem", errno)),
            },
        })
    });
    title?.unwrap_or_else(|| Ok(Text::default()))
}

/// As `get_mm_cmdline` of fs/proc/base.c: the arguments, or, where their last
/// byte was written over, one string that may go on to `last`, the end of the
/// environment.
fn read(memory: &mut Memory, (start, end): (u64, u64), last: u64, text: &mut Vec<u8>) {
    if end <= start {
        return;
    }
    // Whether a call failed the memory knows.
    let is_whole = memory.array::<1>(end - 1) == Ok([0]);
    let end = if is_whole { end } else { last.max(end) };
    // The part that can be read is enough.
    let _fault = memory.area((start, end.min(start.saturating_add(LIMIT))), text);
    if !is_whole {
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    /// Make sure that only sockets with paths are read, whatever is in them.
    #[test]
    fn lines() {
        let line = |rest: &str| format!("0000000086e6c26d: 00000002 00000000 00010000 0001 01   172{rest}");
        assert_eq!(bound(line(" /run/a b_7.0").as_bytes()), Some((172, &b"a b_7.0"[..])));
        assert_eq!(bound(line(" @/run/n_7.0").as_bytes()), None);
        assert_eq!(bound(line("").as_bytes()), None);
        for bad in
            ["", "Num       RefCount Protocol Flags    Type St Inode Path", "a b", "x y z 1 2 3 q /n_7.0"]
        {
            assert_eq!(bound(bad.as_bytes()), None, "{bad}");
        }
    }

    /// Make sure that a process's own sockets are found by name.
    #[test]
    fn own_sockets() {
        let place = std::env::temp_dir().join(format!("gpumap-stepd-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        let names = ["node_1_77.4294967292", "node_1_77.0.1", "unrelated"];
        let held = names.map(|name| UnixListener::bind(place.join(name)).unwrap());
        let me = Dir::open(Path::new("/proc/self")).unwrap();
        assert_eq!(sockets(&me).unwrap(), ["node_1_77.0.1".into(), "node_1_77.4294967292".into()]);
        drop(held);
        assert!(sockets(&me).unwrap().is_empty());
        std::fs::remove_dir_all(place).unwrap();
    }
}
