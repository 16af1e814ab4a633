//! Finds denials that are undone: by a program below that replaces the one around it, by a
//! cgroup that the program does not know, or by a program that runs later.

use std::collections::{BTreeSet, HashMap};

use crate::audit::facts::Facts;
use crate::audit::kind::{Family, Kind};
use crate::audit::tenants::{Place, Tenant, number};
use crate::audit::{finding, wording};
use crate::model::{CgroupPath, Confidence, Request, Severity, Verdict};
use crate::observation::Text;
use crate::report::{Decision, Finding, Gpu};

const DROPPED: Kind = Kind {
    id: "dropped-denials",
    severity: Severity::Critical,
    title: "a program below a job replaces the job's denials",
    page: "\
A cgroup inside a job or container may open GPUs that the cgroup around it may not. The program around it \
was attached so that programs below override it (BPF_F_ALLOW_OVERRIDE), which is how Slurm attaches those \
of jobs and steps: another program that is attached to a lower cgroup replaces it there. Nothing is logged.

Causes: root starts a container (runc, crun, docker, podman) in a cgroup below a batch step; a runtime with \
rights of its own does it for a user; a tool rewrites the programs of a step's cgroup.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs. A program below that is narrower than \
the job's, such as that of a step or task, is no finding.

What to do: let containers in jobs run without cgroups of their own (runc and crun: cgroups managed by the \
job; podman: --cgroups=disabled), or give them a cgroup outside of the job with exactly the job's GPUs.",
};

const ESCAPE: Kind = Kind {
    id: "cgroup-id-escape",
    severity: Severity::Critical,
    title: "a child cgroup escapes a program that looks up cgroup ids",
    page: "\
The same programs are in force on a cgroup and on one below it, and yet the lower one may open GPUs that \
the upper one may not: the program looks the caller's cgroup id up in a map, and only the upper cgroup is \
listed. Every process that may make a cgroup there and move into it escapes.

Causes: CraneSched's program knows a task by the id of the task's own cgroup and allows what it does not \
find. Containers, and users to whom the cgroup is delegated, make cgroups below it.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs.

What to do: do not delegate the task's cgroup; use a version of the scheduler that goes by ancestors \
(bpf_get_current_ancestor_cgroup_id) or lists new cgroups too.",
};

pub(super) const FAMILY: Family = Family { kinds: &[DROPPED, ESCAPE, UNDONE], find };

/// A cgroup, the one around it that denies more, and the GPUs in question.
struct Wider<'a> {
    inner: Place<'a>,
    outer: Place<'a>,
    gpus: Vec<&'a Gpu>,
}

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let inside = facts.tenants.iter().flat_map(|tenant| inside(facts, tenant));
    let undone = facts.tenants.iter().filter_map(|tenant| undone(facts, tenant));
    inside.chain(undone).collect()
}

fn inside(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Vec<Finding> {
    let places: HashMap<&Text, Place<'_>> = tenant.cgroups.iter().map(|place| (place.path, *place)).collect();
    let (mut dropped, mut escaped) = (Vec::new(), Vec::new());
    for &inner in &tenant.cgroups {
        let above = above(inner, &places);
        let top = above.iter().copied().find(|outer| !outer.cgroup.programs.is_empty());
        let loses = top.filter(|outer| has_lost(*outer, inner));
        dropped.extend(loses.and_then(|outer| wider(facts, outer, inner)));
        let mut same = above.into_iter().filter(|outer| is_looked_up(facts, *outer, inner));
        escaped.extend(same.find_map(|outer| wider(facts, outer, inner)));
    }
    let dropped = report(facts, tenant, DROPPED, &dropped);
    dropped.into_iter().chain(report(facts, tenant, ESCAPE, &escaped)).collect()
}

/// The tenant's cgroups around one of them, the outermost first.
fn above<'a>(inner: Place<'_>, places: &HashMap<&Text, Place<'a>>) -> Vec<Place<'a>> {
    let around = CgroupPath::new(inner.path).parent().into_iter().flat_map(CgroupPath::downwards);
    around.filter_map(|outer| places.get(&Text::from(outer.as_bytes())).copied()).collect()
}

/// Whether a program of the outer cgroup is not in force in the inner one,
/// which has others.
fn has_lost(outer: Place<'_>, inner: Place<'_>) -> bool {
    let inner = inner.program_ids();
    !inner.is_empty() && outer.program_ids().iter().any(|id| !inner.contains(id))
}

/// Whether both have the same programs, one of which may ask where it runs.
fn is_looked_up(facts: &Facts<'_>, outer: Place<'_>, inner: Place<'_>) -> bool {
    let programs = inner.program_ids();
    let same = !programs.is_empty() && programs == outer.program_ids();
    same && programs.iter().any(|id| facts.inspection.depends_on_place(*id))
}

fn wider<'a>(facts: &Facts<'a>, outer: Place<'a>, inner: Place<'a>) -> Option<Wider<'a>> {
    let denied = facts.exclusive_with(outer, Verdict::Deny);
    let mut gpus = facts.exclusive_with(inner, Verdict::Allow);
    gpus.retain(|gpu| denied.contains(gpu));
    (!gpus.is_empty()).then_some(Wider { inner, outer, gpus })
}

/// One finding for all cgroups of a tenant, about the first of those in which
/// somebody is.
fn report(facts: &Facts<'_>, tenant: &Tenant<'_>, kind: Kind, wider: &[Wider<'_>]) -> Option<Finding> {
    let lives = |one: &&Wider<'_>| !one.inner.cgroup.processes.is_empty();
    let first = wider.iter().find(lives).or(wider.first())?;
    // The GPUs of this very cgroup come first, because the decisions are about the
    // first GPU.
    let mut gpus = first.gpus.clone();
    for gpu in wider.iter().flat_map(|one| &one.gpus) {
        if !gpus.contains(gpu) {
            gpus.push(gpu);
        }
    }
    let owner = wording::owner(tenant.owner());
    let count = wording::count(gpus.len());
    let summary = format!("a cgroup inside {owner} may open {count} that the cgroup around it may not");
    let mut found = finding::about_gpus(facts, &kind, first.inner, &gpus, summary);
    let number = number(gpus.first()?)?;
    let around = facts.decisions(first.outer, number, Request::ReadWrite);
    let (path, device) = (first.outer.path.lossy(), wording::gpu(gpus.first()?));
    let on = |one: &Decision| format!("on {path}: {}", wording::decision(one, &device));
    found.evidence.extend(around.iter().map(on));
    found.evidence.extend(wider.iter().filter(|one| one.inner != first.inner).map(also));
    settle(facts, &mut found, kind.id == DROPPED.id);
    Some(found)
}

/// The same GPUs that may be opened in another cgroup.
fn also(one: &Wider<'_>) -> String {
    let numbers = one.gpus.iter().filter_map(|gpu| number(gpu));
    let numbers: Vec<String> = numbers.map(|(major, minor)| format!("c {major}:{minor}")).collect();
    format!("the same is so on {} for {}", one.inner.path.lossy(), numbers.join(", "))
}

fn settle(facts: &Facts<'_>, found: &mut Finding, is_dropped: bool) {
    found
        .excuses
        .push("the configuration shares these GPUs neither with everybody nor by whole nodes".to_owned());
    if facts.observation().devices_v1.is_some() {
        found.confidence = Confidence::Likely;
        found
            .evidence
            .push("assumed: the difference is not made by the v1 device cgroups of the processes".to_owned());
    }
    let advice = if is_dropped {
        "start containers of a job without device programs of their own, or outside of the job's cgroup with \
         exactly \
         the job's GPUs"
    } else {
        "let nobody make cgroups below the one that the program's map lists, or list those too"
    };
    advice.clone_into(&mut found.advice);
}

const UNDONE: Kind = Kind {
    id: "retval-undone",
    severity: Severity::Critical,
    title: "a later program undoes a denial",
    page: "\
Several programs are in force on a cgroup. One of them denies a GPU, but one that runs later calls \
bpf_set_retval(0) and returns 1. The kernel (Linux 5.18 and newer) uses the error that is left at the end, \
so the GPU may be opened. A reader of the single programs would think that the GPU is denied.

Causes: a program that replaces errors by others, or one that was written to circumvent the denial.

Excuses: sharing.whole_node, or sharing.gpus for each of the GPUs.

What to do: find out who attached the later program (its uid and load time: gpumap prog) and detach \
it, or attach the denial so that it runs after it.",
};

fn undone(facts: &Facts<'_>, tenant: &Tenant<'_>) -> Option<Finding> {
    let mut seen = BTreeSet::new();
    for place in tenant.views() {
        let ids = place.program_ids();
        // Only a program whose result depends on others can override a denial.
        let may_undo = ids.len() > 1 && ids.iter().any(|id| facts.inspection.depends_on_place(*id));
        if !may_undo || !seen.insert(ids) {
            continue;
        }
        let mut gpus = facts.exclusive_with(place, Verdict::Allow);
        gpus.retain(|gpu| is_denied_by_one(facts, place, gpu));
        if !gpus.is_empty() {
            return Some(report_undone(facts, tenant, place, &gpus));
        }
    }
    None
}

fn is_denied_by_one(facts: &Facts<'_>, place: Place<'_>, gpu: &Gpu) -> bool {
    let Some(number) = number(gpu) else { return false };
    facts
        .decisions(place, number, Request::ReadWrite)
        .iter()
        .any(|decision| decision.returns == Verdict::Deny)
}

fn report_undone(facts: &Facts<'_>, tenant: &Tenant<'_>, place: Place<'_>, gpus: &[&Gpu]) -> Finding {
    let owner = wording::owner(tenant.owner());
    let summary = format!("{owner} may open {} that one of its programs denies", wording::count(gpus.len()));
    let mut found = finding::about_gpus(facts, &UNDONE, place, gpus, summary);
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
