//! Finds threads that other device programs rule than the rest of their process.
//!
//! The kernel asks the programs of the cgroup that a thread is in, and threads of one
//! process can be in several: in threaded cgroups, in groups of cgroup v1, and where the
//! main thread had ended before the others were moved.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::hierarchy::Hierarchy;
use super::query::ListQuery;
use crate::model::CgroupPath;
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
    let Some(tasks) = process.child(c"task").or_absent().map_err(unlisted)? else {
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
    listed.or_absent().map_err(unlisted)?;
    match failed {
        Some(why) => Err(why),
        None if more => Err(format!("only {threads} of its threads were asked for their cgroups")),
        None => Ok(places),
    }
}

fn unlisted(errno: Errno) -> String {
    format!("its threads cannot be listed: {errno}")
}

/// The place of a thread, if it lives.
fn place(tasks: &Dir, tid: u32) -> Result<Option<Place>, NotRead> {
    let thread = PinnedProcess::open(tasks, tid)?;
    if thread.stat()?.has_ended() {
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
