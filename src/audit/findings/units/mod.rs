//! Finds GPU access that systemd takes away at a daemon-reload, and device settings that
//! match nothing. systemd makes its programs from unit files, which do not contain what a
//! container runtime granted.

mod pinned;
mod reload;
mod since;
#[cfg(test)]
mod tests;

use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::Place;
use crate::model::{DeviceType, Severity, Vendor, Verdict};
use crate::observation::{Text, Unit};
use crate::repair::{self, RepairRequest};
use crate::report::Finding;
use crate::unit::names_of_nothing;

pub use reload::ACCESS_LOST;

pub(super) const FAMILY: Family =
    Family { kinds: &[reload::LOST, reload::RELOAD, pinned::OPENED, since::NOT_APPLIED, UNMATCHED], find };

/// Findings that get the exact command: working it out takes a look at the
/// whole node each time.
const WITH_COMMAND: usize = 50;

/// Gives findings the command that `gpumap repair` prints, where there is one.
fn add_commands(facts: &Facts<'_>, found: &mut [Finding], request: &RepairRequest) {
    for finding in found.iter_mut().take(WITH_COMMAND).filter(|finding| finding.cgroup_hex.is_none()) {
        let Some(path) = finding.cgroup.as_deref().map(Text::from) else { continue };
        let Ok(repair) = repair::plan(facts.observation(), &path, request, facts.inspection.limit()) else {
            continue;
        };
        let stop_gap = repair.replacement.and_then(|replacement| replacement.line);
        let line = repair.steps.into_iter().next().map(|step| step.line).or(stop_gap);
        let option = if request.prevent { " --prevent" } else { "" };
        if let Some(line) = line {
            finding.advice = format!(
                "look at gpumap repair{option}, and run the line below; to be rid of the cause, {}",
                finding.advice
            );
            finding.command = Some(line);
        }
    }
}

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let needed = reload::needed(facts);
    let mut found = reload::lost(facts, &needed);
    add_commands(facts, &mut found, &RepairRequest::default());
    let mut threatened = reload::would_lose(facts, &needed);
    threatened.extend(pinned::would_lose(facts, &needed));
    add_commands(facts, &mut threatened, &RepairRequest { prevent: true, ..RepairRequest::default() });
    found.extend(threatened);
    found.extend(pinned::would_open(facts));
    found.extend(since::find(facts, &needed));
    found.extend(unmatched(facts));
    found
}

const UNMATCHED: Kind = Kind {
    id: "device-allow-unmatched",
    severity: Severity::Warning,
    title: "DeviceAllow= of a unit names no device of this node",
    page: "\
DeviceAllow= in the files of a systemd unit names a GPU driver (char-NAME) or a node that does not exist on \
this node. systemd makes no rule of such a line, says nothing, and the unit can open no GPU of that vendor.

Causes: the driver has another name in /proc/devices (NVIDIA's is `nvidia-frontend` up to release 525 or so \
and `nvidia` later); the module was not loaded when the unit was started; a typing error.

Excuses: the unit may open a GPU of the vendor by another line, since many files name the drivers of \
several releases; a unit without processes; names that gpumap cannot look up.

What to do: write the name that stands in /proc/devices, or both, run `systemctl daemon-reload`, and start \
the unit again.",
};

/// Parts of the names of drivers and nodes, and whose they are.
const NAMES: [(&str, Vendor); 3] =
    [("nvidia", Vendor::Nvidia), ("kfd", Vendor::Amd), ("amdgpu", Vendor::Amd)];

fn unmatched(facts: &Facts<'_>) -> Vec<Finding> {
    let units = facts.observation().units.iter();
    units.filter_map(|unit| unmatched_of(facts, unit)).collect()
}

fn unmatched_of(facts: &Facts<'_>, unit: &Unit) -> Option<Finding> {
    let names = names_of_nothing(unit, &facts.observation().gpu_facts);
    let of_gpus = names.iter().filter_map(|name| Some((name, vendor(name)?)));
    let place = facts.places.iter().find(|place| *place.path == unit.cgroup)?;
    let in_vain: Vec<(&String, &str)> = of_gpus
        .filter(|(_, (_, vendor))| has_none(facts, *place, vendor))
        .map(|(name, (part, _))| (name, part))
        .collect();
    let (first, part) = *in_vain.first()?;
    let cgroup = place.cgroup;
    let said: Vec<String> = in_vain.iter().map(|(name, _)| format!("DeviceAllow={name}")).collect();
    let verb = if said.len() == 1 { "matches" } else { "match" };
    let summary = format!(
        "{} of {} {verb} nothing on this node: no GPU can be opened",
        said.join(" and "),
        unit.name.lossy()
    );
    let drivers = drivers(facts, part);
    let mut evidence: Vec<String> = unit.files.iter().map(|file| format!("read in {}", file.path)).collect();
    evidence.push(match drivers.is_empty() {
        true => format!("/proc/devices has no driver with {part} in its name"),
        false => format!("in /proc/devices the driver is called {}", drivers.join(", ")),
    });
    let name = drivers.first().map_or_else(|| "NAME".to_owned(), ToString::to_string);
    let instead = if first.starts_with("char-") {
        format!("DeviceAllow=char-{name}")
    } else {
        "a node that exists".to_owned()
    };
    Some(Finding {
        processes: finding::processes(&cgroup.processes),
        evidence,
        excuses: vec!["no other line gives the unit a GPU of this vendor".to_owned()],
        advice: format!(
            "name {instead} in the unit's file or a drop-in, run systemctl daemon-reload, and start the unit \
             again"
        ),
        ..finding::at(&UNMATCHED, cgroup, summary)
    })
}

fn vendor(name: &str) -> Option<(&'static str, Vendor)> {
    NAMES.into_iter().find(|(part, _)| name.contains(part))
}

/// Whether there are GPUs of the vendor, and the unit is denied all of them.
fn has_none(facts: &Facts<'_>, place: Place<'_>, vendor: &Vendor) -> bool {
    let mut gpus = facts.gpus().iter().filter(|gpu| gpu.vendor == *vendor).peekable();
    gpus.peek().is_some() && gpus.all(|gpu| place.verdict(gpu) == Verdict::Deny)
}

/// The names of registered drivers of character devices with this part.
fn drivers(facts: &Facts<'_>, part: &str) -> Vec<String> {
    let drivers = facts.observation().gpu_facts.drivers().unwrap_or_default();
    let characters = drivers.into_iter().filter(|driver| driver.kind == DeviceType::Char);
    let mut names: Vec<String> =
        characters.map(|driver| driver.name).filter(|name| name.contains(part)).collect();
    names.sort_by_key(String::len);
    names.dedup();
    names
}
