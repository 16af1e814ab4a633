//! Finds access that systemd has taken away: two programs are in force, and
//! systemd's later one denies what the first allows.

use super::needed::{Needed, names};
use super::pages::LOST;
use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::model::{Confidence, Request, Verdict, Writer};
use crate::observation;
use crate::repair::unit_of;
use crate::report::{Effective, Finding};

pub(super) fn find(facts: &mut Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    (0..facts.cgroups().len()).filter_map(|place| at(facts, place, wanted)).collect()
}

/// The programs in force in a cgroup, by their owners.
struct Programs {
    /// systemd's, of the unit.
    systemd: Effective,
    /// All others.
    others: Vec<Effective>,
    unit: String,
}

fn at(facts: &mut Facts<'_>, place: usize, wanted: &[Needed]) -> Option<Finding> {
    let programs = programs(facts, place)?;
    let lost: Vec<&Needed> =
        wanted.iter().filter(|wanted| is_lost(facts, place, &programs, wanted)).collect();
    let first = lost.first()?.number;
    if !lost.iter().any(|wanted| wanted.is_gpu) && !keeps_gpu(facts, place, wanted) {
        return None;
    }
    let summary = format!("systemd's program, loaded later, denies {} that the others allow", names(&lost));
    let mut found = finding::at(&LOST, facts.cgroups().get(place)?, summary);
    found.devices = lost.iter().map(|wanted| wanted.device.clone()).collect();
    found.programs = facts.decisions(place, first, Request::ReadWrite);
    found.processes = facts.cgroups().get(place)?.processes.iter().map(finding::process).collect();
    found.evidence = evidence(facts, &programs);
    found.confidence = Confidence::Likely;
    found.excuses = vec!["systemd's program was not loaded first".to_owned()];
    found.advice = "start the container or job again, and give its devices to the runtime (CDI, --device) so that systemd knows them".to_owned();
    Some(found)
}

/// The programs, if one of them was attached to the unit by systemd after one
/// that somebody else attached to this very cgroup.
fn programs(facts: &Facts<'_>, place: usize) -> Option<Programs> {
    let cgroup = facts.cgroups().get(place)?;
    let path = facts.path(place);
    let unit_path = unit_of(&path)?.lossy().into_owned();
    let is_systemd = |one: &&Effective| one.attached_at == unit_path && is_systemd(facts, one.id);
    let systemd = cgroup.programs.iter().filter(is_systemd).max_by_key(|one| age(facts, one.id))?.clone();
    let others = cgroup.programs.iter().filter(|one| !is_systemd(one)).cloned().collect::<Vec<_>>();
    let here = others.iter().filter(|one| one.attached_at == cgroup.path);
    let last = here.map(|one| age(facts, one.id)).max()?;
    (last < age(facts, systemd.id)).then_some(Programs { systemd, others, unit: unit_path })
}

fn is_lost(facts: &mut Facts<'_>, place: usize, programs: &Programs, wanted: &Needed) -> bool {
    let mut allowed = |one: &Effective| wanted.is_allowed_by(one.id, facts);
    allowed(&programs.systemd) == Verdict::Deny
        && programs.others.iter().all(|one| allowed(one) == Verdict::Allow)
        && facts.verdict(place, wanted.number, Request::ReadWrite) == Verdict::Deny
}

fn keeps_gpu(facts: &mut Facts<'_>, place: usize, wanted: &[Needed]) -> bool {
    let mut gpus = wanted.iter().filter(|wanted| wanted.is_gpu);
    gpus.any(|gpu| facts.verdict(place, gpu.number, Request::ReadWrite) == Verdict::Allow)
}

fn evidence(facts: &Facts<'_>, programs: &Programs) -> Vec<String> {
    let loaded = |one: &Effective, by: &str| {
        let at = observed(facts, one.id).map_or("", |program| program.loaded_at.as_str());
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

fn observed<'a>(facts: &Facts<'a>, id: u32) -> Option<&'a observation::Program> {
    facts.inspection.observation().programs.iter().find(|program| program.id == id)
}

/// Load time, then id: the time is in seconds, and ids grow until they wrap.
fn age<'a>(facts: &Facts<'a>, id: u32) -> (&'a str, u32) {
    (observed(facts, id).map_or("", |program| program.loaded_at.as_str()), id)
}

/// systemd names its programs since 251; those of older ones have its shape.
fn is_systemd(facts: &Facts<'_>, id: u32) -> bool {
    let programs = facts.inspection.payload().programs.as_ref();
    let program = programs.and_then(|programs| programs.get(&id));
    program.is_some_and(|program| program.writer == Some(Writer::Systemd))
}
