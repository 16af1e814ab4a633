//! `gpumap activity` of a saved observation: what a state file holds.

use crate::analyse::{CallerAllocation, Follower};
use crate::cli::{ActivityArgs, Exit};
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::render;

/// Shows the counts of an observation since counting began.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &ActivityArgs) -> Result<Exit, Failure> {
    let what = "--from";
    let narrows = !args.cgroup.is_empty() || !args.job.is_empty() || !args.pid.is_empty();
    if narrows || args.lasting.is_some() || args.state.is_some() {
        let why = "shows all that the file holds, once";
        let needs =
            "leave out --cgroup, --job, --pid, --for and --state; gpumap --from FILE job ID shows one job";
        return Err(Failure::new(ProblemCode::Usage, what, why, needs));
    }
    let Some(observation) = saved::from_option(invocation)? else {
        return Err(Failure::new(ProblemCode::Usage, what, "no file is named", ""));
    };
    if observation.activity.is_none() {
        let why = "holds no counts of calls";
        return Err(Failure::new(
            ProblemCode::Usage,
            what,
            why,
            "keep some with gpumap activity --state FILE",
        ));
    }
    let mut follower = Follower::new(invocation.global.verbose > 0);
    let payload = follower.report(&observation, &CallerAllocation::default(), &invocation.decoding)?;
    invocation.answer(&observation, payload, render::activity)
}
