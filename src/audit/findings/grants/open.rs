//! Finds GPUs that no rule names, so that every constrained job may open them.

use super::double::may_share;
use super::evidence::{decisions, processes};
use super::pages::OPEN_TO_ALL;
use crate::audit::access::{TenantAccess, is_deny_list, is_unnamed, verdict};
use crate::audit::facts::Facts;
use crate::audit::{finding, wording};
use crate::model::OwnerKind;
use crate::model::Request;
use crate::model::Verdict;
use crate::report::{Finding, Gpu, GpuSet};

/// The GPUs that no tenant's rules name, whether or not that is intended.
pub(in crate::audit) fn unmanaged(facts: &mut Facts<'_>, access: &TenantAccess) -> Vec<usize> {
    find(facts, access).into_iter().map(|(gpu, _)| gpu).collect()
}

/// The same GPUs, each with a finding unless the configuration excuses it.
pub(super) fn find(facts: &mut Facts<'_>, access: &TenantAccess) -> Vec<(usize, Option<Finding>)> {
    let tenants = listed(facts, access);
    let gpus = facts.inspection.gpus().to_vec();
    let mut found = Vec::new();
    for (index, gpu) in gpus.iter().enumerate() {
        if !is_open(facts, access, &tenants, index, gpu) {
            continue;
        }
        let excused = facts.config.sharing.whole_node || facts.config.sharing.has_gpu(&gpu.key);
        let finding = (!excused).then(|| report(facts, access, &tenants, gpu));
        found.push((index, finding));
    }
    found
}

/// Tenants with processes whose programs allow devices that no rule names.
fn listed(facts: &mut Facts<'_>, access: &TenantAccess) -> Vec<usize> {
    let tenants: Vec<(usize, Vec<usize>)> = access
        .own
        .iter()
        .enumerate()
        .filter(|(_, own)| own.has_program && !own.privileged)
        .map(|(number, own)| (number, own.occupied.clone()))
        .collect();
    let mut listed = Vec::new();
    for (number, occupied) in tenants {
        if occupied.iter().any(|place| is_deny_list(facts, *place)) {
            listed.push(number);
        }
    }
    listed
}

fn is_open(facts: &mut Facts<'_>, access: &TenantAccess, tenants: &[usize], index: usize, gpu: &Gpu) -> bool {
    let Some(number) = gpu.major.zip(gpu.minor) else { return false };
    let places: Vec<usize> = tenants
        .iter()
        .filter_map(|tenant| access.own.get(*tenant))
        .flat_map(|own| own.occupied.clone())
        .collect();
    let allowed =
        !places.is_empty() && places.iter().all(|place| verdict(facts, *place, index) == Verdict::Allow);
    allowed
        && is_proven(facts, access, tenants, gpu)
        && places.iter().all(|place| is_unnamed(facts, *place, number, Request::ReadWrite))
}

/// Whether a GPU is certainly unmanaged if no rule names it.
///
/// Slurm writes a rule for every device of `gres.conf`, granted ones too. Other
/// writers write denials only, or ask a map. For those the proof is two unrelated
/// tenants that both may open the GPU, or one that certainly was not allocated it.
fn is_proven(facts: &Facts<'_>, access: &TenantAccess, tenants: &[usize], gpu: &Gpu) -> bool {
    let lacks = |tenant: &usize| {
        facts.tenants.get(*tenant).is_some_and(|one| is_told_without(&one.sets.allocated, gpu))
    };
    if tenants.iter().any(lacks) {
        return true;
    }
    let restricted = |tenant: &&usize| access.own.get(**tenant).is_some_and(|own| own.denies_some);
    let restricted: Vec<usize> = tenants.iter().filter(restricted).copied().collect();
    let names_all = |tenant: &usize| {
        let is_slurm =
            facts.tenants.get(*tenant).is_some_and(|tenant| tenant.sets.owner.kind == OwnerKind::Slurm);
        is_slurm && access.own.get(*tenant).is_some_and(|own| !uses_maps(facts, &own.occupied))
    };
    let strangers = |one: &usize| tenants.iter().any(|other| one != other && !may_share(facts, *one, *other));
    restricted.iter().any(names_all) || restricted.iter().any(strangers)
}

/// Whether a scheduler's own word, which no user can fake, leaves a GPU out.
fn is_told_without(allocated: &GpuSet, gpu: &Gpu) -> bool {
    let known = allocated.gpus.as_ref().is_some_and(|gpus| !gpus.contains(&gpu.key));
    allocated.is_trusted() && known && !allocated.unknown.contains(&gpu.key)
}

fn uses_maps(facts: &Facts<'_>, places: &[usize]) -> bool {
    let payload = facts.inspection.payload();
    let cgroups = places.iter().filter_map(|place| facts.cgroups().get(*place));
    let mut ids = cgroups.flat_map(|cgroup| &cgroup.programs).map(|program| program.id);
    ids.any(|id| {
        let program = payload.programs.as_ref().and_then(|programs| programs.get(&id));
        program.is_none_or(|program| !program.maps.is_empty())
    })
}

/// Owners come and go while the finding stays. They stand in the evidence, so that
/// tomorrow's finding has the same fingerprint.
fn report(facts: &mut Facts<'_>, access: &TenantAccess, tenants: &[usize], gpu: &Gpu) -> Finding {
    let name = wording::gpu(gpu);
    let own: Vec<_> = tenants.iter().filter_map(|tenant| access.own.get(*tenant)).collect();
    let places: Vec<usize> = own.iter().flat_map(|own| own.occupied.clone()).collect();
    let first = own.iter().find(|own| own.denies_some).or(own.first()).and_then(|own| own.occupied.first());
    let programs = first.map(|place| decisions(facts, *place, gpu)).unwrap_or_default();
    let slots = programs
        .iter()
        .filter_map(|one| Some(format!("program {} by instruction {}", one.id, one.decided_at?)));
    let mut evidence = vec![format!(
        "in {} it is let through by {}, which lets through every device that no rule names",
        first.map(|place| facts.path(*place).lossy().into_owned()).unwrap_or_default(),
        wording::list(&slots.collect::<Vec<_>>())
    )];
    evidence.extend(wording::clauses(
        tenants.iter().filter_map(|tenant| clause(facts, access, *tenant)).collect(),
    ));
    let jobs = tenants.iter().filter_map(|tenant| facts.tenants.get(*tenant));
    let noun = if jobs.clone().all(|tenant| tenant.sets.owner.kind.is_job()) { "job" } else { "owner" };
    Finding {
        processes: processes(facts, &places, &gpu.key),
        devices: vec![finding::gpu(gpu)],
        programs,
        evidence,
        excuses: vec![
            "the configuration neither shares it (sharing.gpus) nor gives whole nodes (sharing.whole_node)"
                .to_owned(),
        ],
        advice: format!(
            "List /dev/{name} in gres.conf, so that the scheduler rules it, or share it in the configuration."
        ),
        ..finding::new(&OPEN_TO_ALL, format!("{name} is open to every constrained {noun}: no rule names it"))
    }
}

/// The evidence of one tenant: that it is constrained, and opens the GPU.
fn clause(facts: &Facts<'_>, access: &TenantAccess, tenant: usize) -> Option<String> {
    let own = access.own.get(tenant)?;
    let gpus = facts.inspection.gpus().iter().enumerate();
    let denied =
        |index: usize| own.occupied.iter().all(|place| verdict(facts, *place, index) == Verdict::Deny);
    let denied: Vec<String> =
        gpus.filter(|(index, _)| denied(*index)).map(|(_, gpu)| wording::gpu(gpu)).collect();
    let owner = wording::owner(&facts.tenants.get(tenant)?.sets.owner);
    Some(match denied.is_empty() {
        true => format!("{owner} may open it"),
        false => format!("{owner} may open it and is denied {}", wording::list(&denied)),
    })
}
