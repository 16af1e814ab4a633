//! Finds GPUs that the rules grant to everybody, to two owners, to an owner they
//! were not allocated to, or not to the owner they were allocated to.

mod allocation;
mod double;
mod evidence;
mod open;
mod pages;

use std::collections::BTreeSet;

use crate::audit::access::TenantAccess;
use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::Finding;

pub(super) use double::may_share;
pub(super) use open::unmanaged;

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[pages::OPEN_TO_ALL, pages::DOUBLE_GRANT, pages::GRANT_WITHOUT_ALLOC, pages::ALLOC_WITHOUT_GRANT],
    find,
};

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let access = TenantAccess::new(facts);
    let open = open::find(facts, &access);
    let unmanaged: BTreeSet<usize> = open.iter().map(|(gpu, _)| *gpu).collect();
    let doubles = double::find(facts, &access, &unmanaged);
    let covered: BTreeSet<(usize, String)> =
        doubles.iter().flat_map(|double| &double.covers).cloned().collect();
    let mut findings: Vec<Finding> = open.into_iter().filter_map(|(_, finding)| finding).collect();
    findings.extend(doubles.into_iter().map(|double| double.finding));
    findings.extend(allocation::find(facts, &access, &unmanaged, &covered));
    findings
}
