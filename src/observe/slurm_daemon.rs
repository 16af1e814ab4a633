//! The slurmd of this node, as the kernel shows it: which configuration it was started
//! with. Nothing is sent to it.
//!
//! A name is no identity: a slurmd is a process of that name of which every uid is root's,
//! in gpumap's own root directory and pid namespace. One in a container has paths of its
//! own, which mean nothing here.

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::observation::Process;

use super::pinned::{NotRead, PinnedProcess};
use super::processes::memory::{self, Memory, NoMemory};
use super::procfile::{self, Stat};
use crate::sys::absence::{OrAbsent as _, is_end};
use crate::sys::dir::{Dir, open_readable, read_all};
use crate::sys::stat::stat_at;

/// The name of the daemon.
const NAME: &str = "slurmd";
/// Files with the pid of a slurmd: the default of SlurmdPidFile, and what packages set.
const PID_FILES: [&str; 3] = ["/run/slurmd.pid", "/run/slurm/slurmd.pid", "/run/slurm-llnl/slurmd.pid"];
/// Its unit's processes, below the cgroup root.
const UNIT: &str = "system.slice/slurmd.service/cgroup.procs";
/// Bytes of these files, and of `comm`.
const SMALL: usize = 4096;
/// Bytes of arguments and of an environment that are read.
const AREA: u64 = 256 << 10;

/// How a slurmd was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Daemon {
    pub(super) pid: u32,
    /// Its program, if that can be seen.
    pub(super) file: Option<PathBuf>,
    /// The `slurm.conf` that `-f` or `SLURM_CONF` names.
    pub(super) conf: Option<PathBuf>,
    /// Whether it takes its configuration from slurmctld (`--conf-server`).
    pub(super) is_configless: bool,
}

/// Whether a process is called slurmd.
pub(super) fn is_called(process: &Process) -> bool {
    process.comm.as_bytes() == NAME.as_bytes()
}

/// All processes that are called slurmd, but for those that were looked at already.
///
/// # Errors
///
/// Those of opening and listing `proc`, and of reading a `comm`.
pub(super) fn listed(proc: &Path, looked_at: &HashSet<u32>) -> Result<Vec<u32>, Errno> {
    let proc = Dir::open(proc)?;
    let (mut comm, mut found, mut failed) = (Vec::new(), Vec::new(), None);
    proc.numbers(c".", |name, pid| {
        if looked_at.contains(&pid) {
            return true;
        }
        // As few calls as can be: there may be thousands.
        let file = CString::new([name.to_bytes(), b"/comm"].concat()).map_err(|_| Errno::EINVAL);
        match file.and_then(|file| proc.read_piece(&file, &mut comm, SMALL)).or_ended() {
            Ok(Some(())) if comm.trim_ascii_end() == NAME.as_bytes() => found.push(pid),
            Ok(_) => {}
            Err(errno) => failed = Some(errno),
        }
        true
    })?;
    failed.map_or(Ok(found), Err)
}

/// Every slurmd of this node.
///
/// # Errors
///
/// Why it is not known, in a sentence.
pub(super) fn all(proc: &Path) -> Result<Vec<Daemon>, String> {
    let pids =
        listed(proc, &HashSet::new()).map_err(|errno| format!("{}: {}", proc.display(), errno.desc()))?;
    let found: Result<Vec<_>, _> = pids.into_iter().map(|pid| by_pid(proc, pid)).collect();
    Ok(found.map_err(|why| format!("slurmd: {why}"))?.into_iter().flatten().collect())
}

/// The pids that pid files and the unit of slurmd name: where a process may be looked for
/// without going through all of them.
///
/// # Errors
///
/// The file, and why it cannot be read.
pub(super) fn hinted(cgroups: Option<&Path>) -> Result<Vec<u32>, (PathBuf, Errno)> {
    let unit = cgroups.map(|root| root.join(UNIT));
    let (mut found, mut text) = (Vec::new(), Vec::new());
    for path in PID_FILES.iter().map(PathBuf::from).chain(unit) {
        text.clear();
        let read = open_readable(&path).and_then(|file| read_all(file, &mut text, SMALL));
        if read.or_absent().map_err(|errno| (path, errno))?.is_some() {
            let words = text.split(u8::is_ascii_whitespace).filter_map(|word| std::str::from_utf8(word).ok());
            // Text that is no number names no process.
            found.extend(words.filter_map(|word| word.parse::<u32>().ok()));
        }
    }
    Ok(found)
}

/// The slurmd with this pid; `None` where that is no slurmd of this node.
///
/// # Errors
///
/// What of it cannot be read.
pub(super) fn by_pid(proc: &Path, pid: u32) -> Result<Option<Daemon>, NotRead> {
    let found = PinnedProcess::at(proc, pid).and_then(|process| match described(&process) {
        // Its children have its name until they execute a program, and may end before.
        Err(NotRead::Failed(_, errno)) if is_end(errno) && process.is_ending()? => Ok(None),
        found => found,
    });
    match found {
        Err(NotRead::Gone) => Ok(None),
        found => found,
    }
}

fn described(process: &PinnedProcess) -> Result<Option<Daemon>, NotRead> {
    if process.stat()?.comm.as_bytes() != NAME.as_bytes() || !is_here(process)? {
        return Ok(None);
    }
    let file = seen(process.dir().link(c"exe")).map_err(|errno| process.failed("/exe", errno))?;
    let started = memory::of_one_program(process, |memory, stat| Some(started(process, memory, stat)))?;
    let Some(started) = started else { return Ok(None) };
    let (arguments, environment) = started?;
    let named = Named::of(&arguments);
    let variable = environment.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(b"SLURM_CONF="));
    let conf = named.conf.or_else(|| variable.map(path)).filter(|path| !path.as_os_str().is_empty());
    let file = file.map(|path| PathBuf::from(OsString::from_vec(path)));
    Ok(Some(Daemon { pid: process.pid(), file, conf, is_configless: named.is_configless }))
}

/// What a call said; `None` where a right is missing.
fn seen<T>(result: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match result {
        Err(Errno::EACCES | Errno::EPERM) => Ok(None),
        result => result.map(Some),
    }
}

/// Whether every uid of it is root's, and its paths and pids are gpumap's.
fn is_here(process: &PinnedProcess) -> Result<bool, NotRead> {
    let status = process.status()?;
    if procfile::uids(&status) != Some([0; 4]) || procfile::pid_namespaces(&status) > 1 {
        return Ok(false);
    }
    let own = Dir::open(Path::new("/")).and_then(|root| stat_at(&root, c""));
    let same = seen(stat_at(process.dir(), c"root")).and_then(|root| {
        Ok(root.zip(Some(own?)).map(|(one, own)| (one.dev, one.inode) == (own.dev, own.inode)))
    });
    // Whoever may not look at its root may not see what it was started with either.
    same.map(|same| same == Some(true)).map_err(|errno| process.failed("/root", errno))
}

/// Its arguments and its environment as it was started; empty without the right to see
/// them.
fn started(
    process: &PinnedProcess,
    memory: &mut Result<Memory, NoMemory>,
    stat: &Stat,
) -> Result<(Vec<u8>, Vec<u8>), NotRead> {
    let (mut arguments, mut environment) = (Vec::new(), Vec::new());
    let memory = match memory {
        Ok(memory) => memory,
        Err(NoMemory { errno: Errno::EACCES | Errno::EPERM | Errno::EOPNOTSUPP, .. }) => {
            return Ok((arguments, environment));
        }
        Err(NoMemory { errno, .. }) => return Err(process.failed("/mem", *errno)),
    };
    for ((start, end), text) in [(stat.arguments, &mut arguments), (stat.environment, &mut environment)] {
        let end = end.min(start.saturating_add(AREA));
        // What is there is enough; a call that failed is told.
        let _fault = memory.area((start, end), text);
    }
    memory.failure().map_or(Ok((arguments, environment)), |errno| Err(process.failed("/mem", errno)))
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// What the arguments of a slurmd name (`slurmd -h` of 22.05 to 26.05).
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    conf: Option<PathBuf>,
    is_configless: bool,
}

impl Named {
    /// Single letters that take a value.
    const WITH_VALUE: &[u8] = b"dfLnNB";

    /// Reads them as getopt(3) does.
    fn of(arguments: &[u8]) -> Self {
        let mut found = Self::default();
        let mut words = arguments.split(|byte| *byte == 0).skip(1);
        while let Some(word) = words.next() {
            if word == b"--" {
                break;
            } else if let Some(long) = word.strip_prefix(b"--") {
                found.is_configless |= long.starts_with(b"conf-server");
            } else if let Some(letters) = word.strip_prefix(b"-") {
                let Some(at) = letters.iter().position(|letter| Self::WITH_VALUE.contains(letter)) else {
                    continue;
                };
                let rest = letters.get(at + 1..).filter(|rest| !rest.is_empty());
                let value = rest.or_else(|| words.next());
                if letters.get(at) == Some(&b'f') {
                    found.conf = value.map(path);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that options are read as getopt does, and that a value is not an option.
    #[test]
    fn arguments() {
        let conf = |line: &str| Named::of(line.replace(' ', "\0").as_bytes()).conf;
        let expected = Some(PathBuf::from("/a/b.conf"));
        for line in [
            "slurmd -f /a/b.conf",
            "slurmd -D -f/a/b.conf",
            "slurmd -Df /a/b.conf",
            "slurmd --systemd -N n1 -f /a/b.conf -v",
            "slurmd -f /x -f /a/b.conf",
        ] {
            assert_eq!(conf(line), expected, "{line}");
        }
        for line in
            ["slurmd", "slurmd -N -f", "slurmd -Nf /a", "slurmd -- -f /a", "slurmd --f /a", "slurmd -f"]
        {
            assert_eq!(conf(line), None, "{line}");
        }
        for (line, expected) in [("slurmd --conf-server ctl -D", true), ("slurmd -N --conf-server", false)] {
            assert_eq!(Named::of(line.replace(' ', "\0").as_bytes()).is_configless, expected, "{line}");
        }
    }

    /// Make sure that this process, which is no slurmd, is none, and neither is a pid of
    /// nobody.
    #[test]
    fn others() {
        assert!(matches!(by_pid(Path::new("/proc"), std::process::id()), Ok(None)));
        assert!(matches!(by_pid(Path::new("/proc"), u32::MAX >> 1), Ok(None)));
    }
}
