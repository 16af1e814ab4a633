//! Finds units whose pinned programs (`BPFProgram=device:PATH`) the next reload of systemd
//! takes away or exchanges: it detaches what it attached for the setting, and attaches what
//! is pinned at that moment.

use super::reload::{Needed, RELOAD, evidence_of_unit, is_units_own, names};
use crate::audit::facts::{Facts, char};
use crate::audit::kind::Kind;
use crate::audit::tenants::{Place, number};
use crate::audit::{finding, wording};
use crate::model::{Confidence, Request, Severity, Verdict};
use crate::observation::Unit;
use crate::report::{Finding, Gpu};

pub(super) const OPENED: Kind = Kind {
    id: "reload-would-open",
    severity: Severity::Warning,
    title: "the next systemd reload would take a device limit away",
    page: "\
A unit has BPFProgram=device:PATH: systemd attaches the program that is pinned there, as crun 1.23 and newer \
let it do for containers. Nothing is pinned at the path any more. At the next `systemctl daemon-reload` \
systemd detaches the program, finds none to attach in its place, writes a line to the journal and goes on: \
the unit may then open every GPU that this program denies.

Causes: somebody cleaned up below /sys/fs/bpf; the bpf file system was mounted anew.

Excuses: other programs deny these GPUs too; the program in force is systemd's own, made from DeviceAllow=; \
what is pinned could not be looked at.

What to do: pin the program again before anything is reloaded, or start the container again.",
};

/// The units that name pinned programs, with their cgroups.
fn units<'f, 'a>(facts: &'f Facts<'a>) -> impl Iterator<Item = (&'a Unit, Place<'a>)> + use<'f, 'a> {
    let units = facts.observation().units.iter().filter(|unit| !unit.pinned.is_empty());
    units.filter_map(|unit| Some((unit, *facts.places.iter().find(|place| *place.path == unit.cgroup)?)))
}

/// The programs that are attached to a unit itself and are not systemd's own.
fn foreign(facts: &Facts<'_>, place: Place<'_>) -> Vec<u32> {
    let here = place.cgroup.programs.iter().filter(|one| one.attached_at == place.cgroup.path);
    here.map(|one| one.id).filter(|id| !is_units_own(facts, *id)).collect()
}

/// The units of which nothing is pinned where they say.
pub(super) fn would_open(facts: &Facts<'_>) -> Vec<Finding> {
    let found = units(facts).filter_map(|(unit, place)| {
        let gone = unit.pinned.iter().find(|pinned| pinned.program.known() == Some(&None))?;
        let kept: Vec<u32> = unit.pinned.iter().filter_map(|it| *it.program.known()?).collect();
        let mut foreign = foreign(facts, place);
        foreign.retain(|id| !kept.contains(id));
        let opens = |gpu: &&&Gpu| opens(facts, place, &foreign, gpu);
        let denied = facts.gpus_with(place, Verdict::Deny);
        let gpus: Vec<&Gpu> = denied.iter().filter(opens).copied().collect();
        let (first, path) = (*foreign.first()?, &gone.path);
        let summary = format!(
            "{} may open {} after the next reload of systemd: nothing is pinned at {path}",
            unit.name.lossy(),
            wording::count(gpus.len())
        );
        let mut found = finding::about_gpus(facts, &OPENED, place, &gpus, summary);
        found.evidence.extend(evidence_of_unit(unit));
        found.evidence.push(format!("assumed: systemd attached program {first} for BPFProgram="));
        found.confidence = Confidence::Likely;
        found.excuses = vec!["no other program in force denies them".to_owned()];
        found.advice = format!(
            "pin the program again before anything is reloaded (bpftool prog pin id {first} {path}), or \
             start {} again",
            unit.name.lossy()
        );
        (!gpus.is_empty()).then_some(found)
    });
    found.collect()
}

/// Whether a GPU is denied by these programs alone.
fn opens(facts: &Facts<'_>, place: Place<'_>, foreign: &[u32], gpu: &Gpu) -> bool {
    let Some(number) = number(gpu) else { return false };
    let others = place.cgroup.programs.iter().filter(|one| !foreign.contains(&one.id));
    let mut verdicts =
        others.map(|one| facts.inspection.program_verdict(one.id, char(number), Request::ReadWrite));
    !foreign.is_empty() && verdicts.all(|verdict| verdict == Verdict::Allow)
}

/// The units for which another program is pinned than the one in force, and that one denies
/// what is allowed now.
pub(super) fn would_lose(facts: &Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    let found = units(facts).filter_map(|(unit, place)| {
        let foreign = foreign(facts, place);
        let mut pinned = unit.pinned.iter().filter_map(|it| Some((&it.path, (*it.program.known()?)?)));
        let (path, id) = pinned.find(|(_, id)| !foreign.contains(id))?;
        let is_lost = |needed: &&Needed| {
            needed.is_allowed_by(id, facts) == Verdict::Deny
                && facts.allows(place, needed.number, Request::ReadWrite)
        };
        let lost: Vec<&Needed> = wanted.iter().filter(is_lost).collect();
        lost.iter().find(|needed| needed.is_gpu)?;
        let summary = format!(
            "{} would be lost at the next reload of systemd: program {id}, pinned at {path} for {}, denies \
             them",
            names(&lost),
            unit.name.lossy()
        );
        let mut found = finding::at(&RELOAD, place.cgroup, summary);
        found.devices = lost.iter().map(|needed| needed.device.clone()).collect();
        found.programs = facts.decisions(place, lost.first()?.number, Request::ReadWrite);
        found.processes = finding::processes(&place.cgroup.processes);
        found.evidence = evidence_of_unit(unit);
        found.confidence = Confidence::Likely;
        found.excuses = vec![format!("program {id} is not among those in force")];
        found.advice = format!(
            "look at it with gpumap prog {id}; pin the program at {path} that should be in force, or start {} \
             again",
            unit.name.lossy()
        );
        Some(found)
    });
    found.collect()
}
