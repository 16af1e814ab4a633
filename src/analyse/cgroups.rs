//! The answer of `gpumap cgroup`.

use crate::observation::Observation;
use crate::policy::TimeLimit;
use crate::report::NodeAnswer;

use super::error::AnalyseError;
use super::joined_node::{JoinedNode, by_cgroup, in_scope};
use super::processes::Processes;

/// The answer of `gpumap cgroup`: every cgroup in the observation's scope.
///
/// # Errors
///
/// A cgroup of the scope that the observation lacks.
pub fn cgroups(observation: &Observation, limit: &TimeLimit) -> Result<NodeAnswer, AnalyseError> {
    let mut join = JoinedNode::new(observation, limit);
    let mut processes = Processes::default();
    let inside = by_cgroup(observation);
    let mut answer = Vec::new();
    for cgroup in in_scope(observation)? {
        let inside = inside.get(&cgroup.path).map(Vec::as_slice).unwrap_or_default();
        let reported = inside.iter().map(|process| processes.report(process, &mut join)).collect();
        answer.push(join.cgroup(cgroup, inside, reported));
    }
    Ok(join.finish(answer))
}
