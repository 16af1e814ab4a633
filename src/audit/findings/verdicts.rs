//! Finds verdicts on GPUs that are unknown, and verdicts that the kernel contradicts
//! (`--verify`).

use std::collections::BTreeSet;

use crate::audit::facts::{Facts, char};
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant, number};
use crate::audit::{finding, wording};
use crate::model::{Confidence, ProblemCode, Request, Severity, Verdict};
use crate::observation::{Observation, Text, Verification};
use crate::report::{Cgroup, Decision, Finding, FindingDevice, Gpu};

const UNKNOWN: Kind = Kind {
    id: "unknown-verdict",
    severity: Severity::Warning,
    title: "a GPU's verdict is unknown",
    page: "\
gpumap could not find out whether a job, container, pod or VM may open a GPU. The GPU counts \
neither as allowed nor as denied, and other findings about it may be missing.

Causes: gpumap had no right to read a program (CAP_SYS_ADMIN, CAP_BPF); the kernel hides instructions \
(net.core.bpf_jit_harden, kernel.kptr_restrict) or a security module refuses them; a program was removed \
while it was read; a program depends on something no observer can know, such as the time; a v1 device \
cgroup allows by default, whose denials the kernel does not show; the processes of a cgroup are in \
different v1 device cgroups. A gpumap that may not ask for the programs of any cgroup (CAP_NET_ADMIN, \
CAP_SYS_ADMIN) makes no finding for each job: the audit as a whole is incomplete then.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs: everybody may open them then.

What to do: run gpumap as root, with the rights and settings that the evidence names, and audit again.",
};

fn find_unknown(facts: &Facts<'_>) -> Vec<Finding> {
    if is_blind(facts) {
        return Vec::new();
    }
    facts.tenants.iter().filter_map(|tenant| unknown(facts, tenant)).collect()
}

/// Whether gpumap itself could ask for the programs of no cgroup: that is one
/// problem of the audit, and none of each job.
fn is_blind(facts: &Facts<'_>) -> bool {
    !facts.places.is_empty()
        && facts.places.iter().all(|place| place.cgroup.programs_unknown.is_some())
        && facts.observation().errors.iter().any(|error| error.code == ProblemCode::NoRight)
}

fn unknown(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Option<Finding> {
    let mut unclear = tenant.places();
    unclear.retain(|place| !facts.exclusive_with(*place, Verdict::Unknown).is_empty());
    let place = *unclear.first()?;
    let is_unclear = |gpu: &&Gpu| {
        unclear.iter().any(|place| place.verdict(gpu) == Verdict::Unknown) && !facts.is_shared(gpu)
    };
    let gpus: Vec<&Gpu> =
        facts.gpus().iter().filter(|gpu| number(gpu).is_some()).filter(is_unclear).collect();
    let reasons: BTreeSet<String> = unclear.iter().flat_map(|place| reasons(place.cgroup)).collect();
    let owner = wording::owner(tenant.owner());
    let summary = format!("whether {owner} may open {} is unknown", wording::count(gpus.len()));
    let mut found = finding::about_gpus(facts, &UNKNOWN, place, &gpus, summary);
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
fn needs(facts: &Facts<'_>, places: &[Place<'_>]) -> BTreeSet<String> {
    let observation = facts.observation();
    let cgroups: Vec<&Cgroup> = places.iter().map(|place| place.cgroup).collect();
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

pub(super) const FAMILY: Family = Family { kinds: &[UNKNOWN, MISMATCH], find };

const MISMATCH: Kind = Kind {
    id: "verify-mismatch",
    severity: Severity::Critical,
    title: "the kernel decides otherwise than gpumap says",
    page: "\
With `--verify`, gpumap started a process in the cgroup for a moment, which asked the kernel, with \
faccessat(2), whether it may open a device node. The answer differs from the verdict that gpumap decoded \
from the programs in force.

Causes: a bug of gpumap. All of its verdicts on this node are in doubt.

Excuses: programs that were replaced between observation and question, which makes the answer unknown; \
contents of maps that changed in that time, for which the confidence is no more than likely. A node whose \
permission bits or security module refuse makes the answer unknown as well.

What to do: please report it, with `gpumap snapshot` of the node.",
};

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = find_unknown(facts);
    found.extend(mismatches(facts, &facts.observation().verified));
    found
}

/// The answers of the kernel that contradict what was decoded.
pub(in crate::audit) fn mismatches(facts: &Facts<'_>, verified: &[Verification]) -> Vec<Finding> {
    verified.iter().filter_map(|one| mismatch(facts, one)).collect()
}

fn mismatch(facts: &Facts<'_>, one: &Verification) -> Option<Finding> {
    let kernel = if *one.allowed.known()? { Verdict::Allow } else { Verdict::Deny };
    let request = Request::ALL.into_iter().find(|request| request.letters() == one.request)?;
    let decoded = facts.inspection.verdict(&one.cgroup, char((one.major, one.minor)), request);
    let programs = facts.inspection.decisions(&one.cgroup, char((one.major, one.minor)), request);
    if decoded == kernel || decoded == Verdict::Unknown || is_of_v1(facts, kernel, &programs) {
        return None;
    }
    let summary =
        format!("the kernel {} {} of {} where gpumap says otherwise", word(kernel), one.request, one.path);
    let mut found = finding::new(&MISMATCH, summary);
    if let Some(place) = facts.places.iter().find(|place| *place.path == one.cgroup) {
        found = finding::at(&MISMATCH, place.cgroup, found.summary);
    }
    found.devices = vec![device(facts, one)];
    found.programs = programs;
    found.evidence = vec![
        format!(
            "a process in the cgroup asked the kernel for {} of {}: it {}",
            one.request,
            one.path,
            word(kernel)
        ),
        format!("decoded from the programs in force: it {}", word(decoded)),
    ];
    if has_mutable_maps(facts.observation(), &one.cgroup) {
        found.confidence = Confidence::Likely;
        found.evidence.push("assumed: the maps of these programs did not change in between".to_owned());
    }
    found.advice = "a bug of gpumap: please report it with the output of gpumap snapshot".to_owned();
    Some(found)
}

/// Whether the v1 controller made the denial: its groups apply to the processes,
/// while the process that asked was in gpumap's group, which allows.
fn is_of_v1(facts: &Facts<'_>, kernel: Verdict, programs: &[Decision]) -> bool {
    let has_v1 = facts.observation().devices_v1.is_some();
    has_v1 && kernel == Verdict::Allow && programs.iter().all(|one| one.returns == Verdict::Allow)
}

fn word(verdict: Verdict) -> &'static str {
    if verdict == Verdict::Allow { "allows" } else { "denies" }
}

fn device(facts: &Facts<'_>, one: &Verification) -> FindingDevice {
    let number = (one.major, one.minor);
    let gpu = facts.gpus().iter().find(|gpu| gpu.major.zip(gpu.minor) == Some(number));
    let name = one.path.strip_prefix("/dev/").unwrap_or(&one.path);
    gpu.map_or_else(|| finding::device(number, Some(name)), finding::gpu)
}

/// Whether anything in force in a cgroup reads maps that can change.
fn has_mutable_maps(observation: &Observation, path: &Text) -> bool {
    let cgroup = observation.cgroups.iter().find(|cgroup| cgroup.path == *path);
    let ids = cgroup.and_then(|cgroup| cgroup.effective.known()).into_iter().flatten();
    let programs = ids.filter_map(|id| observation.programs.iter().find(|program| program.id == *id));
    let frozen = |id: &u32| observation.maps.iter().any(|map| map.id == *id && map.frozen);
    programs.flat_map(|program| &program.map_ids).any(|id| !frozen(id))
}
