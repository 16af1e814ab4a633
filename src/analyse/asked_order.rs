//! Sorts an answer into the order of the question, because the walk over the
//! cgroups meets them in another order.

use crate::model::CgroupPath;
use crate::observation::Observation;
use crate::report::{Cgroup, OwnerSets};

/// Processes and their cgroups as their pids were named; the cgroup of the
/// first comes first.
pub(super) fn cgroups(observation: &Observation, cgroups: &mut [Cgroup]) {
    if observation.pids.is_empty() {
        return;
    }
    let place = |pid: u32| observation.pids.iter().position(|asked| *asked == pid);
    for cgroup in cgroups.iter_mut() {
        cgroup.processes.sort_by_key(|process| place(process.pid));
    }
    cgroups.sort_by_key(|cgroup| cgroup.processes.first().map(|process| place(process.pid)));
}

/// Sorts owners by the part of the scope they are in. An owner and the owners inside
/// it stay together.
pub(super) fn owners(observation: &Observation, owners: Vec<OwnerSets>) -> Vec<OwnerSets> {
    let mut groups: Vec<&[OwnerSets]> = owners.chunk_by(|_, next| next.depth > 0).collect();
    let paths: Vec<String> = observation.scope.iter().map(|scope| scope.path.lossy().into_owned()).collect();
    let place = |group: &&[OwnerSets]| {
        let top = group.first().map(|top| top.cgroup.as_str()).unwrap_or_default();
        paths.iter().position(|path| is_in(top, path) || is_in(path, top))
    };
    groups.sort_by_key(place);
    groups.concat()
}

fn is_in(path: &str, top: &str) -> bool {
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
        let sorted = owners(&observation, rows);
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
        cgroups(&observation, &mut all);
        let pids: Vec<u32> = all.iter().flat_map(|one| &one.processes).map(|one| one.pid).collect();
        assert_eq!(pids, [9, 7, 5]);
    }
}
