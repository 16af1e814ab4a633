//! Finds programs of `gpumap repair --apply` that systemd does not know of and that
//! are of no use any more, because it has made its own again.

use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::audit::kind::{Family, Kind};
use crate::model::{Severity, Writer};
use crate::report::{Cgroup, Finding};

const ORPHAN: Kind = Kind {
    id: "repair-orphan",
    severity: Severity::Warning,
    title: "a program of gpumap's repair is left over",
    page: "\
`gpumap repair --apply` put a program in the place of systemd's. Since then systemd has made its own \
program again, at a daemon-reload or a change of the unit, and attached it beside gpumap's. systemd never \
removes that one: whatever is added to the unit's DeviceAllow= later, gpumap's program goes on to deny what \
it denied when it was made. And what it gave back is denied by systemd's new program.

Causes: a reload, an update of the container, or another change of a property after a repair that was meant \
as a stop-gap.

Excuses: systemd's program was loaded first, so that it is the one that the repair left beside.

What to do: run `gpumap repair --undo` with the journal that `gpumap repair --list` names: it takes the \
program away if no verdict depends on it. Then ask `gpumap repair` again, whose line for systemd lasts.",
};

pub(super) const FAMILY: Family = Family { kinds: &[ORPHAN], find };

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    facts.places.iter().filter_map(|place| at(facts, place.cgroup)).collect()
}

fn at(facts: &Facts<'_>, cgroup: &Cgroup) -> Option<Finding> {
    let own = cgroup.programs.iter().filter(|program| program.attached_at == cgroup.path);
    let (mut ours, mut newest) = (None, None);
    for program in own {
        match facts.program(program.id).and_then(|program| program.writer.as_ref()) {
            Some(Writer::Gpumap) => ours = Some(program.id),
            Some(Writer::Systemd) => newest = newest.max(Some(facts.age_of_program(program.id))),
            _ => {}
        }
    }
    let (ours, newest) = (ours?, newest?);
    if newest < facts.age_of_program(ours) {
        return None;
    }
    let summary = format!("systemd made its program again, so that gpumap's program {ours} is of no use");
    let mut found = finding::at(&ORPHAN, cgroup, summary);
    found.evidence = vec![
        format!("program {ours} was loaded at {}", facts.age_of_program(ours).0),
        format!("program {} (systemd's) was loaded at {}", newest.1, newest.0),
    ];
    found.advice =
        "take it away, if no verdict depends on it, by the line below; then ask gpumap repair again"
            .to_owned();
    found.command = Some(format!("gpumap repair --undo /run/gpumap/repair-{ours}.json"));
    Some(found)
}
