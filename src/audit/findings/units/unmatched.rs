//! Finds units whose `DeviceAllow=` names a GPU driver or node that this node does not have.

use super::pages::UNMATCHED;
use crate::audit::access::verdict;
use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::model::{DeviceType, Vendor, Verdict};
use crate::observation::Unit;
use crate::report::Finding;
use crate::unit::names_of_nothing;

/// Parts of the names of drivers and nodes, and whose they are.
const NAMES: [(&str, Vendor); 3] =
    [("nvidia", Vendor::Nvidia), ("kfd", Vendor::Amd), ("amdgpu", Vendor::Amd)];

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let units = facts.inspection.observation().units.iter();
    units.filter_map(|unit| at(facts, unit)).collect()
}

fn at(facts: &Facts<'_>, unit: &Unit) -> Option<Finding> {
    let names = names_of_nothing(unit, &facts.inspection.observation().gpu_facts);
    let of_gpus = names.iter().filter_map(|name| Some((name, vendor(name)?)));
    let place = facts.inspection.paths().iter().position(|path| *path == unit.cgroup)?;
    let in_vain: Vec<(&String, &str)> = of_gpus
        .filter(|(_, (_, vendor))| has_none(facts, place, vendor))
        .map(|(name, (part, _))| (name, part))
        .collect();
    let (first, part) = *in_vain.first()?;
    let cgroup = facts.cgroups().get(place)?;
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
        processes: cgroup.processes.iter().take(finding::LISTED).map(finding::process).collect(),
        evidence,
        excuses: vec!["no other line gives the unit a GPU of this vendor".to_owned()],
        advice: format!(
            "name {instead} in the unit's file or a drop-in, run systemctl daemon-reload, and start the unit again"
        ),
        ..finding::at(&UNMATCHED, cgroup, summary)
    })
}

fn vendor(name: &str) -> Option<(&'static str, Vendor)> {
    NAMES.into_iter().find(|(part, _)| name.contains(part))
}

/// Whether there are GPUs of the vendor, and the unit is denied all of them.
fn has_none(facts: &Facts<'_>, place: usize, vendor: &Vendor) -> bool {
    let gpus = facts.inspection.gpus().iter().enumerate().filter(|(_, gpu)| gpu.vendor == *vendor);
    let verdicts: Vec<Verdict> = gpus.map(|(at, _)| verdict(facts, place, at)).collect();
    !verdicts.is_empty() && verdicts.iter().all(|one| *one == Verdict::Deny)
}

/// The names of registered drivers of character devices with this part.
fn drivers(facts: &Facts<'_>, part: &str) -> Vec<String> {
    let drivers = facts.inspection.observation().gpu_facts.drivers().unwrap_or_default();
    let characters = drivers.into_iter().filter(|driver| driver.kind == DeviceType::Char);
    let mut names: Vec<String> =
        characters.map(|driver| driver.name).filter(|name| name.contains(part)).collect();
    names.sort_by_key(String::len);
    names.dedup();
    names
}
