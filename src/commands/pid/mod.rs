//! `gpumap pid`: what processes may open, ask for and hold.

mod last_set;

use crate::cli::{Exit, PidArgs};
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::subject::allocation;
use crate::observation::{Observation, Scope};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &PidArgs) -> Result<Exit, Failure> {
    allocation::request(invocation, &args.allocation.slurm)?;
    let observation = match saved::from_option(invocation)? {
        Some(mut observation) => {
            allocation::add(invocation, &args.allocation.slurm, &mut observation)?;
            narrow(&mut observation, &args.pids)?;
            observation
        }
        None => observe::processes(&invocation.options(), &args.pids)?,
    };
    let mut payload = analyse::node(&observation, &allocation::granted(&args.allocation))?;
    for cgroup in payload.cgroups.iter_mut().flatten() {
        cgroup.processes.retain(|process| args.pids.contains(&process.pid));
    }
    if let Some(path) = &args.state {
        last_set::add(invocation, path, &observation, &mut payload)?;
    }
    invocation.answer(&observation, payload, render::pids)
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
