//! Finds verdicts that depend on the current contents of a map.

use std::collections::BTreeSet;

use crate::analyse::{CallerAllocation, Inspection};
use crate::audit::facts::{Facts, char};
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant, number};
use crate::audit::{finding, wording};
use crate::model::{Request, Severity, Verdict};
use crate::observation::{Answer, Map, Observation};
use crate::report::{Finding, Gpu};

const DYNAMIC: Kind = Kind {
    id: "dynamic-policy",
    severity: Severity::Note,
    title: "the verdict rests on a map that can change",
    page: "\
Whether a job, container or VM may open a GPU depends on the contents of a BPF map that is not frozen. The \
verdict is right for the moment of the observation. A process that may write to the map can change the \
verdict without attaching a program, so the list of programs does not show it.

Causes: libvirt, ParaStation, CraneSched and OAR write their rules into maps by design. Maps pinned below \
/sys/fs/bpf can be written by everybody who may open the pin.

Excuses: a frozen map; a map that no GPU's verdict depends on.

What to do: nothing where that software runs; see that the pins of its maps belong to root, mode 0600. \
Audit again after changes rather than trusting an old answer.",
};

pub(super) const FAMILY: Family = Family { kinds: &[DYNAMIC], find };

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let observation = facts.observation();
    let open: BTreeSet<u32> = observation.maps.iter().filter(|map| !map.frozen).map(|map| map.id).collect();
    if open.is_empty() {
        return Vec::new();
    }
    // Without the contents of these maps, only verdicts that do not depend on them
    // are known.
    let blind = without(observation, &open);
    let limit = facts.inspection.limit();
    let Ok(blind) = Inspection::new(&blind, &CallerAllocation::default(), limit) else {
        return Vec::new();
    };
    facts.tenants.iter().filter_map(|tenant| look(facts, &blind, tenant, &open)).collect()
}

/// The observation without the contents of these maps and without processes.
fn without(observation: &Observation, maps: &BTreeSet<u32>) -> Observation {
    let hide = |map: &Map| match maps.contains(&map.id) {
        true => Map { entries: Answer::Missing("hidden on purpose".to_owned()), ..map.clone() },
        false => map.clone(),
    };
    Observation {
        host: observation.host.clone(),
        scope: observation.scope.clone(),
        cgroups: observation.cgroups.clone(),
        programs: observation.programs.clone(),
        maps: observation.maps.iter().map(hide).collect(),
        gpu_facts: observation.gpu_facts.clone(),
        errors: observation.errors.clone(),
        ..Observation::default()
    }
}

fn look(
    facts: &Facts<'_>,
    blind: &Inspection<'_>,
    tenant: &Tenant<'_>,
    open: &BTreeSet<u32>,
) -> Option<Finding> {
    tenant.views().into_iter().find_map(|place| {
        let known = |gpu: &&Gpu| place.verdict(gpu) != Verdict::Unknown && number(gpu).is_some();
        let mut gpus: Vec<&Gpu> = facts.gpus().iter().filter(known).collect();
        gpus.retain(|gpu| is_dependent(blind, place, gpu));
        (!gpus.is_empty()).then(|| report(facts, tenant, place, &gpus, open))
    })
}

fn is_dependent(blind: &Inspection<'_>, place: Place<'_>, gpu: &Gpu) -> bool {
    let Some(number) = number(gpu) else { return false };
    blind.verdict(place.path, char(number), Request::ReadWrite) == Verdict::Unknown
}

fn report(
    facts: &Facts<'_>,
    tenant: &Tenant<'_>,
    place: Place<'_>,
    gpus: &[&Gpu],
    open: &BTreeSet<u32>,
) -> Finding {
    let owner = wording::owner(tenant.owner());
    let summary =
        format!("what {owner} may do with {} depends on a map that can change", wording::count(gpus.len()));
    let mut found = finding::about_gpus(facts, &DYNAMIC, place, gpus, summary);
    let observation = facts.observation();
    let used =
        observation.programs.iter().filter(|program| found.programs.iter().any(|by| by.id == program.id));
    let used: BTreeSet<u32> =
        used.flat_map(|program| &program.map_ids).copied().filter(|id| open.contains(id)).collect();
    let maps = observation.maps.iter().filter(|map| used.contains(&map.id));
    let named = maps.map(|map| format!("map {} ({}, {}) is not frozen", map.id, map.kind, map.name.lossy()));
    found.evidence.extend(named);
    found.evidence.push("without the contents of these maps the verdict is unknown".to_owned());
    "let only root write to the map, and audit again after changes".clone_into(&mut found.advice);
    found
}
