//! The node itself: its name, its kernel and its clocks.

use std::path::Path;

use jiff::Timestamp;
use nix::sys::utsname::uname;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{SysconfVar, sysconf};

use super::cgroups::hierarchy::Hierarchy;
use super::options::Options;
use crate::observation::{Host, Observation, SCHEMA};

/// An observation that describes the node and has no facts yet.
pub(super) fn blank(options: &Options, hierarchy: Option<&Hierarchy>) -> Observation {
    Observation {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: now(),
        host: host(&options.proc, hierarchy),
        own_cgroup: hierarchy.and_then(|found| found.own_cgroup(&options.proc)).map(Into::into),
        ..Observation::default()
    }
}

fn host(proc: &Path, hierarchy: Option<&Hierarchy>) -> Host {
    let names = uname().ok();
    let text = |field: Option<&std::ffi::OsStr>| field.unwrap_or_default().to_string_lossy().into_owned();
    Host {
        name: text(names.as_ref().map(|names| names.nodename())),
        kernel: text(names.as_ref().map(|names| names.release())),
        boot_id: boot_id(proc),
        cgroup_root: hierarchy
            .map_or_else(String::new, |found| found.mount.point.to_string_lossy().into_owned()),
        cgroup_mode: hierarchy.map_or_else(Default::default, |found| found.mode),
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

/// The current time, RFC 3339 to the millisecond.
pub(super) fn now() -> String {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now).to_string()
}

/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
const TICK: i128 = 10_000_000;

/// Turns nanoseconds since boot into the time of day.
#[derive(Clone, Copy, Debug)]
pub(super) struct BootClock {
    booted: Option<i128>,
}

impl BootClock {
    /// Compares the clocks now (`CLOCK_BOOTTIME`, suspend included).
    pub(super) fn now() -> Self {
        let nanoseconds = |clock| {
            let time = clock_gettime(clock).ok()?;
            Some(i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec()))
        };
        let booted = || Some(nanoseconds(ClockId::CLOCK_REALTIME)? - nanoseconds(ClockId::CLOCK_BOOTTIME)?);
        Self { booted: booted() }
    }

    /// Clock ticks from boot to a moment, in seconds since 1970; negative before.
    pub(super) fn ticks(self, second: i64) -> Option<i128> {
        let since_boot = i128::from(second).checked_mul(1_000_000_000)?.checked_sub(self.booted?)?;
        Some(since_boot.div_euclid(TICK))
    }

    /// RFC 3339 to the second; empty if unknown (0: a kernel before 4.15).
    pub(super) fn stamp(self, since_boot: u64) -> String {
        let stamp = || {
            let at = self.booted?.checked_add(i128::from(since_boot))?.div_euclid(1_000_000_000);
            Timestamp::from_second(i64::try_from(at).ok()?).ok()
        };
        if since_boot == 0 { None } else { stamp() }.map_or_else(String::new, |stamp| stamp.to_string())
    }
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

    /// Make sure that load times come out as whole seconds and never overflow.
    #[test]
    fn stamps() {
        let clock = BootClock { booted: Some(1_700_000_000_999_999_999) };
        assert_eq!(clock.stamp(1_000_000_001), "2023-11-14T22:13:22Z");
        assert_eq!(clock.stamp(0), "");
        assert_eq!(clock.stamp(u64::MAX).len(), 20);
        assert_eq!(BootClock { booted: None }.stamp(5), "");
    }
}
