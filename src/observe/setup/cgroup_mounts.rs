//! Where cgroups are mounted, and whether the kernel answers about their programs.

use std::os::fd::AsFd as _;

use crate::observation::{Answer, CgroupMount, Setup};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::mounts::{Mount, Mounts};
use crate::observe::cgroups::query::UNMOUNTED;
use crate::observe::options::Options;
use crate::observe::problems::refusal;
use crate::observe::view;
use crate::sys::bpf::{ListKind, query};
use crate::sys::caps::Capability::{NetAdmin, SysAdmin};

/// Adds both to the setup.
pub(super) fn collect(options: &Options, setup: &mut Setup) {
    // The hierarchy is not found either then, which is told below.
    if let Ok(mounts) = Mounts::read(&options.proc) {
        let describe = |mount: &Mount| CgroupMount {
            point: mount.point.to_string_lossy().into_owned(),
            root: String::from_utf8_lossy(&mount.root).into_owned(),
            // One that cannot be looked at is not reached either, which is told below.
            hidden: matches!(Mounts::visible(std::slice::from_ref(mount), &options.proc), Ok(None)),
        };
        setup.cgroup2 = mounts.cgroup2.iter().map(describe).collect();
        // One that cannot be opened is mounted all the same.
        let devices = Mounts::visible(&mounts.devices, &options.proc);
        let point =
            devices.map_or_else(|(point, _)| Some(point), |found| found.map(|(mount, _)| mount.point));
        setup.devices_v1 = point.map(|point| point.to_string_lossy().into_owned());
    }
    match Hierarchy::find(options) {
        Err(error) => {
            setup.hierarchy = Answer::Missing(error.to_string());
            setup.queries = Answer::Missing("no cgroup hierarchy can be reached".to_owned());
        }
        Ok(hierarchy) => {
            setup.hierarchy = Answer::Known(hierarchy.mount.point.to_string_lossy().into_owned());
            setup.queries = queries(&hierarchy);
            setup.hides_cgroup2 = hierarchy.hides_cgroup2;
            // An error leaves it unknown.
            setup.whole_hierarchy = view::is_whole(&hierarchy).unwrap_or_default();
        }
    }
}

/// Asks for the programs of the root, as every command does for its cgroups.
pub(super) fn queries(hierarchy: &Hierarchy) -> Answer<()> {
    if hierarchy.hides_cgroup2 {
        return Answer::Missing(UNMOUNTED.to_owned());
    }
    if hierarchy.is_legacy() {
        return Answer::Missing("without cgroup2 there are no device programs".to_owned());
    }
    match query(hierarchy.handle.as_fd(), ListKind::Effective) {
        Ok(_) => Answer::Known(()),
        Err(error) if error.is_refused() => Answer::Missing(refusal(error, &[NetAdmin, SysAdmin])),
        Err(error) => Answer::Missing(error.to_string()),
    }
}
