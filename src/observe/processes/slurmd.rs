//! The slurmd that runs, and the `slurm.conf` that it was started with: by its option `-f`,
//! else by `SLURM_CONF` in its environment, as Slurm reads them.
//!
//! It is a hint where to look. Where there is no slurmd, or it cannot be looked into, the
//! usual places are left. What it names is read here, so that one in another mount
//! namespace, where the name may lead to another file, names nothing.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::helpers::{Depth, HelperPool, Requests};
use super::memory;
use crate::observe::options::Options;
use crate::observe::pinned::PinnedProcess;
use crate::sys::dir::{Dir, open_readable, read_all};

/// Bytes of `comm`.
const COMM: usize = 64;
/// Bytes of its arguments and of its environment that are looked at.
const TEXT: u64 = 128 << 10;
/// Bytes read of a list of pids.
const PIDS: usize = 4096;
/// Where its pid is written: by systemd's cgroup of its unit, and by itself
/// (`SlurmdPidFile`).
const PID_FILES: [&str; 4] = [
    "/sys/fs/cgroup/system.slice/slurmd.service/cgroup.procs",
    "/sys/fs/cgroup/unified/system.slice/slurmd.service/cgroup.procs",
    "/run/slurmd.pid",
    "/run/slurm/slurmd.pid",
];
/// Options of slurmd that take no value, and so may stand before `f` in one word
/// (`slurmd -Df FILE`).
const FLAGS: &[u8] = b"bcCDGhMsvV";

/// The `slurm.conf` of the slurmd that runs as root; `everywhere`: all processes are looked
/// at where none is in its usual places.
pub(in crate::observe) fn slurm_conf(options: &Options, everywhere: bool) -> Option<PathBuf> {
    // The hint is missing then.
    let proc = Dir::open(&options.proc).ok()?;
    let pids = PID_FILES.iter().flat_map(|file| pids_in(Path::new(file)));
    let pid = pids.into_iter().find(|pid| is_slurmd(&proc, *pid));
    let pid = pid.or_else(|| if everywhere { find(&proc) } else { None })?;
    let mut pool = HelperPool::new(proc, |proc, requests: Requests<'_, (), Option<Vec<u8>>>| {
        requests.answer(|pid, (), depth| if depth == Depth::Full { named(proc, pid) } else { None });
    });
    let mut found = None;
    pool.ask(&[(pid, ())], options.deadline, |_, answer| found = answer.flatten());
    found.map(|path| PathBuf::from(OsString::from_vec(path))).filter(|path| path.is_absolute())
}

/// The program of the slurmd that runs as root, such as `/opt/slurm/sbin/slurmd`.
pub(in crate::observe) fn program(proc: &Path) -> Option<PathBuf> {
    // The hint is missing then.
    let proc = Dir::open(proc).ok()?;
    let pid = find(&proc)?;
    // The same.
    let path = proc.link(std::ffi::CString::new(format!("{pid}/exe")).ok()?.as_c_str()).ok()?;
    Some(PathBuf::from(OsString::from_vec(path)))
}

/// The pids that a file lists; none where it cannot be read.
fn pids_in(file: &Path) -> Vec<u32> {
    let mut text = Vec::new();
    // The hint is missing then.
    let is_read = open_readable(file).and_then(|file| read_all(file, &mut text, PIDS)).is_ok();
    let text = String::from_utf8_lossy(if is_read { &text } else { b"" });
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// The first process that is one.
fn find(proc: &Dir) -> Option<u32> {
    let mut found = None;
    let listed = proc.numbers(c".", |_, pid| {
        found = is_slurmd(proc, pid).then_some(pid);
        found.is_none()
    });
    // The hint is missing then.
    listed.ok().and(found)
}

fn is_slurmd(proc: &Dir, pid: u32) -> bool {
    let mut comm = Vec::new();
    // The hint is missing where one of them cannot be read.
    PinnedProcess::open(proc, pid).is_ok_and(|process| {
        // The same.
        process.dir().read_into(c"comm", &mut comm, COMM).is_ok()
            && comm.trim_ascii_end() == b"slurmd"
            // The same.
            && process.uid().is_ok_and(|uid| uid == 0)
    })
}

/// The file that a slurmd in this mount namespace was told to read.
fn named(proc: &Dir, pid: u32) -> Option<Vec<u8>> {
    // The hint is missing where anything of it cannot be read.
    let process = PinnedProcess::open(proc, pid).ok()?;
    // The same.
    let (here, there) = (proc.link(c"self/ns/mnt").ok()?, process.dir().link(c"ns/mnt").ok()?);
    let read = memory::of_one_program(&process, |memory, stat| {
        // The same.
        let memory = memory.as_mut().ok()?;
        let (mut arguments, mut environment) = (Vec::new(), Vec::new());
        let bounded = |(start, end): (u64, u64)| (start, end.min(start.saturating_add(TEXT)));
        // The same.
        memory.area(bounded(stat.arguments), &mut arguments).ok()?;
        // The same.
        memory.area(bounded(stat.environment), &mut environment).ok()?;
        Some((arguments, environment))
    });
    // The same.
    let (arguments, environment) = read.ok()??;
    (here == there).then(|| of_arguments(&arguments).or_else(|| of_environment(&environment))).flatten()
}

/// The value of `-f`, the last as getopt(3) has it.
fn of_arguments(text: &[u8]) -> Option<Vec<u8>> {
    let mut words = text.split(|byte| *byte == 0).skip(1).filter(|word| !word.is_empty());
    let mut found = None;
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix(b"-").filter(|letters| !letters.starts_with(b"-")) else {
            continue;
        };
        let flags = letters.iter().take_while(|letter| FLAGS.contains(letter)).count();
        match letters.get(flags..) {
            Some([b'f']) => found = words.next().map(<[u8]>::to_vec),
            Some([b'f', value @ ..]) => found = Some(value.to_vec()),
            _ => {}
        }
    }
    found
}

fn of_environment(text: &[u8]) -> Option<Vec<u8>> {
    let mut entries = text.split(|byte| *byte == 0);
    entries.find_map(|entry| entry.strip_prefix(b"SLURM_CONF=")).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the option is found as getopt(3) takes it, and nothing that only looks
    /// like it.
    #[test]
    fn options() {
        for (line, expected) in [
            ("slurmd\0-f\0/a/slurm.conf\0", Some("/a/slurm.conf")),
            ("slurmd\0-D\0-f/a\0", Some("/a")),
            ("slurmd\0-Df\0/a\0-vvv\0", Some("/a")),
            ("slurmd\0-f\0/a\0-f\0/b\0", Some("/b")),
            ("slurmd\0-N\0-f\0", None),
            ("slurmd\0--conf-server\0f\0", None),
            ("slurmd\0-L\0/var/f\0", None),
            ("/x/-f\0y\0", None),
            ("", None),
        ] {
            let expected = expected.map(|path| path.as_bytes().to_vec());
            assert_eq!(of_arguments(line.as_bytes()), expected, "{line:?}");
        }
        let environment = b"A=b\0MY_SLURM_CONF=/no\0SLURM_CONF=/etc/x/slurm.conf\0";
        assert_eq!(of_environment(environment).unwrap(), b"/etc/x/slurm.conf");
        assert_eq!(of_environment(b""), None);
    }
}
