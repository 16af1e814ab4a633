//! Where cgroups are mounted, and whether the kernel answers about their programs.

use std::os::fd::AsFd as _;

use nix::errno::Errno;

use crate::observation::{Answer, CgroupMount, Setup};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::mounts::{Mount, Mounts};
use crate::observe::options::Options;
use crate::observe::problems::refusal;
use crate::sys::bpf::{ListKind, query};
use crate::sys::caps::Capability::{NetAdmin, SysAdmin};
use crate::sys::dir::FileSystem;

/// Adds both to the setup.
pub(super) fn collect(options: &Options, setup: &mut Setup) {
    if let Ok(mounts) = Mounts::read(&options.proc) {
        let describe = |mount: &Mount| CgroupMount {
            point: mount.point.to_string_lossy().into_owned(),
            root: String::from_utf8_lossy(&mount.root).into_owned(),
            hidden: Mounts::visible(std::slice::from_ref(mount), &options.proc).is_none(),
        };
        setup.cgroup2 = mounts.cgroup2.iter().map(describe).collect();
        let devices = Mounts::visible(&mounts.devices, &options.proc);
        setup.devices_v1 = devices.map(|(mount, _)| mount.point.to_string_lossy().into_owned());
    }
    match Hierarchy::find(options) {
        Err(error) => {
            setup.hierarchy = Answer::Missing(error.to_string());
            setup.queries = Answer::Missing("no cgroup hierarchy can be reached".to_owned());
        }
        Ok(hierarchy) => {
            setup.hierarchy = Answer::Known(hierarchy.mount.point.to_string_lossy().into_owned());
            setup.queries = queries(&hierarchy);
            setup.whole_hierarchy = is_whole(&hierarchy);
        }
    }
}

/// Whether what is mounted begins at the root of the hierarchy, whatever the mount table
/// says: a cgroup namespace shows other paths there, and not other cgroups. Every cgroup
/// but the root has `cgroup.events` (cgroups(7)).
fn is_whole(hierarchy: &Hierarchy) -> Option<bool> {
    if !matches!(hierarchy.handle.file_system(), Ok(FileSystem::Cgroup2)) {
        return None;
    }
    match hierarchy.handle.open_file(c"cgroup.events") {
        Ok(_) | Err(Errno::EACCES | Errno::EPERM) => Some(false),
        Err(Errno::ENOENT) => Some(true),
        Err(_) => None,
    }
}

/// Asks for the programs of the root, as every command does for its cgroups.
pub(super) fn queries(hierarchy: &Hierarchy) -> Answer<()> {
    if hierarchy.is_legacy() {
        return Answer::Missing("without cgroup2 there are no device programs".to_owned());
    }
    match query(hierarchy.handle.as_fd(), ListKind::Effective) {
        Ok(_) => Answer::Known(()),
        Err(error) if error.is_refused() => Answer::Missing(refusal(error, &[NetAdmin, SysAdmin])),
        Err(error) => Answer::Missing(error.to_string()),
    }
}
