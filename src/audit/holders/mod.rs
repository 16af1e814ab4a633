//! Processes that hold GPUs which are not theirs, and processes that are not
//! where their job is.

mod daemon;
mod denied;
mod foreign;
mod outside;
mod pages;

use std::collections::BTreeSet;

use super::access::Access;
use super::catalogue::Family;
use super::facts::Facts;
use super::{finding, grants, words};
use crate::model::Owner;
use crate::report::{Finding, FindingDevice, FindingProcess, Process};

/// What this file looks for.
pub(super) const FAMILY: Family = Family {
    kinds: &[
        pages::HELD_NOT_ALLOWED,
        pages::PROCESS_OUTSIDE_JOB,
        pages::HELD_BY_FOREIGN,
        pages::JOB_CLAIM_MISMATCH,
    ],
    find,
};

/// Processes, with the GPU, that a finding has told of: one cause, one finding.
type Told = BTreeSet<(u32, u64, String)>;

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let access = Access::new(facts);
    let mut told = Told::new();
    let mut findings = outside::find(facts, &access, &mut told);
    findings.extend(denied::find(facts, &access, &mut told));
    findings.extend(foreign::find(facts, &access, &told));
    findings.extend(outside::mismatches(facts, &access));
    findings
}

/// Whether a process was told of with a GPU.
fn is_told(told: &Told, process: &Process, gpu: &str) -> bool {
    told.contains(&(process.pid, process.start_time, gpu.to_owned()))
}

/// The processes of a finding, the first of them.
fn listed(processes: &[&Process]) -> Vec<FindingProcess> {
    processes.iter().take(grants::LISTED).map(|process| finding::process(process)).collect()
}

/// GPUs by key as devices.
fn devices(facts: &Facts<'_>, keys: &BTreeSet<&String>) -> Vec<FindingDevice> {
    let gpus = facts.inspection.gpus().iter().filter(|gpu| keys.contains(&gpu.key));
    gpus.map(finding::gpu).collect()
}

/// The tenants that a GPU was granted or allocated to, without those of
/// `but`.
fn having(
    facts: &Facts<'_>,
    access: &Access,
    granted: &BTreeSet<usize>,
    gpu: usize,
    but: Option<usize>,
) -> Vec<usize> {
    let key = facts.inspection.gpus().get(gpu).map(|gpu| gpu.key.clone()).unwrap_or_default();
    let has = |tenant: &usize| {
        let allocated = facts.tenants.get(*tenant).and_then(|tenant| tenant.sets.allocated.gpus.as_ref());
        let is_allocated = allocated.is_some_and(|gpus| gpus.contains(&key));
        is_allocated || granted.contains(tenant) && access.allows(facts, *tenant, gpu).is_some()
    };
    (0..facts.tenants.len()).filter(has).filter(|tenant| Some(*tenant) != but).collect()
}

/// Owners of tenants, the first of them.
fn owners(facts: &Facts<'_>, tenants: &[usize]) -> Vec<Owner> {
    let owners = tenants.iter().filter_map(|tenant| facts.tenants.get(*tenant));
    owners.take(words::SHOWN).map(|tenant| tenant.sets.owner.clone()).collect()
}

/// Owners in words.
fn names(facts: &Facts<'_>, tenants: &[usize]) -> String {
    let owners = tenants.iter().filter_map(|tenant| facts.tenants.get(*tenant));
    words::list(&owners.map(|tenant| words::owner(&tenant.sets.owner)).collect::<Vec<_>>())
}

/// `train (pid 126)`.
fn process_name(process: &Process) -> String {
    format!("{} (pid {})", process.comm, process.pid)
}
