//! systemd and device programs that it does not know of: access that is lost
//! at a daemon-reload.

mod lost;
mod reload;

use super::catalogue::{Family, Kind};
use super::facts::{Facts, char};
use super::finding;
use crate::model::Severity;
use crate::model::{Request, Verdict};
use crate::report::{Finding, FindingDevice};

pub(super) const FAMILY: Family = Family { kinds: &[LOST, RELOAD], find };

const LOST: Kind = Kind {
    id: "access-lost",
    severity: Severity::Warning,
    title: "GPU access lost after a systemd reload",
    page: "\
A container or job was given GPUs by a device program of its runtime. Later systemd attached a program of its own to the same unit, made of the unit's DevicePolicy= and DeviceAllow=, and that one denies them. Both are in force, and one denial is enough.

It comes about when the GPUs were added behind systemd's back, as a runtime hook does, and then `systemctl daemon-reload`, `daemon-reexec` or a change of the unit's properties made systemd apply its settings anew. Processes that have a GPU open keep it; whatever is started or opened now fails, with NVIDIA's tools as \"Failed to initialize NVML: Unknown Error\".

It is no finding if systemd's program was loaded first, for then the GPUs were never granted in this unit, nor if another program denies them too.

What helps: start the container again. To keep it from happening, let the runtime tell systemd of the devices (CDI or `--device` in place of a hook), or use a runtime whose cgroups systemd does not manage.",
};

const RELOAD: Kind = Kind {
    id: "reload-would-lose",
    severity: Severity::Warning,
    title: "the next systemd reload would take GPUs away",
    page: "\
The programs in force in a unit allow GPUs that the unit's settings, DevicePolicy= and DeviceAllow= in its files, deny. At the next `systemctl daemon-reload` systemd attaches a program made of these settings beside the others, and the GPUs are lost: see `access-lost`.

The unit's files are read as systemd would read them now, drop-ins and templates included; names such as char-nvidia are looked up among the drivers that are loaded now. Where a setting cannot be resolved exactly there is no finding.

It is no finding if the settings allow the GPUs, if they make no program (DevicePolicy=auto without DeviceAllow=), if systemd could not attach one because the cgroup's own program excludes others, or if the unit has no program, no GPU open and no job or container in it.

What helps: let the runtime tell systemd of the devices (CDI or `--device`), or add a drop-in with DeviceAllow= for them before anything is reloaded.",
};

/// A device that decides whether GPUs can be used.
#[derive(Clone, Debug)]
struct Wanted {
    number: (u32, u32),
    device: FindingDevice,
    is_gpu: bool,
}

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let wanted = wanted(facts);
    let mut found = lost::find(facts, &wanted);
    found.extend(reload::find(facts, &wanted));
    found
}

/// The GPUs, and the nodes without which they cannot be used.
fn wanted(facts: &Facts<'_>) -> Vec<Wanted> {
    let gpu = |gpu: &crate::report::Gpu| {
        let number = gpu.major.zip(gpu.minor)?;
        Some(Wanted { number, device: finding::gpu(gpu), is_gpu: true })
    };
    let shared = facts.inspection.shared_nodes().iter().filter(|node| node.needed);
    let shared = shared.map(|node| {
        let number = (node.major, node.minor);
        Wanted { number, device: finding::device(number, Some(&node.role)), is_gpu: false }
    });
    facts.inspection.gpus().iter().filter_map(gpu).chain(shared).collect()
}

impl Wanted {
    fn is_allowed_by(&self, id: u32, facts: &mut Facts<'_>) -> Verdict {
        facts.inspection.program_verdict(id, char(self.number), Request::ReadWrite)
    }
}

/// The names of lost devices in a sentence.
fn names(lost: &[&Wanted]) -> String {
    let name = |wanted: &&Wanted| {
        let device = &wanted.device;
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

#[cfg(test)]
mod tests;
