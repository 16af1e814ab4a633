//! The processes, devices and owners that these findings name.

use std::collections::BTreeSet;

use crate::audit::access::TenantAccess;
use crate::audit::facts::Facts;
use crate::audit::{finding, wording};
use crate::model::Owner;
use crate::report::{FindingDevice, FindingProcess, Process};

/// Processes, with the GPU, that already have a finding: one cause, one finding.
pub(super) type Reported = BTreeSet<(u32, u64, String)>;

/// Whether a process already has a finding about this GPU.
pub(super) fn is_reported(reported: &Reported, process: &Process, gpu: &str) -> bool {
    reported.contains(&(process.pid, process.start_time, gpu.to_owned()))
}

/// The processes of a finding, the first of them.
pub(super) fn listed(processes: &[&Process]) -> Vec<FindingProcess> {
    processes.iter().take(finding::LISTED).map(|process| finding::process(process)).collect()
}

/// GPUs by key as devices.
pub(super) fn devices(facts: &Facts<'_>, keys: &BTreeSet<&String>) -> Vec<FindingDevice> {
    let gpus = facts.inspection.gpus().iter().filter(|gpu| keys.contains(&gpu.key));
    gpus.map(finding::gpu).collect()
}

/// The tenants that a GPU was granted or allocated to, without those of
/// `but`.
pub(super) fn having(
    facts: &Facts<'_>,
    access: &TenantAccess,
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
pub(super) fn owners(facts: &Facts<'_>, tenants: &[usize]) -> Vec<Owner> {
    let owners = tenants.iter().filter_map(|tenant| facts.tenants.get(*tenant));
    owners.take(wording::SHOWN).map(|tenant| tenant.sets.owner.clone()).collect()
}

/// Owners in words.
pub(super) fn names(facts: &Facts<'_>, tenants: &[usize]) -> String {
    let owners = tenants.iter().filter_map(|tenant| facts.tenants.get(*tenant));
    wording::list(&owners.map(|tenant| wording::owner(&tenant.sets.owner)).collect::<Vec<_>>())
}

/// `train (pid 126)`.
pub(super) fn process_name(process: &Process) -> String {
    format!("{} (pid {})", process.comm, process.pid)
}
