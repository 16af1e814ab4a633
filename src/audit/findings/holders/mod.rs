//! Finds processes that hold GPUs of others, and processes outside of the cgroup
//! of the job that their environment names.

mod daemon;
mod denied;
mod foreign;
mod other_job;
mod outside;

use std::collections::BTreeSet;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::audit::tenants::Tenant;
use crate::audit::wording;
use crate::model::Owner;
use crate::report::{Finding, Gpu, Process};

/// The kinds of this family.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        denied::HELD_NOT_ALLOWED,
        outside::PROCESS_OUTSIDE_JOB,
        foreign::HELD_BY_FOREIGN,
        other_job::HELD_BY_OTHER_JOB,
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
    findings.extend(outside::mismatches(facts));
    findings
}

/// Processes, with the GPU, that already have a finding: one cause, one finding.
#[derive(Debug, Default)]
struct Reported(BTreeSet<(u32, u64, String)>);

impl Reported {
    fn add(&mut self, process: &Process, gpu: &str) {
        self.0.insert((process.pid, process.start_time, gpu.to_owned()));
    }

    fn has(&self, process: &Process, gpu: &str) -> bool {
        self.0.contains(&(process.pid, process.start_time, gpu.to_owned()))
    }
}

/// Whether a process has a GPU open.
fn holds(process: &Process, gpu: &Gpu) -> bool {
    process.held.as_ref().is_some_and(|held| held.contains(&gpu.key))
}

/// The tenants that a GPU was granted or allocated to, without `but`.
fn having<'f, 'a>(facts: &'f Facts<'a>, gpu: &Gpu, but: Option<&Tenant<'_>>) -> Vec<&'f Tenant<'a>> {
    let has = |tenant: &&Tenant<'_>| {
        tenant.was_allocated(gpu) || tenant.is_granted() && tenant.allows(gpu).is_some()
    };
    let having = facts.tenants.iter().filter(has);
    having.filter(|tenant| but.is_none_or(|but| !but.is(tenant))).collect()
}

/// Owners of tenants, the first of them.
fn owners(tenants: &[&Tenant<'_>]) -> Vec<Owner> {
    tenants.iter().take(wording::SHOWN).map(|tenant| tenant.owner().clone()).collect()
}

/// Owners in words.
fn names(tenants: &[&Tenant<'_>]) -> String {
    wording::list(&tenants.iter().map(|tenant| wording::owner(tenant.owner())).collect::<Vec<_>>())
}
