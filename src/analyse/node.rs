//! The answer of `node`, `job` and `pid`: cgroups, and the four sets of their
//! owners.

use crate::model::Owner;
use crate::observation::Observation;
use crate::policy::TimeLimit;
use crate::report::{NodeAnswer, OwnerSets};

use super::activity;
use super::allocated::CallerAllocation;
use super::error::AnalyseError;
use super::joined_node::JoinedNode;
use super::scope::cgroups_and_owners;

/// The answer for everything in the observation's scope; for single processes
/// if it was taken for those.
///
/// # Errors
///
/// A cgroup of the scope that the observation lacks; a list of GPUs that names
/// none of this node.
pub fn node(
    observation: &Observation,
    granted: &CallerAllocation,
    limit: &TimeLimit,
) -> Result<NodeAnswer, AnalyseError> {
    answer(&mut JoinedNode::new(observation, limit), granted)
}

/// The same with the state that further questions need.
pub(super) fn answer(
    join: &mut JoinedNode<'_>,
    granted: &CallerAllocation,
) -> Result<NodeAnswer, AnalyseError> {
    let mut payload = cgroups_and_owners(join, granted)?;
    let reading = join.observation.activity.as_deref();
    if let Some((reading, activity)) = reading.zip(activity::of_present(join, &payload)) {
        activity::add_used(&mut payload, &activity, reading);
        payload.activity = Some(Box::new(activity));
    }
    Ok(payload)
}

/// Leaves out the rows of jobs of which only some steps were asked for (`is_whole`
/// tells): a step's row would be mistaken for the job's.
pub fn without_partial_jobs(payload: &mut NodeAnswer, is_whole: impl Fn(&Owner) -> bool) {
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
