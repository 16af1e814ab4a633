//! The node itself: its name, its kernel, its boot.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use memchr::memmem;
use nix::errno::Errno;
use nix::sys::utsname::uname;
use nix::unistd::{SysconfVar, sysconf};

use super::cgroups::hierarchy::Hierarchy;
use super::clock::now;
use super::error::ObserveError;
use super::options::Options;
use super::problems::Log;
use super::{site_config, slurm_config};
use crate::bytecode::btf;
use crate::model::{ProblemCode, Time};
use crate::observation::{Host, Observation, Problem, SCHEMA};
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::{open_readable, read_all};
use crate::sys::kernel;

/// Bytes of `/proc/stat`, which has a line for each CPU and a word for each interrupt.
const STAT_LIMIT: usize = 16 << 20;
/// Bytes of a boot id, one line.
const ID_LIMIT: usize = 4096;
/// The kernel's description of its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Bytes of it; kernels have 4 to 12 MiB.
const TYPES_LIMIT: usize = 64 << 20;
/// The first release with `bpf_set_retval`, and what its types call it (`linux/bpf.h`).
const RETVAL: (u32, u32) = (5, 18);
const SET_RETVAL: &[u8] = b"\0BPF_FUNC_set_retval\0";

/// An observation that describes the node and has no facts yet. What could not be read of
/// the node is in its `errors`.
pub(super) fn blank(options: &Options, hierarchy: Option<&Hierarchy>) -> Observation {
    let mut log = Log::new(None);
    let host = host(options, hierarchy, &mut log);
    let owner_patterns = site_config::read(options, &mut log).owners;
    Observation {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: now(),
        host,
        owner_patterns,
        own_cgroup: hierarchy.and_then(Hierarchy::own_cgroup).map(Into::into),
        errors: log.problems,
        ..Observation::default()
    }
}

/// The same for a question that needs no cgroup: a node without cgroups is one too.
pub(super) fn without_cgroups(options: &Options) -> Observation {
    match Hierarchy::find(options) {
        Ok(hierarchy) => blank(options, Some(&hierarchy)),
        Err(ObserveError::NoCgroupMount | ObserveError::HiddenMount { .. }) => blank(options, None),
        Err(error) => {
            let mut observation = blank(options, None);
            let (code, why) = (ProblemCode::Observe, error.to_string());
            observation.errors.push(Problem { code, what: "cgroups".to_owned(), why, needs: String::new() });
            observation
        }
    }
}

fn host(options: &Options, hierarchy: Option<&Hierarchy>, log: &mut Log) -> Host {
    let proc = &options.proc;
    // Told; the names are empty then.
    let names = uname().map_err(|errno| log.failed("uname", errno)).ok();
    let text = |field: Option<&std::ffi::OsStr>| field.unwrap_or_default().to_string_lossy().into_owned();
    let boot_id = boot_id(proc).map_err(|(path, errno)| log.failed(path.to_string_lossy(), errno));
    let (stat, mut bytes) = (proc.join("stat"), Vec::new());
    let read = open_readable(&stat).and_then(|file| read_all(file, &mut bytes, STAT_LIMIT));
    log.there(stat.to_string_lossy(), read);
    let ticks = sysconf(SysconfVar::CLK_TCK).map_err(|errno| log.failed("sysconf CLK_TCK", errno));
    let slurm = hierarchy.map(|hierarchy| hierarchy.mount.point.as_path());
    let slurm = slurm_config::places(options, slurm, &[], false, log);
    Host {
        name: text(names.as_ref().map(|names| names.nodename())),
        kernel: text(names.as_ref().map(|names| names.release())),
        boot_id: boot_id.unwrap_or_default(),
        cgroup_root: hierarchy
            .map_or_else(String::new, |found| found.mount.point.to_string_lossy().into_owned()),
        cgroup_mode: hierarchy.map_or_else(Default::default, |found| found.mode),
        slurm_cluster: slurm_config::cluster(options, &slurm, log),
        boot_time: boot_time(&String::from_utf8_lossy(&bytes)),
        // Told; it is unknown then.
        ticks_per_second: ticks.ok().flatten().and_then(|ticks| u64::try_from(ticks).ok()),
        has_retval: has_retval(log),
    }
}

/// Whether a kernel that says it is older has `bpf_set_retval`, which its types name then.
/// `None` where its release tells that, or it describes no types.
fn has_retval(log: &mut Log) -> Option<bool> {
    if kernel::release()? >= RETVAL {
        return None;
    }
    let mut types = Vec::new();
    let read = open_readable(Path::new(TYPES)).and_then(|file| read_all(file, &mut types, TYPES_LIMIT));
    if let Err(errno) = read.or_absent() {
        log.failed(TYPES, errno);
        return None;
    }
    types.starts_with(&btf::MAGIC.to_ne_bytes()).then(|| memmem::find(&types, SET_RETVAL).is_some())
}

/// When the node was booted, as `/proc/stat` says.
fn boot_time(stat: &str) -> Option<Time> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    // A time that no calendar has is unknown.
    Some(Timestamp::from_second(seconds.trim().parse().ok()?).ok()?.into())
}

/// Empty where the kernel has none.
fn boot_id(proc: &Path) -> Result<String, (PathBuf, Errno)> {
    let (path, mut text) = (proc.join("sys/kernel/random/boot_id"), Vec::new());
    let read = open_readable(&path).and_then(|file| read_all(file, &mut text, ID_LIMIT)).or_absent();
    read.map_err(|errno| (path, errno))?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// The boot that this is, `/proc/sys/kernel/random/boot_id`; empty where there is none.
///
/// # Errors
///
/// The file, and why it cannot be read.
pub fn this_boot(options: &Options) -> Result<String, (PathBuf, Errno)> {
    boot_id(&options.proc)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the boot is found among the other lines, and that nonsense
    /// is no time.
    #[test]
    fn boot() {
        let text = "cpu  1 2 3\nintr 5 0\nctxt 7\nbtime 1700000000\nprocesses 9\n";
        assert_eq!(boot_time(text), Some("2023-11-14T22:13:20Z".into()));
        assert_eq!(
            (boot_time(""), boot_time("btime x\n"), boot_time("btime 99999999999999\n")),
            (None, None, None)
        );
    }
}
