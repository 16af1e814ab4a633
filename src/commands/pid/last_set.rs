//! Adds the last changes that a running `gpumap watch --state` saw to the answer of
//! `gpumap pid`.

use std::collections::HashMap;
use std::path::Path;

use crate::analyse::{self, CallerAllocation};
use crate::commands::files;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::observation::{Answer, Observation, Process};
use crate::report::{Payload, Visible};
use crate::watch::state::{self, SavedProcess};

/// Adds the last change to every process that the state file has.
pub(super) fn add(
    invocation: &mut Invocation<'_>,
    path: &Path,
    observation: &Observation,
    payload: &mut Payload,
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
    let now = payload.cgroups.iter_mut().flatten().flat_map(|cgroup| &mut cgroup.processes);
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

fn processes(payload: Payload) -> impl Iterator<Item = (u32, Visible)> {
    let all = payload.cgroups.into_iter().flatten().flat_map(|cgroup| cgroup.processes);
    all.filter_map(|process| Some((process.pid, process.visible?)))
}
