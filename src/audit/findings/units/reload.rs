//! Finds units whose settings deny what is allowed in them now.

use super::{Needed, names};
use crate::audit::facts::{Facts, Place, char};
use crate::audit::finding;
use crate::audit::kind::Kind;
use crate::model::{CgroupPath, Confidence, Request, Severity, Verdict};
use crate::observation::{self, Text, Unit};
use crate::report::Finding;
use crate::unit::{DeviceRules, Filter, device_rules};

pub(super) const RELOAD: Kind = Kind {
    id: "reload-would-lose",
    severity: Severity::Warning,
    title: "the next systemd reload would take GPUs away",
    page: "\
The programs in force in a unit allow GPUs that the unit's settings, DevicePolicy= and DeviceAllow= in its \
files, deny. At the next `systemctl daemon-reload` systemd attaches a program made from these settings in \
addition, and the GPUs are lost: see `access-lost`.

The unit's files are read as systemd would read them now, drop-ins and templates included; names such as \
char-nvidia are looked up among the drivers that are loaded now. If a setting cannot be resolved exactly \
there is no finding.

Causes: a runtime added the GPUs without systemd, as a hook does.

Excuses: the settings allow the GPUs; they make no program (DevicePolicy=auto without DeviceAllow=); \
systemd could not attach one because the cgroup's own program excludes others; the unit has no program, no \
GPU open and no job or container in it.

What to do: run the command that `gpumap repair --prevent` prints, which makes the next reload harmless; \
the finding has it too. To remove the cause, let the runtime tell systemd which devices it needs (CDI or \
`--device`), or add a drop-in with DeviceAllow= for them before anything is reloaded.",
};

/// `BPF_F_ALLOW_MULTI` (`linux/bpf.h`): without it systemd's program cannot be
/// attached besides another.
const MULTI: u32 = 2;
/// Processes that a finding names.
const PROCESS_LIMIT: usize = 32;

pub(super) fn find(facts: &Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    let observation = facts.observation();
    let of_unit = |unit: &Unit| match device_rules(unit, &observation.gpu_facts) {
        DeviceRules::Filter(filter) if is_attachable(facts, unit) => at(facts, unit, &filter, wanted),
        _ => None,
    };
    observation.units.iter().filter_map(of_unit).collect()
}

fn at(facts: &Facts<'_>, unit: &Unit, filter: &Filter, wanted: &[Needed]) -> Option<Finding> {
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
    let mut found = finding::at(&RELOAD, place.cgroup, summary);
    found.devices = lost.iter().map(|wanted| wanted.device.clone()).collect();
    found.programs = facts.decisions(place, lost.first()?.number, Request::ReadWrite);
    let processes = place.cgroup.processes.iter().take(PROCESS_LIMIT);
    found.processes = processes.map(finding::process).collect();
    found.evidence = evidence(unit);
    found.confidence = Confidence::Likely;
    found.excuses = vec!["no DeviceAllow= of the unit names them".to_owned()];
    found.advice = "give the devices to the runtime (CDI, --device) so that systemd knows them, or add a \
                    drop-in with DeviceAllow= before the next daemon-reload"
        .to_owned();
    Some(found)
}

/// The devices that are allowed now and would be denied. Nodes that all GPUs need
/// count where a GPU is allowed.
fn lost<'w>(
    facts: &Facts<'_>,
    place: Place<'_>,
    denied: &[&'w Needed],
    wanted: &[Needed],
) -> Vec<&'w Needed> {
    let allowed = |wanted: &Needed| facts.allows(place, wanted.number, Request::ReadWrite);
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
fn places<'a>(facts: &Facts<'a>, unit: &Unit) -> Vec<Place<'a>> {
    let is_missed = |place: &Place<'_>| {
        is_within(place.path, &unit.cgroup)
            && (has_program(*place, unit) || place.holders().next().is_some() || is_tenants(facts, *place))
    };
    facts.places.iter().copied().filter(is_missed).collect()
}

fn has_program(place: Place<'_>, unit: &Unit) -> bool {
    let top = Text::from(unit.cgroup.lossy().into_owned());
    place.cgroup.programs.iter().any(|one| is_within(&one.attached_at.as_str().into(), &top))
}

fn is_tenants(facts: &Facts<'_>, place: Place<'_>) -> bool {
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
    evidence.push(
        "assumed: systemd applies the device settings of running units anew when it reloads, as \
                   247 to 252 were seen to do"
            .to_owned(),
    );
    evidence
}
