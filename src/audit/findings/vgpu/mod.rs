//! Findings about limits of HAMi-core's libvgpu.so and of SoftMig: whether they
//! are in force, and whether what they rest on is sound.

mod by_cgroup;
mod entries;
mod force;
mod pages;
mod regions;
mod slices;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::Finding;

pub(super) const FAMILY: Family = Family {
    kinds: &[
        pages::NOT_IN_FORCE,
        pages::SLICE,
        pages::STALE,
        pages::OVER,
        pages::SUM,
        pages::MIXED,
        pages::HOST_PID,
        pages::DEAD,
        pages::WRITABLE,
        pages::PRELOAD,
    ],
    find,
};

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    // Most nodes have no such library.
    if facts.processes().all(|process| process.vgpu.is_none()) {
        return Vec::new();
    }
    let mut found = force::find(facts);
    found.extend(slices::find(facts));
    found.extend(regions::find(facts));
    found.extend(entries::find(facts));
    found
}
