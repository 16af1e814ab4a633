//! Reads the number of a job from slurmstepd, Slurm's daemon of a step, where the
//! job's cgroup has only a SLUID.

use nix::dir::Dir as Listing;
use nix::errno::Errno;
use nix::fcntl::{OFlag, readlinkat};
use nix::sys::stat::Mode;

use crate::observation::Text;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::processes::helpers::depth::Depth;
use crate::observe::processes::helpers::{HelperPool, Requests};
use crate::observe::processes::title;
use crate::observe::procfile::cgroup_line;
use crate::owner::{job_of_socket, job_of_title};
use crate::sys::dir::Dir;

/// Bytes read of `net/unix`, some hundred thousand sockets, and of `cgroup`.
const SOCKETS_LIMIT: usize = 16 << 20;
const CGROUP_LIMIT: usize = 256 << 10;
/// Descriptors looked at; a slurmstepd has some dozens.
const DESCRIPTORS: usize = 4096;

/// The job that one of these processes of a cgroup says it serves: a process of
/// root's that is in that cgroup still, by its title, or else by its sockets if
/// they all say the same.
pub(in crate::observe) fn job(options: &Options, cgroup: &Text, pids: &[u32]) -> Option<u64> {
    let hierarchy = Hierarchy::find(options).ok()?;
    let is_there = |process: &Dir| {
        let mut text = Vec::new();
        let read = process.read_into(c"cgroup", &mut text, CGROUP_LIMIT);
        let controller = if hierarchy.is_legacy() { Some(b"devices".as_slice()) } else { None };
        let inside = cgroup_line(&text, controller).and_then(|line| hierarchy.mount.inside(line));
        read.is_ok() && inside.as_deref() == Some(cgroup.as_bytes())
    };
    let mut pool =
        HelperPool::new(Dir::open(&options.proc).ok()?, |proc, requests: Requests<'_, (), Option<u64>>| {
            requests.answer(|pid, (), depth| {
                let process = proc.child(pid.to_string().as_str()).ok()?;
                // `/proc/PID` belongs to the effective uid.
                let is_roots = process.stat().ok()?.uid == 0;
                (is_roots && depth == Depth::Full && is_there(&process)).then(|| served(&process)).flatten()
            });
        });
    let questions: Vec<(u32, ())> = pids.iter().map(|pid| (*pid, ())).collect();
    let mut jobs = Vec::new();
    pool.ask(&questions, options.deadline, |index, job| jobs.extend(job.flatten().map(|job| (index, job))));
    jobs.into_iter().min().map(|(_, job)| job)
}

fn served(process: &Dir) -> Option<u64> {
    job_of_title(title::of_process(process).as_bytes()).or_else(|| {
        let sockets = sockets(process);
        let mut jobs = sockets.iter().filter_map(|name| job_of_socket(name.as_bytes()));
        let first = jobs.next()?;
        jobs.all(|job| job == first).then_some(first)
    })
}

/// Bound Unix sockets that a process has open and that are named like those of
/// slurmstepd (`NODE_JOB.STEP[.HET]`), by file name, sorted. `process` is a handle
/// of `/proc/PID`; empty if it cannot be read.
///
/// It is meant for root's processes in the `slurm` directory of a job with a SLUID,
/// and only if the title does not contain the job's number, because the socket table
/// of a node can be large.
pub(in crate::observe) fn sockets(process: &Dir) -> Vec<Text> {
    let inodes = inodes(process).unwrap_or_default();
    if inodes.is_empty() {
        return Vec::new();
    }
    let mut table = Vec::new();
    if process.read_into(c"net/unix", &mut table, SOCKETS_LIMIT).is_err() {
        return Vec::new();
    }
    let lines = table.split(|byte| *byte == b'\n').filter_map(bound);
    let own = lines.filter(|(inode, name)| inodes.contains(inode) && job_of_socket(name).is_some());
    let mut names: Vec<Text> = own.map(|(_, name)| name.into()).collect();
    names.sort();
    names.dedup();
    names
}

/// Inodes of the sockets of a process's descriptors, as `/proc/PID/fd` writes them.
fn inodes(process: &Dir) -> Result<Vec<u64>, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut listing = Listing::openat(process, c"fd", flags, Mode::empty())?;
    let names: Vec<_> =
        listing.iter().take(DESCRIPTORS).flatten().map(|entry| entry.file_name().to_owned()).collect();
    let links = names.iter().filter_map(|name| readlinkat(&listing, name.as_c_str()).ok());
    Ok(links
        .filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect())
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
        assert_eq!(sockets(&me), ["node_1_77.0.1".into(), "node_1_77.4294967292".into()]);
        drop(held);
        assert!(sockets(&me).is_empty());
        std::fs::remove_dir_all(place).unwrap();
    }
}
