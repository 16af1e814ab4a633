//! `gpumap cgroup`: what may be opened from cgroups.

use super::files::saved;
use super::invocation::View;
use super::invocation::{Failure, Invocation};
use crate::cli::{CgroupArgs, Exit};
use crate::model::ProblemCode;
use crate::{analyse, render};

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
    let payload = analyse::cgroups(&observation, &invocation.decoding)?;
    let is_subtree = observation.scope.iter().any(|scope| scope.recursive);
    let view: View = if is_subtree { render::summary } else { render::cgroups };
    invocation.answer(&observation, payload, view)
}
