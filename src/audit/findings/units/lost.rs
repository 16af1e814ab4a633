//! Finds access that systemd has taken away: two programs are in force, and
//! systemd's later one denies what the first allows.

use super::{Needed, names};
use crate::audit::facts::{Facts, Place};
use crate::audit::finding;
use crate::audit::kind::Kind;
use crate::model::{Confidence, Request, Severity, Verdict, Writer};
use crate::repair::unit_of;
use crate::report::{Effective, Finding};

pub(super) const LOST: Kind = Kind {
    id: "access-lost",
    severity: Severity::Warning,
    title: "GPU access lost after a systemd reload",
    page: "\
The device program of a container's or job's runtime allows GPUs. Later systemd attached a program of its \
own to the same unit, made from the unit's DevicePolicy= and DeviceAllow=, and that program denies them. \
Both are in force, and one denial is enough.

Causes: the GPUs were added without systemd, as a runtime hook does, and then `systemctl daemon-reload`, \
`daemon-reexec` or a change of the unit's properties made systemd apply its settings again. Processes that \
have a GPU open keep it; programs that are started now fail, with NVIDIA's tools as \"Failed to initialize \
NVML: Unknown Error\".

Excuses: systemd's program was loaded first, so that the GPUs were never granted in this unit; another \
program denies them too.

What to do: run the command that `gpumap repair` prints, which gives the GPUs back while the container runs \
on, if there is a safe one; the finding has it too. Else start the container again. To prevent it, let the \
runtime tell systemd which devices it needs (CDI or `--device` in place of a hook), or use a runtime whose \
cgroups systemd does not manage.",
};

pub(super) fn find(facts: &Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    facts.places.iter().filter_map(|place| at(facts, *place, wanted)).collect()
}

/// The programs in force in a cgroup, by their owners.
struct Programs {
    /// systemd's, of the unit.
    systemd: Effective,
    /// All others.
    others: Vec<Effective>,
    unit: String,
}

fn at(facts: &Facts<'_>, place: Place<'_>, wanted: &[Needed]) -> Option<Finding> {
    let programs = programs(facts, place)?;
    let lost: Vec<&Needed> =
        wanted.iter().filter(|wanted| is_lost(facts, place, &programs, wanted)).collect();
    let first = lost.first()?.number;
    if !lost.iter().any(|wanted| wanted.is_gpu) && !keeps_gpu(facts, place, wanted) {
        return None;
    }
    let summary = format!("systemd's program, loaded later, denies {} that the others allow", names(&lost));
    let mut found = finding::at(&LOST, place.cgroup, summary);
    found.devices = lost.iter().map(|wanted| wanted.device.clone()).collect();
    found.programs = facts.decisions(place, first, Request::ReadWrite);
    found.processes = place.cgroup.processes.iter().map(finding::process).collect();
    found.evidence = evidence(facts, &programs);
    found.confidence = Confidence::Likely;
    found.excuses = vec!["systemd's program was not loaded first".to_owned()];
    found.advice =
        "start the container or job again, and give its devices to the runtime (CDI, --device) so \
                    that systemd knows them"
            .to_owned();
    Some(found)
}

/// The programs, if one of them was attached to the unit by systemd after one
/// that somebody else attached to this very cgroup.
fn programs(facts: &Facts<'_>, place: Place<'_>) -> Option<Programs> {
    let cgroup = place.cgroup;
    let unit_path = unit_of(place.path)?.lossy().into_owned();
    let is_systemd = |one: &&Effective| one.attached_at == unit_path && is_systemd(facts, one.id);
    let systemd =
        cgroup.programs.iter().filter(is_systemd).max_by_key(|one| facts.age_of_program(one.id))?.clone();
    let others = cgroup.programs.iter().filter(|one| !is_systemd(one)).cloned().collect::<Vec<_>>();
    let here = others.iter().filter(|one| one.attached_at == cgroup.path);
    let last = here.map(|one| facts.age_of_program(one.id)).max()?;
    (last < facts.age_of_program(systemd.id)).then_some(Programs { systemd, others, unit: unit_path })
}

fn is_lost(facts: &Facts<'_>, place: Place<'_>, programs: &Programs, wanted: &Needed) -> bool {
    let allowed = |one: &Effective| wanted.is_allowed_by(one.id, facts);
    allowed(&programs.systemd) == Verdict::Deny
        && programs.others.iter().all(|one| allowed(one) == Verdict::Allow)
        && facts.verdict(place, wanted.number, Request::ReadWrite) == Verdict::Deny
}

fn keeps_gpu(facts: &Facts<'_>, place: Place<'_>, wanted: &[Needed]) -> bool {
    let mut gpus = wanted.iter().filter(|wanted| wanted.is_gpu);
    gpus.any(|gpu| facts.verdict(place, gpu.number, Request::ReadWrite) == Verdict::Allow)
}

fn evidence(facts: &Facts<'_>, programs: &Programs) -> Vec<String> {
    let loaded = |one: &Effective, by: &str| {
        let (at, _) = facts.age_of_program(one.id);
        format!("program {} ({by}) was loaded at {at} and is attached at {}", one.id, one.attached_at)
    };
    let mut evidence: Vec<String> = programs.others.iter().map(|one| loaded(one, "not systemd's")).collect();
    evidence.push(loaded(&programs.systemd, "systemd's"));
    evidence.push(format!(
        "assumed: systemd attached it again at a reload of {}, not at its start",
        programs.unit
    ));
    evidence
}

/// systemd names its programs since 251; those of older ones have its shape.
fn is_systemd(facts: &Facts<'_>, id: u32) -> bool {
    let program = facts.program(id);
    program.is_some_and(|program| program.writer == Some(Writer::Systemd))
}
