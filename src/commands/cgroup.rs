//! `gpumap cgroup`: what may be opened from cgroups.

use super::files::saved;
use super::invocation::{Failure, Invocation, View};
use super::own_access;
use crate::cli::{CgroupArgs, Exit};
use crate::model::{CgroupPath, Owner, ProblemCode};
use crate::observation::Observation;
use crate::observe::CgroupTarget;
use crate::report::Cgroup;
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &CgroupArgs) -> Result<Exit, Failure> {
    if args.paths.is_empty() && invocation.global.from.is_none() {
        let needs = "name one, such as /system.slice, or all of them with -r /";
        return Err(Failure::new(ProblemCode::Usage, "", "no cgroup was named", needs));
    }
    invocation.wanted_facts.detail = !args.recursive;
    // Only the JSON of a subtree lists processes one by one.
    invocation.wanted_facts.users = invocation.global.json;
    let observation = saved::observe(invocation, &args.paths, args.recursive)?;
    let mut payload = analyse::cgroups(&observation, &invocation.decoding)?;
    let is_subtree = observation.scope.iter().any(|scope| scope.recursive);
    let jobs = payload.cgroups.iter_mut().filter(|cgroup| !is_subtree && is_empty_job(cgroup));
    for cgroup in jobs {
        cgroup.processes_below = below(invocation, &observation, &cgroup.path);
    }
    own_access::add(invocation, &mut payload, |asked, own| asked == own);
    let view: View = if is_subtree { render::summary } else { render::cgroups };
    invocation.answer(&observation, payload, view)
}

/// Whether a cgroup is that of a job or container and has no process: those are in the
/// cgroups below it then.
fn is_empty_job(cgroup: &Cgroup) -> bool {
    let is_workload = cgroup.owner.as_ref().is_some_and(Owner::is_workload);
    is_workload && cgroup.processes.is_empty() && cgroup.unseen.is_none() && cgroup.path_hex.is_none()
}

/// How many processes are below a cgroup; `None` where not all could be seen.
fn below(invocation: &Invocation<'_>, seen: &Observation, path: &str) -> Option<usize> {
    let path = CgroupPath::new(path);
    let count = |it: &Observation| {
        it.processes.iter().filter(|process| CgroupPath::new(&process.cgroup).is_below(path)).count()
    };
    if invocation.global.from.is_some() {
        return Some(count(seen));
    }
    let options = observe::Options { detail: false, users: false, ..invocation.options() };
    let below = observe::cgroups(&options, &[CgroupTarget::observed(path.as_bytes(), true)]).ok()?;
    below.errors.is_empty().then(|| count(&below))
}
