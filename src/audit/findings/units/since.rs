//! Finds units whose device settings were changed after systemd made the program that is
//! in force: the change is not applied yet.

use super::reload::{Needed, is_units_own, names};
use crate::audit::facts::{Facts, char};
use crate::audit::finding;
use crate::audit::kind::Kind;
use crate::audit::tenants::Place;
use crate::model::{Confidence, Request, Severity, Verdict};
use crate::observation::Unit;
use crate::report::Finding;
use crate::unit::{DeviceRules, device_rules};

pub(super) const NOT_APPLIED: Kind = Kind {
    id: "device-allow-not-applied",
    severity: Severity::Warning,
    title: "device settings of a unit that are newer than its program",
    page: "\
A file or drop-in with DeviceAllow= or DevicePolicy= of a systemd unit was changed after systemd made the \
unit's device program, and gives the unit a GPU, or a node that GPUs need, which the program in force denies.

Causes: a drop-in was written and `systemctl daemon-reload` forgotten.

Excuses: the file was written before the program was made, and says nothing new; settings that gpumap cannot \
resolve exactly; another program denies the device too.

What to do: run `systemctl daemon-reload`, which applies the list to the running unit.",
};

/// One finding for each unit.
pub(super) fn find(facts: &Facts<'_>, wanted: &[Needed]) -> Vec<Finding> {
    facts.observation().units.iter().filter_map(|unit| of_unit(facts, unit, wanted)).collect()
}

fn of_unit(facts: &Facts<'_>, unit: &Unit, wanted: &[Needed]) -> Option<Finding> {
    let changed = unit.devices_changed_at.as_ref()?;
    let DeviceRules::Filter(filter) = device_rules(unit, &facts.observation().gpu_facts) else { return None };
    let place = *facts.places.iter().find(|place| *place.path == unit.cgroup)?;
    let here = place.cgroup.programs.iter().filter(|one| one.attached_at == place.cgroup.path);
    let own = here
        .map(|one| one.id)
        .filter(|id| is_units_own(facts, *id))
        .max_by_key(|id| facts.age_of_program(*id))?;
    let (loaded, _) = facts.age_of_program(own);
    if !loaded.is_known() || *changed <= loaded {
        return None;
    }
    let is_denied = |needed: &&Needed| {
        filter.verdict(char(needed.number), Request::ReadWrite) == Verdict::Allow
            && facts.verdict(place, needed.number, Request::ReadWrite) == Verdict::Deny
            && others_allow(facts, place, own, needed)
    };
    let denied: Vec<&Needed> = wanted.iter().filter(is_denied).collect();
    let first = denied.first()?.number;
    let name = unit.name.lossy();
    let summary =
        format!("the files of {name} give it {}, and its program is older and denies that", names(&denied));
    let mut found = finding::at(&NOT_APPLIED, place.cgroup, summary);
    found.devices = denied.iter().map(|needed| needed.device.clone()).collect();
    found.programs = facts.decisions(place, first, Request::ReadWrite);
    found.processes = finding::processes(&place.cgroup.processes);
    found.evidence = vec![
        format!("its device settings were changed at {changed}"),
        format!("program {own}, systemd's, was loaded at {loaded}"),
    ];
    found.evidence.extend(unit.files.iter().map(|file| format!("read in {}", file.path)));
    found.confidence = Confidence::Certain;
    found.excuses = vec!["no other program in force denies it".to_owned()];
    found.advice = "run systemctl daemon-reload".to_owned();
    Some(found)
}

/// Whether every other program in force allows a device.
fn others_allow(facts: &Facts<'_>, place: Place<'_>, own: u32, needed: &Needed) -> bool {
    let mut others = place.cgroup.programs.iter().filter(|one| one.id != own);
    others.all(|one| needed.is_allowed_by(one.id, facts) == Verdict::Allow)
}
