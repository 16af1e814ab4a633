//! `gpumap pid`: what processes may open, ask for and hold.

mod last_set;

use std::path::{Path, PathBuf};

use crate::cli::{Exit, PidArgs};
use crate::commands::files::{activity_state, saved};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::subject::allocation;
use crate::model::ProblemCode;
use crate::observation::{Observation, Scope};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &PidArgs) -> Result<Exit, Failure> {
    allocation::request(invocation, &args.allocation.slurm)?;
    let mut observation = match saved::from_option(invocation)? {
        Some(mut observation) => {
            allocation::add(invocation, &args.allocation.slurm, &mut observation)?;
            narrow(&mut observation, &args.pids)?;
            observation
        }
        None => observe::processes(&invocation.options(), &args.pids)?,
    };
    let (of_activity, of_watch) = states(&args.state)?;
    activity_state::add(invocation, of_activity, &mut observation)?;
    let mut payload =
        analyse::node(&observation, &allocation::granted(&args.allocation), &invocation.decoding)?;
    for cgroup in payload.cgroups.iter_mut().flatten() {
        cgroup.processes.retain(|process| args.pids.contains(&process.pid));
    }
    if let Some(path) = of_watch {
        last_set::add(invocation, path, &observation, &mut payload)?;
    }
    invocation.answer(&observation, payload, render::pids)
}

/// The state files that are named: that of activity and that of a watch. One that is
/// neither is taken for a watch's, which then says what is wrong with it.
fn states(named: &[PathBuf]) -> Result<(Option<&Path>, Option<&Path>), Failure> {
    let (mut of_activity, mut of_watch) = (None, None);
    for path in named {
        let kept = if activity_state::is_observation(path) { &mut of_activity } else { &mut of_watch };
        if kept.replace(path.as_path()).is_some() {
            let why = "names a second file of the same kind";
            return Err(Failure::new(
                ProblemCode::Usage,
                format!("--state {}", path.to_string_lossy()),
                why,
                "name one of each",
            ));
        }
    }
    Ok((of_activity, of_watch))
}

/// Narrows the scope to processes and the cgroups they are in.
fn narrow(observation: &mut Observation, pids: &[u32]) -> Result<(), Failure> {
    let scope = pids.iter().map(|pid| {
        let path = saved::cgroup_of_pid(observation, *pid)?;
        Ok(Scope { path, recursive: false })
    });
    observation.scope = scope.collect::<Result<_, Failure>>()?;
    observation.pids = pids.to_vec();
    Ok(())
}
