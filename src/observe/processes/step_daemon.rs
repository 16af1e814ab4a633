//! Reads the number of a job from slurmstepd, Slurm's daemon of a step, where the
//! job's cgroup has only a SLUID.

use nix::errno::Errno;

use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::processes::helpers::depth::Depth;
use crate::observe::processes::helpers::{HelperPool, Requests};
use crate::observe::processes::title;
use crate::owner::{job_of_socket, job_of_title};
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
    let job = job_of_title(title::of_process(process)?.as_bytes());
    if job.is_some() {
        return Ok(job);
    }
    let sockets = sockets(process.dir()).map_err(|errno| process.failed("/net/unix", errno))?;
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
    names.sort();
    names.dedup();
    Ok(names)
}

/// Inodes of the sockets of a process's descriptors, as `/proc/PID/fd` writes them.
fn inodes(process: &Dir) -> Result<Vec<u64>, Errno> {
    let (fds, mut inodes, mut seen) = (process.child(c"fd")?, Vec::new(), 0);
    fds.numbers(c".", |name, _| {
        // One that was closed since has no link.
        let link = fds.link(name).map(|link| inode(&link));
        inodes.extend(link.ok().flatten());
        seen += 1;
        seen < DESCRIPTORS
    })?;
    Ok(inodes)
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use super::*;

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
