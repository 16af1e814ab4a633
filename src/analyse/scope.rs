//! Everything in the scope of an observation: cgroups with their processes, and the
//! four sets of their owners, in the order in which they were asked for; the walk over
//! the cgroups meets them in another one.
//!
//! This is the answer of `gpumap cgroup`. `node` adds to it what processes do with their
//! GPUs, and `activity` needs it to know whose they are.

use super::allocated::{self, CallerAllocation};
use super::joined_node::{JoinedNode, by_cgroup, in_scope};
use super::owners::Owners;
use super::processes::Processes;
use super::subject::AnalyseError;
use crate::allocation::Numbering;
use crate::model::{CgroupPath, InOrder as _};
use crate::observation::Observation;
use crate::policy::TimeLimit;
use crate::report::{Cgroup, NodeAnswer, OwnerSets};

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
    let owners = sort_owners(observation, owners.finish(join, &numbering, &source));
    sort_cgroups(observation, &mut answer);
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

/// Processes and their cgroups as their pids were named; the cgroup of the
/// first comes first.
pub(super) fn sort_cgroups(observation: &Observation, cgroups: &mut [Cgroup]) {
    if observation.pids.is_empty() {
        return;
    }
    let place = |pid: u32| observation.pids.iter().position(|asked| *asked == pid);
    for cgroup in cgroups.iter_mut() {
        cgroup.processes.order_by_key(|process| place(process.pid));
    }
    cgroups.order_by_key(|cgroup| cgroup.processes.first().map(|process| place(process.pid)));
}

/// Sorts owners by the part of the scope they are in. An owner and the owners inside
/// it stay together.
pub(super) fn sort_owners(observation: &Observation, owners: Vec<OwnerSets>) -> Vec<OwnerSets> {
    let mut groups: Vec<&[OwnerSets]> = owners.chunk_by(|_, next| next.depth > 0).collect();
    let paths: Vec<String> = observation.scope.iter().map(|scope| scope.path.lossy().into_owned()).collect();
    let place = |group: &&[OwnerSets]| {
        let top = group.first().map(|top| top.cgroup.as_str()).unwrap_or_default();
        paths.iter().position(|path| is_inside(top, path) || is_inside(path, top))
    };
    groups.order_by_key(place);
    groups.concat()
}

fn is_inside(path: &str, top: &str) -> bool {
    CgroupPath::new(path).is_at_or_below(CgroupPath::new(top))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Scope, Text};
    use crate::report::Process;

    /// Make sure that jobs come as their scopes were named, rows inside with
    /// them.
    #[test]
    fn jobs() {
        let scope = |path: &str| Scope { path: Text::from(path), recursive: true };
        let observation = Observation { scope: vec![scope("/b"), scope("/a")], ..Observation::default() };
        let row =
            |cgroup: &str, depth| OwnerSets { cgroup: cgroup.to_owned(), depth, ..OwnerSets::default() };
        let rows = vec![row("/a", 0), row("/a/s", 1), row("/b", 0), row("/b/s", 1)];
        let sorted = sort_owners(&observation, rows);
        let paths: Vec<&str> = sorted.iter().map(|row| row.cgroup.as_str()).collect();
        assert_eq!(paths, ["/b", "/b/s", "/a", "/a/s"]);
    }

    /// Make sure that processes come as they were named.
    #[test]
    fn processes() {
        let observation = Observation { pids: vec![9, 5, 7], ..Observation::default() };
        let process = |pid| Process { pid, ..Process::default() };
        let cgroup = |pids: &[u32]| Cgroup {
            processes: pids.iter().map(|pid| process(*pid)).collect(),
            ..Cgroup::default()
        };
        let mut all = [cgroup(&[5]), cgroup(&[7, 9])];
        sort_cgroups(&observation, &mut all);
        let pids: Vec<u32> = all.iter().flat_map(|one| &one.processes).map(|one| one.pid).collect();
        assert_eq!(pids, [9, 7, 5]);
    }
}
