//! Finds denials that a program which runs later turns into an allow.

use std::collections::BTreeSet;

use crate::audit::facts::{Facts, Tenant};
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{about_gpus, count, exclusive_with, number, views};
use crate::audit::wording;
use crate::model::Request;
use crate::model::Severity;
use crate::model::Verdict;
use crate::report::Finding;

const UNDONE: Kind = Kind {
    id: "retval-undone",
    severity: Severity::Critical,
    title: "a later program undoes a denial",
    page: "\
Several programs are in force on a cgroup. One of them denies a GPU, but one that runs later calls bpf_set_retval(0) \
and returns 1. The kernel (Linux 5.18 and newer) uses the error that is left at the end, so the GPU may be opened. A \
reader of the single programs would think that the GPU is denied.

Causes: a program that replaces errors by others, or one that was written to circumvent the denial.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs.

What to do: find out who attached the later program (its uid and load time: gpumap prog) and detach it, or attach the \
denial so that it runs after it.",
};

pub(super) const FAMILY: Family = Family { kinds: &[UNDONE], find };

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let tenants = facts.tenants.clone();
    tenants.iter().filter_map(|tenant| look(facts, tenant)).collect()
}

fn look(facts: &mut Facts<'_>, tenant: &Tenant) -> Option<Finding> {
    let mut seen = BTreeSet::new();
    for place in views(facts, tenant) {
        let ids: Vec<u32> = facts.cgroups()[place].programs.iter().map(|program| program.id).collect();
        // Only a program whose result depends on others can override a denial.
        let may_undo = ids.len() > 1 && ids.iter().any(|id| facts.inspection.depends_on_place(*id));
        if !may_undo || !seen.insert(ids) {
            continue;
        }
        let mut gpus = exclusive_with(facts, place, Verdict::Allow);
        gpus.retain(|gpu| is_denied_by_one(facts, place, *gpu));
        if !gpus.is_empty() {
            return Some(report(facts, tenant, place, &gpus));
        }
    }
    None
}

fn is_denied_by_one(facts: &mut Facts<'_>, place: usize, gpu: usize) -> bool {
    let Some(number) = number(&facts.inspection.gpus()[gpu]) else { return false };
    facts
        .decisions(place, number, Request::ReadWrite)
        .iter()
        .any(|decision| decision.returns == Verdict::Deny)
}

fn report(facts: &mut Facts<'_>, tenant: &Tenant, place: usize, gpus: &[usize]) -> Finding {
    let owner = wording::owner(&tenant.sets.owner);
    let summary = format!("{owner} may open {} that one of its programs denies", count(gpus.len()));
    let mut found = about_gpus(facts, &UNDONE, place, gpus, summary);
    found
        .evidence
        .push("all programs together allow it: a later one sets the kernel's error back to 0".to_owned());
    found
        .excuses
        .push("the configuration shares these GPUs neither with everybody nor by whole nodes".to_owned());
    "find out who attached the program that runs after the denial, and detach it"
        .clone_into(&mut found.advice);
    found
}
