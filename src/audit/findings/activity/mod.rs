//! Finds what is wrong with the use of GPUs, where somebody counts the calls that
//! processes make.

mod dead;
mod evidence;
mod foreign;
mod hang;
mod idle;
mod pages;
mod two;
mod unused;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::Finding;

/// What this file looks for.
pub(super) const FAMILY: Family = Family {
    kinds: &[pages::FOREIGN, pages::TWO, pages::DEAD, pages::IDLE, pages::HANG, pages::UNUSED],
    find,
};

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let Some(activity) = facts.inspection.payload().activity.clone() else { return Vec::new() };
    let mut findings = foreign::find(facts, &activity);
    findings.extend(two::find(facts, &activity));
    findings.extend(dead::find(facts, &activity));
    findings.extend(idle::find(facts, &activity));
    findings.extend(hang::find(facts, &activity));
    findings.extend(unused::find(facts, &activity));
    findings
}
