//! Finds processes that hold GPUs of others, and processes outside of the cgroup
//! of the job that their environment names.

mod daemon;
mod denied;
mod evidence;
mod foreign;
mod inner_jobs;
mod other_job;
mod outside;
mod pages;

use crate::audit::access::TenantAccess;
use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::report::Finding;

use evidence::Reported;

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        pages::HELD_NOT_ALLOWED,
        pages::PROCESS_OUTSIDE_JOB,
        pages::HELD_BY_FOREIGN,
        pages::HELD_BY_OTHER_JOB,
        pages::JOB_CLAIM_MISMATCH,
    ],
    find,
};

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let access = TenantAccess::new(facts);
    let mut reported = Reported::new();
    let mut findings = outside::find(facts, &access, &mut reported);
    findings.extend(denied::find(facts, &access, &mut reported));
    findings.extend(foreign::find(facts, &access, &reported));
    findings.extend(other_job::find(facts, &access, &mut reported));
    findings.extend(outside::mismatches(facts, &access));
    findings
}
