//! Whether `/proc` hides the processes of others (`hidepid`, proc(5)).

use std::fs::{self, File};
use std::path::Path;

use nix::errno::Errno;

use super::problems::errno_of;
use crate::sys::dir::read_all;
use crate::sys::retry::again;

/// Bytes of the mount table.
const MOUNTS_LIMIT: usize = 64 << 20;

/// The `hidepid` option with which `/proc` is mounted, unless it is off, and whether
/// gpumap is in the group that it does not concern.
///
/// # Errors
///
/// Those of reading the mount table.
pub(in crate::observe) fn hidepid(proc: &Path) -> Result<Option<(String, bool)>, Errno> {
    let mut table = Vec::new();
    let file = again(|| File::open(proc.join("self/mounts"))).map_err(|error| errno_of(&error))?;
    read_all(file, &mut table, MOUNTS_LIMIT)?;
    let real = again(|| fs::canonicalize(proc)).map_err(|error| errno_of(&error))?;
    let Some((value, group)) = hidden_processes(&String::from_utf8_lossy(&table), &real) else {
        return Ok(None);
    };
    let groups = nix::unistd::getgroups()?;
    let is_in = |group: u32| {
        nix::unistd::getegid().as_raw() == group || groups.iter().any(|one| one.as_raw() == group)
    };
    // It concerns everybody who may not trace a process (`fs/proc/base.c`).
    let concerns_all = matches!(value.as_str(), "4" | "ptraceable");
    Ok(Some((value, !concerns_all && is_in(group))))
}

/// The option and its group of a mount table (proc_pid_mounts(5)). A later line hides an
/// earlier one.
fn hidden_processes(table: &str, proc: &Path) -> Option<(String, u32)> {
    let mut lines = table.lines().rev().map(|line| line.split(' ').collect::<Vec<_>>());
    let line = lines.find(|fields| fields.get(1).is_some_and(|point| Path::new(point) == proc))?;
    let option = |name: &str| line.get(3)?.split(',').find_map(|option| option.strip_prefix(name));
    let value = option("hidepid=")?;
    let group = option("gid=").and_then(|gid| gid.parse().ok()).unwrap_or(0);
    (!matches!(value, "0" | "off")).then(|| (value.to_owned(), group))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the option of the right mount is reported, and not one that is
    /// off.
    #[test]
    fn hidden() {
        let table = "proc /other proc rw,hidepid=2 0 0\nproc /proc proc rw,hidepid=invisible 0 0\n";
        assert_eq!(hidden_processes(table, Path::new("/proc")), Some(("invisible".to_owned(), 0)));
        let group = "proc /proc proc rw,gid=7,hidepid=1 0 0\n";
        assert_eq!(hidden_processes(group, Path::new("/proc")), Some(("1".to_owned(), 7)));
        let later = format!("{table}proc /proc proc rw,hidepid=0 0 0\n");
        assert_eq!(hidden_processes(&later, Path::new("/proc")), None);
        assert_eq!(hidden_processes("x", Path::new("/proc")), None);
    }
}
