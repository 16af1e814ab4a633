//! The answer of `node`, `job` and `pid`: cgroups, and the four sets of their
//! owners.

use crate::allocation::Numbering;
use crate::model::Owner;
use crate::observation::Observation;
use crate::report::{OwnerSets, Payload};

use super::allocated::CallerAllocation;
use super::error::AnalyseError;
use super::joined_node::{JoinedNode, by_cgroup, in_scope};
use super::owners::Owners;
use super::processes::Processes;
use super::{activity, allocated, asked_order};

/// The answer for everything in the observation's scope; for single processes
/// if it was taken for those.
///
/// # Errors
///
/// A cgroup of the scope that the observation lacks; a list of GPUs that names
/// none of this node.
pub fn node(observation: &Observation, granted: &CallerAllocation) -> Result<Payload, AnalyseError> {
    answer(&mut JoinedNode::new(observation), granted)
}

/// The answer, and the state that further questions need.
pub(super) fn answer(join: &mut JoinedNode<'_>, granted: &CallerAllocation) -> Result<Payload, AnalyseError> {
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
    let mut payload = Payload { owners: Some(owners), ..join.finish(answer) };
    if let Some((reading, activity)) =
        observation.activity.as_deref().zip(activity::of_present(join, &payload))
    {
        activity::add_used(&mut payload, &activity, reading);
        payload.activity = Some(Box::new(activity));
    }
    Ok(payload)
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

/// Leaves out the rows of jobs of which only some steps were asked for (`is_whole`
/// tells): a step's row would be mistaken for the job's.
pub fn without_partial_jobs(payload: &mut Payload, is_whole: impl Fn(&Owner) -> bool) {
    let owners = payload.owners.take().unwrap_or_default();
    let groups = owners.chunk_by(|_, next| next.depth > 0);
    let rows = groups.flat_map(|group| match group.split_first() {
        Some((job, steps)) if job.owner.step.is_none() && !steps.is_empty() && !is_whole(&job.owner) => {
            steps.iter().map(|row| OwnerSets { depth: row.depth.saturating_sub(1), ..row.clone() }).collect()
        }
        _ => group.to_vec(),
    });
    payload.owners = Some(rows.collect());
}
