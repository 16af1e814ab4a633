//! Finds cgroups inside a tenant that may open what the tenant itself may not.

use std::collections::HashMap;

use crate::audit::facts::{Facts, Tenant};
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{about_gpus, count, exclusive_with, in_words, number};
use crate::audit::wording;
use crate::model::Severity;
use crate::model::Verdict;
use crate::model::{CgroupPath, Confidence, Request};
use crate::observation::Text;
use crate::report::{Cgroup, Finding};

const DROPPED: Kind = Kind {
    id: "dropped-denials",
    severity: Severity::Critical,
    title: "a program below a job replaces the job's denials",
    page: "\
A cgroup inside a job or container may open GPUs that the cgroup around it may not. The program around it was attached \
so that programs below override it (BPF_F_ALLOW_OVERRIDE), which is how Slurm attaches those of jobs and steps: \
another program that is attached to a lower cgroup replaces it there. Nothing is logged.

Causes: root starts a container (runc, crun, docker, podman) in a cgroup below a batch step; a runtime with \
rights of its own does it for a user; a tool rewrites the programs of a step's cgroup.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs. A program below that is narrower than the \
job's, such as that of a step or task, is no finding.

What to do: let containers in jobs run without cgroups of their own (runc and crun: cgroups managed by the job; podman: \
--cgroups=disabled), or give them a cgroup outside of the job with exactly the job's GPUs.",
};

const ESCAPE: Kind = Kind {
    id: "cgroup-id-escape",
    severity: Severity::Critical,
    title: "a child cgroup escapes a program that looks up cgroup ids",
    page: "\
The same programs are in force on a cgroup and on one below it, and yet the lower one may open GPUs that the upper one \
may not: the program looks the caller's cgroup id up in a map, and only the upper cgroup is listed. Every process that \
may make a cgroup there and move into it escapes.

Causes: CraneSched's program knows a task by the id of the task's own cgroup and allows what it does not \
find. Containers, and users to whom the cgroup is delegated, make cgroups below it.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs.

What to do: do not delegate the task's cgroup; use a version of the scheduler that goes by ancestors \
(bpf_get_current_ancestor_cgroup_id) or lists new cgroups too.",
};

pub(super) const FAMILY: Family = Family { kinds: &[DROPPED, ESCAPE], find };

/// A cgroup, the one around it that denies more, and the GPUs in question.
type Wider = (usize, usize, Vec<usize>);

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    let tenants = facts.tenants.clone();
    tenants.iter().flat_map(|tenant| look(facts, tenant)).collect()
}

fn look(facts: &mut Facts<'_>, tenant: &Tenant) -> Vec<Finding> {
    let places: HashMap<Text, usize> =
        tenant.cgroups.iter().map(|place| (facts.path(*place), *place)).collect();
    let (mut dropped, mut escaped) = (Vec::new(), Vec::new());
    for &inner in &tenant.cgroups {
        let above = above(facts, inner, &places);
        let tops = above.iter().copied().find(|outer| !facts.cgroups()[*outer].programs.is_empty());
        dropped.extend(
            tops.filter(|outer| has_lost(facts, *outer, inner)).and_then(|outer| wider(facts, outer, inner)),
        );
        let same = above.iter().copied().filter(|outer| is_looked_up(facts, *outer, inner));
        escaped.extend(same.collect::<Vec<_>>().into_iter().find_map(|outer| wider(facts, outer, inner)));
    }
    let dropped = report(facts, tenant, DROPPED, &dropped);
    dropped.into_iter().chain(report(facts, tenant, ESCAPE, &escaped)).collect()
}

/// The tenant's cgroups around one of them, the outermost first.
fn above(facts: &Facts<'_>, inner: usize, places: &HashMap<Text, usize>) -> Vec<usize> {
    let path = facts.path(inner);
    let around = CgroupPath::new(&path).parent().into_iter().flat_map(CgroupPath::downwards);
    around.filter_map(|outer| places.get(&Text::from(outer.as_bytes())).copied()).collect()
}

/// Whether a program of the outer cgroup is not in force in the inner one,
/// which has others.
fn has_lost(facts: &Facts<'_>, outer: usize, inner: usize) -> bool {
    let (outer, inner) = (&facts.cgroups()[outer], &facts.cgroups()[inner]);
    let lost = |id: &u32| !inner.programs.iter().any(|program| program.id == *id);
    !inner.programs.is_empty() && ids(outer).iter().any(lost)
}

/// Whether both have the same programs, one of which may ask where it runs.
fn is_looked_up(facts: &mut Facts<'_>, outer: usize, inner: usize) -> bool {
    let programs = ids(&facts.cgroups()[inner]);
    let same = !programs.is_empty() && programs == ids(&facts.cgroups()[outer]);
    same && programs.iter().any(|id| facts.inspection.depends_on_place(*id))
}

fn ids(cgroup: &Cgroup) -> Vec<u32> {
    cgroup.programs.iter().map(|program| program.id).collect()
}

fn wider(facts: &Facts<'_>, outer: usize, inner: usize) -> Option<Wider> {
    let denied = exclusive_with(facts, outer, Verdict::Deny);
    let mut gpus = exclusive_with(facts, inner, Verdict::Allow);
    gpus.retain(|gpu| denied.contains(gpu));
    (!gpus.is_empty()).then_some((outer, inner, gpus))
}

/// One finding for all cgroups of a tenant, about the first of those in which
/// somebody is.
fn report(facts: &mut Facts<'_>, tenant: &Tenant, kind: Kind, wider: &[Wider]) -> Option<Finding> {
    let lives = |(_, inner, _): &&Wider| !facts.cgroups()[*inner].processes.is_empty();
    let (outer, inner, own) = wider.iter().find(lives).or(wider.first())?;
    // The GPUs of this very cgroup come first, because the decisions are about the
    // first GPU.
    let mut gpus = own.clone();
    for gpu in wider.iter().flat_map(|(_, _, gpus)| gpus) {
        if !gpus.contains(gpu) {
            gpus.push(*gpu);
        }
    }
    let owner = wording::owner(&tenant.sets.owner);
    let summary =
        format!("a cgroup inside {owner} may open {} that the cgroup around it may not", count(gpus.len()));
    let mut found = about_gpus(facts, &kind, *inner, &gpus, summary);
    let first = gpus.first().and_then(|gpu| number(&facts.inspection.gpus()[*gpu]))?;
    let around = facts.decisions(*outer, first, Request::ReadWrite);
    let path = facts.path(*outer);
    found
        .evidence
        .extend(around.iter().map(|decision| format!("on {}: {}", path.lossy(), in_words(decision))));
    let others = wider.iter().filter(|(_, place, _)| place != inner);
    found.evidence.extend(others.map(|(_, place, gpus)| also(facts, *place, gpus)));
    settle(facts, &mut found, kind.id == DROPPED.id);
    Some(found)
}

/// The same GPUs that may be opened in another cgroup.
fn also(facts: &Facts<'_>, place: usize, gpus: &[usize]) -> String {
    let numbers = gpus.iter().filter_map(|gpu| number(&facts.inspection.gpus()[*gpu]));
    let numbers: Vec<String> = numbers.map(|(major, minor)| format!("c {major}:{minor}")).collect();
    format!("the same is so on {} for {}", facts.path(place).lossy(), numbers.join(", "))
}

fn settle(facts: &Facts<'_>, found: &mut Finding, is_dropped: bool) {
    found
        .excuses
        .push("the configuration shares these GPUs neither with everybody nor by whole nodes".to_owned());
    if facts.inspection.observation().devices_v1.is_some() {
        found.confidence = Confidence::Likely;
        found
            .evidence
            .push("assumed: the difference is not made by the v1 device cgroups of the processes".to_owned());
    }
    let advice = if is_dropped {
        "start containers of a job without device programs of their own, or outside of the job's cgroup with exactly \
         the job's GPUs"
    } else {
        "let nobody make cgroups below the one that the program's map lists, or list those too"
    };
    advice.clone_into(&mut found.advice);
}
