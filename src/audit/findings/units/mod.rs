//! Finds GPU access that systemd takes away at a daemon-reload. systemd makes its
//! programs from unit files, which do not contain what a container runtime granted.

mod lost;
mod needed;
mod pages;
mod reload;
mod unmatched;

use crate::audit::facts::Facts;
use crate::audit::kind::Family;
use crate::observation::Text;
use crate::repair::{self, RepairRequest};
use crate::report::Finding;

pub(super) const FAMILY: Family = Family { kinds: &[pages::LOST, pages::RELOAD, pages::UNMATCHED], find };

/// Findings that get the exact command: working it out takes a look at the
/// whole node each time.
const WITH_COMMAND: usize = 50;

/// Gives findings the command that `gpumap repair` prints, where there is one.
fn add_commands(facts: &Facts<'_>, found: &mut [Finding], request: &RepairRequest) {
    for finding in found.iter_mut().take(WITH_COMMAND).filter(|finding| finding.cgroup_hex.is_none()) {
        let Some(path) = finding.cgroup.as_deref().map(Text::from) else { continue };
        let Ok(payload) =
            repair::plan(facts.inspection.observation(), &path, request, facts.inspection.limit())
        else {
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

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let needed = needed::needed(facts);
    let mut found = lost::find(facts, &needed);
    add_commands(facts, &mut found, &RepairRequest::default());
    let mut threatened = reload::find(facts, &needed);
    add_commands(facts, &mut threatened, &RepairRequest { prevent: true, ..RepairRequest::default() });
    found.extend(threatened);
    found.extend(unmatched::find(facts));
    found
}

#[cfg(test)]
mod tests;
