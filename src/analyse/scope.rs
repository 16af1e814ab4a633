//! Everything in the scope of an observation: cgroups with their processes, and the
//! four sets of their owners. `node` adds to it what processes do with their GPUs, and
//! `activity` needs it to know whose they are.

use crate::allocation::Numbering;
use crate::report::NodeAnswer;

use super::allocated::CallerAllocation;
use super::error::AnalyseError;
use super::joined_node::{JoinedNode, by_cgroup, in_scope};
use super::owners::Owners;
use super::processes::Processes;
use super::{allocated, asked_order};

/// The answer of `node` without the activity of processes. `join` has the state that further
/// questions need.
///
/// # Errors
///
/// As [`super::node()`].
pub(super) fn cgroups_and_owners(
    join: &mut JoinedNode<'_>,
    granted: &CallerAllocation,
) -> Result<NodeAnswer, AnalyseError> {
    let observation = join.observation;
    let numbering = number(join);
    let source = allocated::source(observation, granted, &numbering, join)?;
    let mut processes = Processes::default();
    let mut owners = Owners::default();
    let inside = by_cgroup(observation);
    let mut answer = Vec::new();
    for cgroup in in_scope(observation)? {
        let inside = inside.get(&cgroup.path).map(Vec::as_slice).unwrap_or_default();
        if inside.is_empty() && !observation.pids.is_empty() {
            continue;
        }
        let reported: Vec<_> = inside.iter().map(|process| processes.report(process, join)).collect();
        owners.add(cgroup, inside, &reported, join);
        answer.push(join.cgroup(cgroup, inside, reported));
    }
    let owners = asked_order::owners(observation, owners.finish(join, &numbering, &source));
    asked_order::cgroups(observation, &mut answer);
    Ok(NodeAnswer { owners: Some(owners), ..join.finish(answer) })
}

/// Gives the GPUs their numbers of Slurm's.
pub(super) fn number(join: &mut JoinedNode<'_>) -> Numbering {
    let observation = join.observation;
    let numbering = Numbering::new(&observation.slurm, &observation.host.name, &join.gpus);
    for gpu in &mut join.gpus {
        gpu.slurm_index = numbering.index_of(&gpu.key);
    }
    numbering
}
