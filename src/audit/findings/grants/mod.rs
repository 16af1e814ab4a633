//! Finds GPUs that the rules grant to everybody, to two owners, to an owner they
//! were not allocated to, or not to the owner they were allocated to.

mod allocation;
mod double;
mod open;

pub(super) use open::unmanaged;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::{Finding, Gpu};
use double::Covered;

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        open::OPEN_TO_ALL,
        double::DOUBLE_GRANT,
        allocation::GRANT_WITHOUT_ALLOC,
        allocation::ALLOC_WITHOUT_GRANT,
    ],
    find,
};

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let open = open::find(facts);
    let unmanaged: Vec<&Gpu> = open.iter().map(|(gpu, _)| *gpu).collect();
    let doubles = double::find(facts, &unmanaged);
    let covered: Vec<Covered<'_>> = doubles.iter().flat_map(|double| &double.covers).cloned().collect();
    let mut findings: Vec<Finding> = open.into_iter().filter_map(|(_, finding)| finding).collect();
    findings.extend(doubles.into_iter().map(|double| double.finding));
    findings.extend(allocation::find(facts, &unmanaged, &covered));
    findings
}
