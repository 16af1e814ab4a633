//! Limits of libvgpu.so and SoftMig: those that are not in force, and regions that are not
//! as they should be.

mod faults;
mod limits;
mod regions;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::Finding;

pub(super) const FAMILY: Family = Family {
    kinds: &[
        limits::NOT_IN_FORCE,
        limits::SLICE,
        regions::STALE,
        regions::OVER,
        regions::SUM,
        limits::MIXED,
        limits::HOST_PID,
        regions::DEAD,
        regions::WRITABLE,
        limits::PRELOAD,
    ],
    find,
};

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    // Most nodes have no such library.
    if facts.processes().all(|process| process.vgpu.is_none()) {
        return Vec::new();
    }
    let mut found = limits::not_held(facts);
    found.extend(limits::missing(facts));
    found.extend(regions::limits(facts));
    found.extend(regions::entries(facts));
    found
}
