//! `gpumap pid`: what processes may open, ask for and hold, with the last changes that a
//! running `gpumap watch --state` saw.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::own_access;
use crate::analyse::CallerAllocation;
use crate::cli::{Exit, PidArgs};
use crate::commands::files;
use crate::commands::files::{activity_state, saved};
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::subject::allocation;
use crate::model::ProblemCode;
use crate::observation::{Answer, Observation, Process, Scope};
use crate::report::{NodeAnswer, Visible};
use crate::watch::state;
use crate::watch::state::SavedProcess;
use crate::{analyse, observe, render};

/// Runs the command.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &PidArgs) -> Result<Exit, Failure> {
    allocation::request(invocation, &args.allocation.slurm)?;
    let mut observation = match saved::from_option(invocation)? {
        Some(mut observation) => {
            narrow(&mut observation, &args.pids)?;
            observation
        }
        None => observe::processes(&invocation.options(), &args.pids)?,
    };
    let (of_activity, of_watch) = states(&args.state)?;
    activity_state::add(invocation, of_activity, &mut observation)?;
    let mut payload =
        analyse::node(&observation, &allocation::granted(&args.allocation), &invocation.decoding)?;
    for cgroup in payload.cgroups.iter_mut() {
        cgroup.processes.retain(|process| args.pids.contains(&process.pid));
    }
    if let Some(path) = of_watch {
        add(invocation, path, &observation, &mut payload)?;
    }
    own_access::add(invocation, &mut payload, |asked, own| asked == own);
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

/// Adds the last change to every process that the state file has.
fn add(
    invocation: &mut Invocation<'_>,
    path: &Path,
    observation: &Observation,
    payload: &mut NodeAnswer,
) -> Result<(), Failure> {
    let bytes = files::read(invocation, path)?;
    let bad = |why: String| {
        let why = format!("no state file of gpumap watch: {why}");
        Failure::new(ProblemCode::BadState, files::name(path), why, "")
    };
    let state = state::parse(&bytes).map_err(bad)?;
    if state.boot_id != observation.host.boot_id {
        return Err(Failure::new(
            ProblemCode::BadState,
            path.to_string_lossy(),
            "written on another host or boot",
            "",
        ));
    }
    let entries: HashMap<(u32, u64), SavedProcess> =
        state.processes.into_iter().map(|entry| ((entry.pid, entry.start_time), entry)).collect();
    let mut then = observation.clone();
    then.processes.iter_mut().for_each(|process| set(process, &entries));
    let then = analyse::node(&then, &CallerAllocation::default(), &invocation.decoding)?;
    let mut found: HashMap<u32, Visible> = processes(then).collect();
    let now = payload.cgroups.iter_mut().flat_map(|cgroup| &mut cgroup.processes);
    for process in now {
        let Some(entry) = entries.get(&(process.pid, process.start_time)) else { continue };
        let Some(visible) = &mut process.visible else { continue };
        visible.last_set = found.remove(&process.pid).map(|then| then.live);
        visible.last_set_at = entry.variables.iter().map(|set| set.at.clone()).max();
    }
    Ok(())
}

/// Puts the environment of the last change in the place of today's.
fn set(process: &mut Process, entries: &HashMap<(u32, u64), SavedProcess>) {
    let entry = entries.get(&(process.pid, process.start_time));
    let Some((entry, detail)) = entry.zip(process.detail.as_mut()) else { return };
    let now = detail.live.known().or(detail.at_exec.known());
    detail.live = Answer::Known(entry.after(&now.cloned().unwrap_or_default()));
}

fn processes(payload: NodeAnswer) -> impl Iterator<Item = (u32, Visible)> {
    let all = payload.cgroups.into_iter().flat_map(|cgroup| cgroup.processes);
    all.filter_map(|process| Some((process.pid, process.visible?)))
}
