//! The node itself: its name, its kernel, its boot.

use std::path::Path;

use jiff::Timestamp;
use nix::sys::utsname::uname;
use nix::unistd::{SysconfVar, sysconf};

use super::cgroups::hierarchy::Hierarchy;
use super::clock::now;
use super::options::Options;
use super::slurm_config;
use crate::observation::{Host, Observation, SCHEMA};

/// An observation that describes the node and has no facts yet.
pub(super) fn blank(options: &Options, hierarchy: Option<&Hierarchy>) -> Observation {
    Observation {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: now(),
        host: host(options, hierarchy),
        own_cgroup: hierarchy.and_then(|found| found.own_cgroup(&options.proc)).map(Into::into),
        ..Observation::default()
    }
}

fn host(options: &Options, hierarchy: Option<&Hierarchy>) -> Host {
    let proc = &options.proc;
    let names = uname().ok();
    let text = |field: Option<&std::ffi::OsStr>| field.unwrap_or_default().to_string_lossy().into_owned();
    Host {
        name: text(names.as_ref().map(|names| names.nodename())),
        kernel: text(names.as_ref().map(|names| names.release())),
        boot_id: boot_id(proc),
        cgroup_root: hierarchy
            .map_or_else(String::new, |found| found.mount.point.to_string_lossy().into_owned()),
        cgroup_mode: hierarchy.map_or_else(Default::default, |found| found.mode),
        slurm_cluster: slurm_config::cluster(options),
        boot_time: boot_time(&std::fs::read_to_string(proc.join("stat")).unwrap_or_default()),
        ticks_per_second: sysconf(SysconfVar::CLK_TCK)
            .ok()
            .flatten()
            .and_then(|ticks| u64::try_from(ticks).ok()),
    }
}

/// When the node was booted, as `/proc/stat` says.
fn boot_time(stat: &str) -> Option<String> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(Timestamp::from_second(seconds.trim().parse().ok()?).ok()?.to_string())
}

fn boot_id(proc: &Path) -> String {
    let id = std::fs::read_to_string(proc.join("sys/kernel/random/boot_id"));
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// The boot that this is, `/proc/sys/kernel/random/boot_id`; empty if it cannot be
/// read.
pub fn this_boot(options: &Options) -> String {
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
        assert_eq!(boot_time(text).as_deref(), Some("2023-11-14T22:13:20Z"));
        assert_eq!(
            (boot_time(""), boot_time("btime x\n"), boot_time("btime 99999999999999\n")),
            (None, None, None)
        );
    }
}
