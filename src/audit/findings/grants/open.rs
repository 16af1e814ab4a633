//! Finds GPUs that no rule names, so that every constrained job may open them.

use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, Tenant, may_share, number};
use crate::audit::{finding, wording};
use crate::model::{OwnerKind, Request, Severity, Verdict};
use crate::report::{Finding, Gpu, GpuSet};

pub(super) const OPEN_TO_ALL: Kind = Kind {
    id: "gpu-open-to-all",
    severity: Severity::Critical,
    title: "a GPU that every constrained job may open because no rule names it",
    page: "\
The programs of constrained jobs deny some GPUs, but no rule names this one: the instruction that allows \
every other device allows it too. Every job on the node can use it, whether or not it was allocated a GPU.

Causes: Slurm writes rules only for the devices of gres.conf, and its program allows everything else. A GPU \
that was added to the node, was left out of gres.conf, or got another minor is open to every job. \
Schedulers that deny devices one by one leave open what they do not know.

Excuses: the configuration shares the GPU (sharing.gpus) or gives whole nodes to jobs (sharing.whole_node). \
The finding needs a Slurm job that is denied another GPU, a job that was certainly not allocated this one, \
or two unrelated owners that may both open it. A job without any program is another finding.

What to do: list every GPU in gres.conf, also those that no partition offers, restart slurmd, and start new \
jobs. The programs of running jobs do not change.",
};

/// The GPUs that no tenant's rules name, whether or not that is intended.
pub(in crate::audit) fn unmanaged<'a>(facts: &Facts<'a>) -> Vec<&'a Gpu> {
    find(facts).into_iter().map(|(gpu, _)| gpu).collect()
}

/// The same GPUs, each with a finding unless the configuration excuses it.
pub(super) fn find<'a>(facts: &Facts<'a>) -> Vec<(&'a Gpu, Option<Finding>)> {
    let tenants = listed(facts);
    let open = facts.gpus().iter().filter(|gpu| is_open(facts, &tenants, gpu));
    open.map(|gpu| (gpu, (!facts.is_shared(gpu)).then(|| report(facts, &tenants, gpu)))).collect()
}

/// Tenants with processes whose programs allow devices that no rule names.
fn listed<'f, 'a>(facts: &'f Facts<'a>) -> Vec<&'f Tenant<'a>> {
    let ruled = facts.tenants.iter().filter(|tenant| tenant.has_program && !tenant.privileged);
    ruled.filter(|tenant| tenant.occupied.iter().any(|place| facts.is_deny_list(*place))).collect()
}

fn is_open(facts: &Facts<'_>, tenants: &[&Tenant<'_>], gpu: &Gpu) -> bool {
    let Some(number) = number(gpu) else { return false };
    let places: Vec<Place<'_>> = tenants.iter().flat_map(|tenant| &tenant.occupied).copied().collect();
    !places.is_empty()
        && places.iter().all(|place| place.verdict(gpu) == Verdict::Allow)
        && is_proven(facts, tenants, gpu)
        && places.iter().all(|place| facts.is_unnamed(*place, number, Request::ReadWrite))
}

/// Whether a GPU is certainly unmanaged if no rule names it.
///
/// Slurm writes a rule for every device of `gres.conf`, granted ones too. Other
/// writers write denials only, or ask a map. For those the proof is two unrelated
/// tenants that both may open the GPU, or one that certainly was not allocated it.
fn is_proven(facts: &Facts<'_>, tenants: &[&Tenant<'_>], gpu: &Gpu) -> bool {
    if tenants.iter().any(|tenant| is_told_without(&tenant.sets.allocated, gpu)) {
        return true;
    }
    let names_all =
        |tenant: &Tenant<'_>| tenant.owner().kind == OwnerKind::Slurm && !uses_maps(facts, &tenant.occupied);
    let has_stranger =
        |one: &Tenant<'_>| tenants.iter().any(|other| !one.is(other) && !may_share(one, other));
    let restricted = || tenants.iter().filter(|tenant| tenant.denies_some);
    restricted().any(|tenant| names_all(tenant)) || restricted().any(|tenant| has_stranger(tenant))
}

/// Whether a scheduler's own word, which no user can fake, leaves a GPU out.
fn is_told_without(allocated: &GpuSet, gpu: &Gpu) -> bool {
    let known = allocated.gpus.as_ref().is_some_and(|gpus| !gpus.contains(&gpu.key));
    allocated.is_trusted() && known && !allocated.unknown.contains(&gpu.key)
}

fn uses_maps(facts: &Facts<'_>, places: &[Place<'_>]) -> bool {
    let mut ids = places.iter().flat_map(|place| place.program_ids());
    ids.any(|id| facts.program(id).is_none_or(|program| !program.maps.is_empty()))
}

/// Owners come and go while the finding stays. They stand in the evidence, so that
/// tomorrow's finding has the same fingerprint.
fn report(facts: &Facts<'_>, tenants: &[&Tenant<'_>], gpu: &Gpu) -> Finding {
    let name = wording::gpu(gpu);
    let places: Vec<Place<'_>> = tenants.iter().flat_map(|tenant| &tenant.occupied).copied().collect();
    let first = tenants.iter().find(|tenant| tenant.denies_some).or(tenants.first());
    let first = first.and_then(|tenant| tenant.occupied.first());
    let programs = first.map(|place| finding::decisions(facts, *place, gpu)).unwrap_or_default();
    let slots = programs
        .iter()
        .filter_map(|one| Some(format!("program {} by instruction {}", one.id, one.decided_at?)));
    let mut evidence = vec![format!(
        "in {} it is let through by {}, which lets through every device that no rule names",
        first.map(|place| place.path.lossy()).unwrap_or_default(),
        wording::list(&slots.collect::<Vec<_>>())
    )];
    evidence.extend(wording::clauses(tenants.iter().map(|tenant| clause(facts, tenant)).collect()));
    let is_slurm = tenants.iter().all(|tenant| tenant.owner().kind.is_slurm());
    let list = if is_slurm { "gres.conf" } else { "the scheduler's configuration" };
    let noun = if tenants.iter().all(|tenant| tenant.owner().kind.is_job()) { "job" } else { "owner" };
    Finding {
        processes: finding::holders_first(&places, &gpu.key),
        devices: vec![finding::gpu(gpu)],
        programs,
        evidence,
        excuses: vec![
            "the configuration neither shares it (sharing.gpus) nor gives whole nodes (sharing.whole_node)"
                .to_owned(),
        ],
        advice: format!(
            "List /dev/{name} in {list}, so that the scheduler rules it, or share it in the configuration."
        ),
        ..finding::new(&OPEN_TO_ALL, format!("every constrained {noun} may open {name}, which no rule names"))
    }
}

/// The evidence of one tenant: that it is constrained, and opens the GPU.
fn clause(facts: &Facts<'_>, tenant: &Tenant<'_>) -> String {
    let is_denied = |gpu: &&Gpu| tenant.occupied.iter().all(|place| place.verdict(gpu) == Verdict::Deny);
    let denied: Vec<&Gpu> = facts.gpus().iter().filter(is_denied).collect();
    let owner = wording::owner(tenant.owner());
    match denied.is_empty() {
        true => format!("{owner} may open it"),
        false => format!("{owner} may open it and is denied {}", wording::gpus(denied)),
    }
}
