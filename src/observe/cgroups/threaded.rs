//! Tells where threads are ruled by other programs than the processes that they are of.
//!
//! A threaded cgroup has single threads. The kernel lists their processes with the
//! domain above it, the nearest cgroup that is not threaded, and rules each thread by
//! the programs of the cgroup that the thread is in.

use std::collections::{HashMap, HashSet};

use super::visited::VisitedCgroup;
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Answer, Text};
use crate::observe::problems::Log;

const WHY: &str =
    "its threads are of processes that are listed with the domain above it, and other programs may rule them";

/// A threaded cgroup that was visited.
#[derive(Debug)]
pub(super) struct Threaded {
    pub(super) path: Text,
    /// Whether no thread is in it.
    pub(super) is_empty: bool,
}

/// Reports those with threads, unless the processes of these are listed and the same
/// programs rule them. So nobody makes the answer about a node incomplete who may make
/// cgroups, but may not attach programs.
pub(super) fn tell(seen: &[VisitedCgroup], threaded: &[Threaded], log: &mut Log) {
    if threaded.iter().all(|one| one.is_empty) {
        return;
    }
    let paths: HashSet<&[u8]> = threaded.iter().map(|one| one.path.as_bytes()).collect();
    let visited: HashMap<&[u8], &VisitedCgroup> =
        seen.iter().map(|visited| (visited.cgroup.path.as_bytes(), visited)).collect();
    let list = |path: &[u8]| Some(*visited.get(path)?);
    for one in threaded.iter().filter(|one| !one.is_empty) {
        let above = CgroupPath::new(&one.path).upwards();
        let domain = above.map(CgroupPath::as_bytes).find(|path| !paths.contains(path));
        let domain = domain.and_then(list).filter(|domain| domain.requested);
        let own = list(one.path.as_bytes());
        let is_same = own.zip(domain).is_some_and(|(own, domain)| {
            matches!(own.cgroup.effective, Answer::Known(_))
                && own.cgroup.effective == domain.cgroup.effective
        });
        if !is_same {
            log.add(ProblemCode::ThreadedCgroup, one.path.lossy(), WHY, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Cgroup;

    fn visited(path: &str, programs: &[u32], requested: bool) -> VisitedCgroup {
        let effective = Answer::Known(programs.to_vec());
        VisitedCgroup { cgroup: Cgroup { path: path.into(), effective, ..Cgroup::default() }, requested }
    }

    fn told(seen: &[VisitedCgroup], threaded: &[(&str, bool)]) -> Vec<String> {
        let one = |(path, is_empty): &(&str, bool)| Threaded { path: (*path).into(), is_empty: *is_empty };
        let threaded: Vec<Threaded> = threaded.iter().map(one).collect();
        let mut log = Log::new(None);
        tell(seen, &threaded, &mut log);
        log.problems.into_iter().map(|problem| problem.what).collect()
    }

    /// Make sure that threads are reported where other programs rule them, or where
    /// nobody listed their processes, and nowhere else.
    #[test]
    fn threads() {
        let seen = [
            visited("/", &[], false),
            visited("/a", &[1], true),
            visited("/a/same", &[1], true),
            visited("/a/other", &[1, 2], true),
            visited("/a/other/below", &[1, 2], true),
            visited("/b", &[1], false),
            visited("/b/only", &[1], true),
        ];
        let all = [("/a/same", false), ("/a/other", false), ("/a/other/below", false), ("/b/only", false)];
        assert_eq!(told(&seen, &all), ["/a/other", "/a/other/below", "/b/only"]);
        assert!(told(&seen, &all.map(|(path, _)| (path, true))).is_empty());
        let seen = [visited("/", &[], true), visited("/t", &[], true), visited("/u", &[1], true)];
        assert_eq!(told(&seen, &[("/t", false), ("/u", false)]), ["/u"]);
    }
}
