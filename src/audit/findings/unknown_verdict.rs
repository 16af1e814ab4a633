//! Finds verdicts on GPUs that are unknown.

use std::collections::BTreeSet;

use crate::audit::facts::{Facts, Tenant};
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{about_gpus, count, exclusive_with, places};
use crate::audit::wording;
use crate::model::Verdict;
use crate::model::{ProblemCode, Severity};
use crate::report::{Cgroup, Finding};

const UNKNOWN: Kind = Kind {
    id: "unknown-verdict",
    severity: Severity::Warning,
    title: "a GPU's verdict is unknown",
    page: "\
gpumap could not find out whether a job, container, pod or VM may open a GPU. The GPU counts neither as allowed nor as \
denied, and other findings about it may be missing.

Causes: gpumap had no right to read a program (CAP_SYS_ADMIN, CAP_BPF); the kernel hides instructions (net.core.bpf_jit_harden, kernel.kptr_restrict) or a security module refuses \
them; a program was removed while it was read; a program depends on something no observer can know, such as the time; a v1 device \
cgroup allows by default, whose denials the kernel does not show; the processes of a cgroup are in different v1 \
device cgroups. A gpumap that may not ask for the programs of any cgroup (CAP_NET_ADMIN, CAP_SYS_ADMIN) makes no \
finding for each job: the audit as a whole is incomplete then.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs: everybody may open them then.

What to do: run gpumap as root, with the rights and settings that the evidence names, and audit again.",
};

pub(super) const FAMILY: Family = Family { kinds: &[UNKNOWN], find };

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    if is_blind(facts) {
        return Vec::new();
    }
    let tenants = facts.tenants.clone();
    tenants.iter().filter_map(|tenant| look(facts, tenant)).collect()
}

/// Whether gpumap itself could ask for the programs of no cgroup: that is one
/// problem of the audit, and none of each job.
fn is_blind(facts: &Facts<'_>) -> bool {
    let cgroups = facts.cgroups();
    !cgroups.is_empty()
        && cgroups.iter().all(|cgroup| cgroup.programs_unknown.is_some())
        && facts.inspection.observation().errors.iter().any(|error| error.code == ProblemCode::NoRight)
}

fn look(facts: &mut Facts<'_>, tenant: &Tenant) -> Option<Finding> {
    let mut unclear = places(facts, tenant);
    unclear.retain(|place| !exclusive_with(facts, *place, Verdict::Unknown).is_empty());
    let place = *unclear.first()?;
    let mut gpus: Vec<usize> =
        unclear.iter().flat_map(|place| exclusive_with(facts, *place, Verdict::Unknown)).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let reasons: BTreeSet<String> =
        unclear.iter().flat_map(|place| reasons(&facts.cgroups()[*place])).collect();
    let owner = wording::owner(&tenant.sets.owner);
    let summary = format!("whether {owner} may open {} is unknown", count(gpus.len()));
    let mut found = about_gpus(facts, &UNKNOWN, place, &gpus, summary);
    found.evidence.extend(reasons);
    let needs = needs(facts, &unclear);
    found.evidence.extend(needs.iter().map(|need| format!("what would make it known: {need}")));
    found.advice = match needs.is_empty() {
        true => "see why the verdict is unknown and audit again".to_owned(),
        false => "audit again with what is missing".to_owned(),
    };
    Some(found)
}

fn reasons(cgroup: &Cgroup) -> impl Iterator<Item = String> + '_ {
    let verdicts =
        cgroup.gpus.iter().filter_map(|gpu| gpu.why.clone().filter(|_| gpu.verdict == Verdict::Unknown));
    let programs =
        cgroup.programs_unknown.iter().map(|why| format!("the programs in force are not known: {why}"));
    verdicts.filter(|why| !why.is_empty()).chain(programs)
}

/// What the observation says would have helped with these cgroups, their
/// programs and the maps of those.
fn needs(facts: &Facts<'_>, places: &[usize]) -> BTreeSet<String> {
    let observation = facts.inspection.observation();
    let cgroups: Vec<&Cgroup> = places.iter().map(|place| &facts.cgroups()[*place]).collect();
    let ids: BTreeSet<u32> =
        cgroups.iter().flat_map(|cgroup| &cgroup.programs).map(|program| program.id).collect();
    let programs = observation.programs.iter().filter(|program| ids.contains(&program.id));
    let maps = programs.flat_map(|program| &program.map_ids).map(|id| format!("map {id}"));
    let mut about: BTreeSet<String> = maps.chain(ids.iter().map(|id| format!("program {id}"))).collect();
    about.extend(cgroups.iter().map(|cgroup| cgroup.path.clone()));
    let errors =
        observation.errors.iter().filter(|error| about.contains(&error.what) && !error.needs.is_empty());
    errors.map(|error| error.needs.clone()).collect()
}
