//! Finds GPU access that systemd takes away at a daemon-reload, and device settings that
//! match nothing. systemd makes its programs from unit files, which do not contain what a
//! container runtime granted.

mod lost;
mod reload;
#[cfg(test)]
mod tests;
mod unmatched;

use crate::audit::facts::{Facts, char};
use crate::audit::finding;
use crate::audit::kind::Family;
use crate::model::{Request, Verdict};
use crate::observation::Text;
use crate::repair::{self, RepairRequest};
use crate::report::{Finding, FindingDevice, Gpu};

pub(super) const FAMILY: Family = Family { kinds: &[lost::LOST, reload::RELOAD, unmatched::UNMATCHED], find };

/// Findings that get the exact command: working it out takes a look at the
/// whole node each time.
const WITH_COMMAND: usize = 50;

/// Gives findings the command that `gpumap repair` prints, where there is one.
fn add_commands(facts: &Facts<'_>, found: &mut [Finding], request: &RepairRequest) {
    for finding in found.iter_mut().take(WITH_COMMAND).filter(|finding| finding.cgroup_hex.is_none()) {
        let Some(path) = finding.cgroup.as_deref().map(Text::from) else { continue };
        let Ok(payload) = repair::plan(facts.observation(), &path, request, facts.inspection.limit()) else {
            continue;
        };
        let repair = payload.repair.unwrap_or_default();
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
    let needed = needed(facts);
    let mut found = lost::find(facts, &needed);
    add_commands(facts, &mut found, &RepairRequest::default());
    let mut threatened = reload::find(facts, &needed);
    add_commands(facts, &mut threatened, &RepairRequest { prevent: true, ..RepairRequest::default() });
    found.extend(threatened);
    found.extend(unmatched::find(facts));
    found
}

/// A device that decides whether GPUs can be used.
#[derive(Clone, Debug)]
struct Needed {
    number: (u32, u32),
    device: FindingDevice,
    is_gpu: bool,
}

/// The GPUs, and the nodes without which they cannot be used.
fn needed(facts: &Facts<'_>) -> Vec<Needed> {
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
    fn is_allowed_by(&self, id: u32, facts: &Facts<'_>) -> Verdict {
        facts.inspection.program_verdict(id, char(self.number), Request::ReadWrite)
    }
}

/// The names of lost devices in a sentence.
fn names(lost: &[&Needed]) -> String {
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
