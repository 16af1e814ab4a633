//! Compares decoded verdicts with the answers of the kernel (`--verify`).

use crate::audit::facts::{Facts, char};
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::model::Confidence;
use crate::model::Severity;
use crate::model::{Request, Verdict};
use crate::observation::{Observation, Text, Verification};
use crate::report::{Decision, Finding, FindingDevice};

pub(super) const FAMILY: Family = Family { kinds: &[MISMATCH], find };

const MISMATCH: Kind = Kind {
    id: "verify-mismatch",
    severity: Severity::Critical,
    title: "the kernel decides otherwise than gpumap says",
    page: "\
With `--verify`, gpumap started a process in the cgroup for a moment, which asked the kernel, with faccessat(2), whether it may open a device node. The answer differs from the verdict that gpumap decoded from the programs in force.

Causes: a bug of gpumap. All of its verdicts on this node are in doubt.

Excuses: programs that were replaced between observation and question, which makes the answer unknown; contents of maps that changed in that time, for which the confidence is no more than likely. A node whose permission bits or security module refuse makes the answer unknown as well.

What to do: please report it, with `gpumap snapshot` of the node.",
};

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    mismatches(facts, &facts.inspection.observation().verified)
}

/// The answers of the kernel that contradict what was decoded.
pub(in crate::audit) fn mismatches(facts: &mut Facts<'_>, verified: &[Verification]) -> Vec<Finding> {
    verified.iter().filter_map(|one| mismatch(facts, one)).collect()
}

fn mismatch(facts: &mut Facts<'_>, one: &Verification) -> Option<Finding> {
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
    let place = (0..facts.cgroups().len()).find(|place| facts.path(*place) == one.cgroup);
    if let Some(cgroup) = place.and_then(|place| facts.cgroups().get(place)) {
        found = finding::at(&MISMATCH, cgroup, found.summary);
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
    if has_mutable_maps(facts.inspection.observation(), &one.cgroup) {
        found.confidence = Confidence::Likely;
        found.evidence.push("assumed: the maps of these programs did not change in between".to_owned());
    }
    found.advice = "a bug of gpumap: please report it with the output of gpumap snapshot".to_owned();
    Some(found)
}

/// Whether the v1 controller made the denial: its groups apply to the processes,
/// while the process that asked was in gpumap's group, which allows.
fn is_of_v1(facts: &Facts<'_>, kernel: Verdict, programs: &[Decision]) -> bool {
    let has_v1 = facts.inspection.observation().devices_v1.is_some();
    has_v1 && kernel == Verdict::Allow && programs.iter().all(|one| one.returns == Verdict::Allow)
}

fn word(verdict: Verdict) -> &'static str {
    if verdict == Verdict::Allow { "allows" } else { "denies" }
}

fn device(facts: &Facts<'_>, one: &Verification) -> FindingDevice {
    let number = (one.major, one.minor);
    let gpu = facts.inspection.gpus().iter().find(|gpu| gpu.major.zip(gpu.minor) == Some(number));
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
