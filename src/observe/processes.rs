//! The processes of the requested cgroups, each read through one handle of its
//! `/proc` directory, so that a pid that is used again cannot mix two.

use std::collections::HashSet;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use procfs::process::Process as Handle;

use super::devices_v1;
use super::hierarchy::Hierarchy;
use super::log::Log;
use super::procfile::{cgroup_line, parse_stat};
use super::walk::Seen;
use crate::observation::Process;
use crate::sys::dir::read_all;

/// Bytes read of `stat` and `cgroup`: one line, and some fifteen.
const STAT_LIMIT: usize = 8 << 10;
const CGROUP_LIMIT: usize = 256 << 10;

/// Reads the processes that the walk listed and that still are where they
/// were; those that ended meanwhile are left out.
pub(super) fn collect(proc: &Path, hierarchy: &Hierarchy, seen: &[Seen], log: &mut Log) -> Vec<Process> {
    let mut reader = Reader { proc, hierarchy, buffer: Vec::new(), hidden: false };
    let mut processes = Vec::new();
    let mut done = HashSet::new();
    for seen in seen.iter().filter(|seen| seen.requested) {
        for pid in &seen.cgroup.pids {
            if log.out_of_time("reading processes") {
                return processes;
            }
            if done.insert(*pid) {
                processes.extend(reader.read(*pid, seen));
            }
        }
    }
    if reader.hidden {
        let why = "processes that exist are not visible (hidepid, or another pid namespace's --proc)";
        log.add(
            "no-right",
            proc.to_string_lossy(),
            why,
            "CAP_SYS_PTRACE, or the group of the hidepid mount option",
        );
    }
    drop_moved(&mut processes, seen);
    processes
}

/// Whether a process exists, seen or not (signal 0 sends nothing).
fn exists(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return false };
    matches!(kill(Pid::from_raw(pid), None), Ok(()) | Err(Errno::EPERM))
}

/// A process that moved to a cgroup nobody asked about is no longer of
/// interest.
fn drop_moved(processes: &mut Vec<Process>, seen: &[Seen]) {
    let requested = seen.iter().filter(|seen| seen.requested);
    let requested: HashSet<&[u8]> = requested.map(|seen| seen.cgroup.path.as_bytes()).collect();
    processes.retain(|process| requested.contains(process.cgroup.as_bytes()));
}

struct Reader<'a> {
    proc: &'a Path,
    hierarchy: &'a Hierarchy,
    buffer: Vec<u8>,
    /// Whether a living process could not be seen.
    hidden: bool,
}

impl Reader<'_> {
    fn read(&mut self, pid: u32, seen: &Seen) -> Option<Process> {
        let Ok(handle) = Handle::new_with_root(self.proc.join(pid.to_string())) else {
            self.hidden |= exists(pid);
            return None;
        };
        // The directory itself always belongs to the effective uid, whether
        // the process is dumpable or not (`task_dump_owner` in fs/proc/base.c).
        let uid = handle.uid().ok()?;
        let stat = parse_stat(self.file(&handle, "stat", STAT_LIMIT)?)?;
        let (comm, start_time) = (stat.comm.into(), stat.start_time);
        let hierarchy = self.hierarchy;
        let text = self.file(&handle, "cgroup", CGROUP_LIMIT)?;
        let devices = hierarchy.devices.as_ref();
        let devices_v1 =
            devices.and_then(|mount| Some(devices_v1::group(mount, cgroup_line(text, Some(b"devices"))?)));
        let own = if hierarchy.is_legacy() { Some(b"devices".as_slice()) } else { None };
        // A path that this mount cannot show is taken from the walk.
        let cgroup = cgroup_line(text, own).and_then(|path| hierarchy.mount.inside(path));
        let cgroup = cgroup.map_or_else(|| seen.cgroup.path.clone(), Into::into);
        Some(Process { pid, start_time, uid, comm, cgroup, devices_v1, detail: None })
    }

    fn file(&mut self, handle: &Handle, name: &str, limit: usize) -> Option<&[u8]> {
        read_all(handle.open_relative(name).ok()?, &mut self.buffer, limit).ok()?;
        Some(&self.buffer)
    }
}
