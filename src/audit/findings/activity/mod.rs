//! Finds what is wrong with the use of GPUs, where somebody counts the calls that
//! processes make.

mod evidence;
mod stuck;
mod unused;
mod whose;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::Finding;

/// What this file looks for.
pub(super) const FAMILY: Family = Family {
    kinds: &[whose::FOREIGN, whose::TWO, stuck::DEAD, unused::IDLE, stuck::HANG, unused::UNUSED],
    find,
};

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(activity) = &facts.inspection.payload().activity else { return Vec::new() };
    let mut findings = whose::foreign(facts, activity);
    findings.extend(whose::two(facts, activity));
    findings.extend(stuck::dead(facts, activity));
    findings.extend(unused::idle(facts, activity));
    findings.extend(stuck::hanging(facts, activity));
    findings.extend(unused::unused(facts, activity));
    findings
}
