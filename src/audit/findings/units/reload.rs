//! Finds units whose settings deny what is allowed in them now.

use super::needed::{Needed, names};
use super::pages::RELOAD;
use crate::audit::facts::{Facts, char};
use crate::audit::finding;
use crate::model::Confidence;
use crate::model::{CgroupPath, Request, Verdict};
use crate::observation::{self, Text, Unit};
use crate::report::Finding;
use crate::unit::{DeviceRules, Filter, device_rules};

/// `BPF_F_ALLOW_MULTI` (`linux/bpf.h`): without it systemd's program cannot be
/// attached besides another.
const MULTI: u32 = 2;
/// Processes that a finding names.
const PROCESS_LIMIT: usize = 32;

pub(super) fn find(facts: &mut Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    let observation = facts.inspection.observation();
    let of_unit = |unit: &Unit| match device_rules(unit, &observation.gpu_facts) {
        DeviceRules::Filter(filter) if is_attachable(facts, unit) => at(facts, unit, &filter, wanted),
        _ => None,
    };
    observation.units.iter().filter_map(of_unit).collect()
}

fn at(facts: &mut Facts<'_>, unit: &Unit, filter: &Filter, wanted: &[Needed]) -> Option<Finding> {
    let denied: Vec<&Needed> = wanted
        .iter()
        .filter(|wanted| filter.verdict(char(wanted.number), Request::ReadWrite) == Verdict::Deny)
        .collect();
    if denied.is_empty() {
        return None;
    }
    let (place, lost) = places(facts, unit).into_iter().find_map(|place| {
        let lost = lost(facts, place, &denied, wanted);
        (!lost.is_empty()).then_some((place, lost))
    })?;
    let summary = format!(
        "{} would be lost at the next reload of systemd: the settings of {} deny them",
        names(&lost),
        unit.name.lossy()
    );
    let mut found = finding::at(&RELOAD, facts.cgroups().get(place)?, summary);
    found.devices = lost.iter().map(|wanted| wanted.device.clone()).collect();
    found.programs = facts.decisions(place, lost.first()?.number, Request::ReadWrite);
    let processes = facts.cgroups().get(place)?.processes.iter().take(PROCESS_LIMIT);
    found.processes = processes.map(finding::process).collect();
    found.evidence = evidence(unit);
    found.confidence = Confidence::Likely;
    found.excuses = vec!["no DeviceAllow= of the unit names them".to_owned()];
    found.advice = "give the devices to the runtime (CDI, --device) so that systemd knows them, or add a drop-in with DeviceAllow= before the next daemon-reload".to_owned();
    Some(found)
}

/// The devices that are allowed now and would be denied. Nodes that all GPUs need
/// count where a GPU is allowed.
fn lost<'w>(
    facts: &mut Facts<'_>,
    place: usize,
    denied: &[&'w Needed],
    wanted: &[Needed],
) -> Vec<&'w Needed> {
    let mut allowed =
        |wanted: &Needed| facts.verdict(place, wanted.number, Request::ReadWrite) == Verdict::Allow;
    if !wanted.iter().any(|wanted| wanted.is_gpu && allowed(wanted)) {
        return Vec::new();
    }
    denied.iter().copied().filter(|wanted| allowed(wanted)).collect()
}

/// Whether systemd can attach a program to the unit's cgroup.
fn is_attachable(facts: &Facts<'_>, unit: &Unit) -> bool {
    let own = facts.inspection.cgroup(&unit.cgroup).and_then(|cgroup| cgroup.own.known());
    own.is_some_and(|own| own.programs.is_empty() || own.flags & MULTI != 0)
}

/// The unit's cgroup and those below where a lost GPU would be missed: another
/// program than the unit's own decides there, a process has a GPU open, or it
/// belongs to a job or container.
fn places(facts: &Facts<'_>, unit: &Unit) -> Vec<usize> {
    let missed = |place: &usize| {
        let path = facts.path(*place);
        is_within(&path, &unit.cgroup)
            && (has_program(facts, *place, unit) || holds(facts, *place) || is_tenants(facts, *place))
    };
    (0..facts.cgroups().len()).filter(missed).collect()
}

fn has_program(facts: &Facts<'_>, place: usize, unit: &Unit) -> bool {
    let programs = facts.cgroups().get(place).map(|cgroup| cgroup.programs.as_slice()).unwrap_or_default();
    let top = Text::from(unit.cgroup.lossy().into_owned());
    programs.iter().any(|one| is_within(&one.attached_at.as_str().into(), &top))
}

fn holds(facts: &Facts<'_>, place: usize) -> bool {
    let processes = facts.cgroups().get(place).map(|cgroup| cgroup.processes.as_slice()).unwrap_or_default();
    processes.iter().any(|process| process.held.as_ref().is_some_and(|held| !held.is_empty()))
}

fn is_tenants(facts: &Facts<'_>, place: usize) -> bool {
    facts.tenants.iter().any(|tenant| tenant.cgroups.contains(&place))
}

fn is_within(path: &Text, top: &Text) -> bool {
    CgroupPath::new(path).is_at_or_below(CgroupPath::new(top))
}

fn evidence(unit: &Unit) -> Vec<String> {
    let file = |file: &observation::ConfigFile| {
        let text = file.text.lossy();
        let lines = text.lines().filter(|line| !line.starts_with('['));
        format!("{} says {}", file.path, lines.collect::<Vec<_>>().join(" "))
    };
    let mut evidence: Vec<String> = unit.files.iter().map(file).collect();
    evidence.push("assumed: systemd applies the device settings of running units anew when it reloads, as 247 to 252 were seen to do".to_owned());
    evidence
}
