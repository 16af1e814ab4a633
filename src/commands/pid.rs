//! `gpumap pid`: what processes may open, ask for and hold.

use super::{Failure, Session, last_set, saved, slurm};
use crate::cli::{Exit, PidArgs};
use crate::observation::{Observation, Scope};
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(session: &mut Session<'_>, args: &PidArgs) -> Result<Exit, Failure> {
    slurm::look(session, &args.allocation.slurm)?;
    let observation = match saved::from_option(session)? {
        Some(mut observation) => {
            slurm::add(session, &args.allocation.slurm, &mut observation)?;
            narrow(&mut observation, &args.pids)?;
            observation
        }
        None => observe::processes(&session.options(), &args.pids)?,
    };
    let mut payload = analyse::node(&observation, &slurm::granted(&args.allocation))?;
    for cgroup in payload.cgroups.iter_mut().flatten() {
        cgroup.processes.retain(|process| args.pids.contains(&process.pid));
    }
    if let Some(path) = &args.state {
        last_set::add(session, path, &observation, &mut payload)?;
    }
    session.answer(&observation, payload, render::pids)
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
