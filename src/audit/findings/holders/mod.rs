//! Finds processes that hold GPUs of others, and processes outside of the cgroup
//! of the job that their environment names.

mod daemon;
mod denied;
mod foreign;
mod mps;
mod other_job;
mod outside;
mod two;

pub(in crate::audit) use daemon::is_standing;

use crate::audit::facts::Facts;
use crate::audit::finding::Reported;
use crate::audit::kind::Family;
use crate::report::Finding;

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        denied::HELD_NOT_ALLOWED,
        outside::PROCESS_OUTSIDE_JOB,
        foreign::HELD_BY_FOREIGN,
        other_job::HELD_BY_OTHER_JOB,
        two::HELD_BY_TWO,
        mps::MPS_OVERLAP,
        outside::JOB_CLAIM_MISMATCH,
    ],
    find,
};

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut reported = Reported::default();
    let mut findings = outside::find(facts, &mut reported);
    findings.extend(denied::find(facts, &mut reported));
    findings.extend(foreign::find(facts, &reported));
    findings.extend(other_job::find(facts, &mut reported));
    findings.extend(two::find(facts, &reported));
    findings.extend(mps::find(facts));
    findings.extend(outside::mismatches(facts));
    findings
}
