//! Threads in other cgroups than their process: threaded cgroups, and processes of whose
//! threads not all are ruled by the same device programs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::hierarchy::Hierarchy;
use super::query::{ListQuery, VisitedCgroup};
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Answer, Text};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::problems::Log;
use crate::observe::procfile::may_be_cut;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;

/// Threads that are looked at, how long that may take, and different cgroups of them
/// that are compared.
const THREADS: usize = 1 << 14;
const TIME: Duration = Duration::from_secs(1);
const CGROUPS: usize = 64;

/// The cgroups of a thread: in cgroup2, and of the v1 devices controller.
type Place = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Why no one answer holds for all threads of a process, one clause; `None` if the same
/// programs rule all of them. `process`: its directory in `/proc`.
pub(in crate::observe) fn ruled_otherwise(process: &Dir, hierarchy: &Hierarchy) -> Option<String> {
    let places = match places(process) {
        Ok(places) if places.len() < 2 => return None,
        Ok(places) => places,
        Err(why) => return Some(why),
    };
    if places.iter().map(|(_, v1)| v1).collect::<BTreeSet<_>>().len() > 1 && hierarchy.devices.is_some() {
        return Some("its threads are in several cgroups of the v1 devices controller".to_owned());
    }
    let mut query = ListQuery::new(hierarchy);
    let mut first = None;
    for (path, _) in &places {
        let path = path.as_deref().unwrap_or_default();
        let name = Text::from(path);
        let Some(list) = list(path, hierarchy, &mut query) else {
            return Some(format!(
                "its threads are in several cgroups, and the device programs of {} are not known",
                name.lossy()
            ));
        };
        if first.get_or_insert_with(|| list.clone()) != &list {
            return Some(format!(
                "its threads are in cgroups with different device programs, one of them is {}",
                name.lossy()
            ));
        }
    }
    None
}

/// Every place that a living thread has.
fn places(process: &Dir) -> Result<BTreeSet<Place>, String> {
    let (mut places, mut threads, mut more) = (BTreeSet::new(), 0, false);
    let end = Instant::now() + TIME;
    let mut failed = None;
    let Some(tasks) = process.child(c"task").or_ended().map_err(unlisted)? else {
        return Ok(places);
    };
    let listed = tasks.numbers(c".", |_, tid| {
        threads += 1;
        more = threads > THREADS || places.len() > CGROUPS || Instant::now() >= end;
        match place(&tasks, tid) {
            Ok(place) => places.extend(place),
            Err(NotRead::Gone) => {}
            Err(why) => failed = Some(format!("one of its threads was not asked for its cgroup: {why}")),
        }
        !more && failed.is_none()
    });
    listed.or_ended().map_err(unlisted)?;
    match failed {
        Some(why) => Err(why),
        None if more => Err(format!("only {threads} of its threads were asked for their cgroups")),
        None => Ok(places),
    }
}

fn unlisted(errno: Errno) -> String {
    format!("its threads cannot be listed: {errno}")
}

/// The place of a thread, if it runs on.
fn place(tasks: &Dir, tid: u32) -> Result<Option<Place>, NotRead> {
    let thread = PinnedProcess::open(tasks, tid)?;
    if thread.stat()?.is_ending() {
        return Ok(None);
    }
    let lines = thread.cgroups()?;
    Ok(Some((lines.unified().map(<[u8]>::to_vec), lines.devices().map(<[u8]>::to_vec))))
}

/// The programs in force in a cgroup; `None` if they are not known.
fn list(path: &[u8], hierarchy: &Hierarchy, query: &mut ListQuery) -> Option<Vec<u32>> {
    if may_be_cut(path) {
        return None;
    }
    let inside = hierarchy.mount.inside(path)?;
    let place = Path::new(".").join(OsStr::from_bytes(CgroupPath::new(&inside).relative()));
    let list = hierarchy.handle.child(&place).map(|dir| query.effective(&dir, &mut Log::new(None)));
    match list {
        Ok(Ok(Answer::Known(ids))) => Some(ids),
        // Not known, which is not the same as any other list.
        _ => None,
    }
}

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
