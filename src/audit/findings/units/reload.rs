//! Finds access that a reload of systemd has taken away, and access that the next one would.
//!
//! Taken away: two programs are in force, and systemd's later one denies what the first
//! allows. To come: the settings of a unit deny what is allowed in it now.

use crate::audit::facts::{Facts, char};
use crate::audit::finding;
use crate::audit::kind::Kind;
use crate::audit::tenants::Place;
use crate::model::{CgroupPath, Confidence, Request, Severity, Verdict, Writer};
use crate::observation::{self, Text, Unit};
use crate::repair::unit_of;
use crate::report::{Effective, Finding, FindingDevice, Gpu};
use crate::unit::{DeviceRules, Filter, device_rules};

/// A device that decides whether GPUs can be used.
#[derive(Clone, Debug)]
pub(super) struct Needed {
    pub(super) number: (u32, u32),
    pub(super) device: FindingDevice,
    pub(super) is_gpu: bool,
}

/// The GPUs, and the nodes without which they cannot be used.
pub(super) fn needed(facts: &Facts<'_>) -> Vec<Needed> {
    let gpu = |gpu: &Gpu| {
        let number = gpu.major.zip(gpu.minor)?;
        Some(Needed { number, device: finding::gpu(gpu), is_gpu: true })
    };
    let shared = facts.inspection.shared_nodes().iter().filter(|node| node.needed);
    let shared = shared.map(|node| {
        let number = (node.major, node.minor);
        Needed { number, device: finding::device(number, Some(&node.role.to_string())), is_gpu: false }
    });
    facts.gpus().iter().filter_map(gpu).chain(shared).collect()
}

impl Needed {
    pub(super) fn is_allowed_by(&self, id: u32, facts: &Facts<'_>) -> Verdict {
        facts.inspection.program_verdict(id, char(self.number), Request::ReadWrite)
    }
}

/// The names of lost devices in a sentence.
pub(super) fn names(lost: &[&Needed]) -> String {
    let name = |one: &&Needed| {
        let device = &one.device;
        device.name.clone().or_else(|| device.number.clone()).unwrap_or_default()
    };
    let mut names: Vec<String> = lost.iter().map(name).collect();
    if names.len() > 8 {
        let rest = names.len() - 8;
        names.truncate(8);
        names.push(format!("{rest} more"));
    }
    names.join(", ")
}

/// The id of the finding that an owner lost access to a GPU, which `gpumap repair` gives
/// back.
pub const ACCESS_LOST: &str = "access-lost";

pub(super) const LOST: Kind = Kind {
    id: ACCESS_LOST,
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

pub(super) fn lost(facts: &Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    facts.places.iter().filter_map(|place| lost_at(facts, *place, wanted)).collect()
}

/// The programs in force in a cgroup, by their owners.
struct Programs {
    /// systemd's, of the unit.
    systemd: Effective,
    /// All others.
    others: Vec<Effective>,
    unit: String,
}

fn lost_at(facts: &Facts<'_>, place: Place<'_>, wanted: &[Needed]) -> Option<Finding> {
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
    found.evidence = evidence_of_programs(facts, &programs);
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

fn evidence_of_programs(facts: &Facts<'_>, programs: &Programs) -> Vec<String> {
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

/// The program that systemd made of a unit's settings, by its shape or the name that it has
/// since 251.
pub(super) fn is_units_own(facts: &Facts<'_>, id: u32) -> bool {
    is_systemd(facts, id) || facts.program(id).is_some_and(|program| program.name == "sd_devices")
}

/// systemd names its programs since 251; those of older ones have its shape.
fn is_systemd(facts: &Facts<'_>, id: u32) -> bool {
    let program = facts.program(id);
    program.is_some_and(|program| program.writer == Some(Writer::Systemd))
}

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

Causes: a runtime added the GPUs without systemd, as a hook does; the unit names a program that is pinned \
(BPFProgram=device:PATH, as crun writes it), and another one is pinned there now, which systemd attaches at \
the reload.

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

pub(super) fn would_lose(facts: &Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    let observation = facts.observation();
    let of_unit = |unit: &Unit| match device_rules(unit, &observation.gpu_facts) {
        DeviceRules::Filter(filter) if is_attachable(facts, unit) => threatened(facts, unit, &filter, wanted),
        _ => None,
    };
    observation.units.iter().filter_map(of_unit).collect()
}

fn threatened(facts: &Facts<'_>, unit: &Unit, filter: &Filter, wanted: &[Needed]) -> Option<Finding> {
    let denied: Vec<&Needed> = wanted
        .iter()
        .filter(|wanted| filter.verdict(char(wanted.number), Request::ReadWrite) == Verdict::Deny)
        .collect();
    if denied.is_empty() {
        return None;
    }
    let (place, lost) = places(facts, unit).into_iter().find_map(|place| {
        let lost = would_be_lost(facts, place, &denied, wanted);
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
    found.evidence = evidence_of_unit(unit);
    found.confidence = Confidence::Likely;
    found.excuses = vec!["no DeviceAllow= of the unit names them".to_owned()];
    found.advice = "give the devices to the runtime (CDI, --device) so that systemd knows them, or add a \
                    drop-in with DeviceAllow= before the next daemon-reload"
        .to_owned();
    Some(found)
}

/// The devices that are allowed now and would be denied. Nodes that all GPUs need
/// count where a GPU is allowed.
fn would_be_lost<'w>(
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

pub(super) fn evidence_of_unit(unit: &Unit) -> Vec<String> {
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
