//! Completes what a walk found, after it: every cgroup is queried again once its programs were
//! read, because programs may be replaced in between, and links are asked which programs they
//! hold.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::errno::Errno;

use super::hierarchy::Hierarchy;
use super::query::{Gone, ListQuery};
use super::walk::VisitedCgroup;
use crate::model::{CgroupPath, ProblemCode};
use crate::observation::{Answer, Attached, Cgroup};
use crate::observe::problems::{Log, links_failed};
use crate::observe::programs::cache::ProgramCache;
use crate::sys::absence::is_removal;
use crate::sys::bpf;
use crate::sys::dir::Dir;

/// How often cgroups are queried again.
const ROUNDS: usize = 3;

/// Reads all programs of `seen` until no list has changed since.
pub(in crate::observe) fn settle(
    hierarchy: &Hierarchy,
    seen: &mut Vec<VisitedCgroup>,
    cache: &mut ProgramCache,
    log: &mut Log,
) {
    let mut list_query = ListQuery::new(hierarchy);
    for _ in 0..ROUNDS {
        cache.load(program_ids(seen).into_iter(), log);
        if log.out_of_time("asking again") || ask_again(hierarchy, seen, &mut list_query, log) == 0 {
            break;
        }
    }
    let unread = |seen: &VisitedCgroup| ids(&seen.cgroup).any(|id| !cache.programs.contains_key(&id));
    for seen in seen.iter_mut().filter(|seen| unread(seen)) {
        let why = "its programs changed each time they were read";
        log.add(ProblemCode::ChangedWhileRead, seen.cgroup.path.lossy(), why, "another try");
        seen.cgroup.effective = Answer::Missing(why.to_owned());
        seen.cgroup.own = Answer::Missing(why.to_owned());
    }
    let attached = program_ids(seen);
    cache.keep(|id| attached.contains(&id));
}

/// The ids of all programs of the cgroups.
fn program_ids(seen: &[VisitedCgroup]) -> BTreeSet<u32> {
    let mut all = BTreeSet::new();
    let mut last: &[u32] = &[];
    for seen in seen {
        // Neighbours mostly share one list.
        let effective = seen.cgroup.effective.known().map_or(&[][..], Vec::as_slice);
        if effective != last {
            all.extend(effective);
            last = effective;
        }
        all.extend(seen.cgroup.own.known().iter().flat_map(|own| &own.programs));
    }
    all
}

/// The programs in force on a cgroup, and those that are attached to it.
pub(in crate::observe) fn ids(cgroup: &Cgroup) -> impl Iterator<Item = u32> {
    let effective = cgroup.effective.known().into_iter().flatten();
    effective.chain(cgroup.own.known().into_iter().flat_map(|own| &own.programs)).copied()
}

/// Queries every cgroup again for its programs in force, updates those that changed,
/// and drops cgroups that are gone. Returns how many changed.
fn ask_again(
    hierarchy: &Hierarchy,
    seen: &mut Vec<VisitedCgroup>,
    list_query: &mut ListQuery,
    log: &mut Log,
) -> usize {
    let mut changed = 0;
    seen.retain_mut(|seen| {
        let cgroup = &mut seen.cgroup;
        if cgroup.effective.known().is_none() {
            return true;
        }
        let outcome = match open(hierarchy, cgroup) {
            Ok(dir) => refresh(&dir, cgroup, list_query, log),
            Err(errno) if is_removal(errno) => Outcome::Gone,
            Err(errno) => {
                log.failed(cgroup.path.lossy(), errno);
                cgroup.effective = Answer::Missing(format!("it could not be asked again: {}", errno.desc()));
                cgroup.own = cgroup
                    .effective
                    .missing()
                    .map_or(Answer::default(), |why| Answer::Missing(why.to_owned()));
                Outcome::Same
            }
        };
        changed += usize::from(outcome == Outcome::Changed);
        if outcome == Outcome::Gone {
            log.add(ProblemCode::CgroupGone, cgroup.path.lossy(), "removed while it was read", "");
        }
        outcome != Outcome::Gone
    });
    changed
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Same,
    Changed,
    Gone,
}

fn refresh(dir: &Dir, cgroup: &mut Cgroup, list_query: &mut ListQuery, log: &mut Log) -> Outcome {
    match list_query.effective(dir, log) {
        Ok(effective) if effective == cgroup.effective => Outcome::Same,
        Ok(_) => match list_query.lists(dir, log) {
            Ok((effective, own)) => {
                (cgroup.effective, cgroup.own) = (effective, own);
                Outcome::Changed
            }
            Err(Gone) => Outcome::Gone,
        },
        Err(Gone) => Outcome::Gone,
    }
}

fn open(hierarchy: &Hierarchy, cgroup: &Cgroup) -> Result<Dir, Errno> {
    let path = CgroupPath::new(&cgroup.path).relative();
    let path = if path.is_empty() { b".".as_slice() } else { path };
    hierarchy.handle.child(&PathBuf::from(OsStr::from_bytes(path)))
}

/// No more links than this are looked at.
const MAX_LINKS: usize = 1 << 20;

/// (cgroup id, program id) → link id.
type Links = HashMap<(u64, u32), u32>;

/// Fills in the links of every own program.
pub(in crate::observe) fn fill(seen: &mut [VisitedCgroup], log: &mut Log) {
    if seen.iter().all(|seen| own(&seen.cgroup).is_none_or(|own| own.programs.is_empty())) {
        return;
    }
    let links = list(log);
    seen.iter_mut().for_each(|seen| add(&mut seen.cgroup, &links));
}

fn own(cgroup: &Cgroup) -> Option<&Attached> {
    cgroup.own.known()
}

fn add(cgroup: &mut Cgroup, links: &Result<Links, String>) {
    let id = cgroup.id;
    let Answer::Known(own) = &mut cgroup.own else { return };
    match links {
        Ok(links) => {
            let held =
                own.programs.iter().filter_map(|program| Some((*program, *links.get(&(id, *program))?)));
            own.links = held.collect();
        }
        Err(why) => own.links_unknown = (!own.programs.is_empty()).then(|| why.clone()),
    }
}

/// All links that attach device programs; or why they are not known, a clause, which is
/// a problem.
fn list(log: &mut Log) -> Result<Links, String> {
    let mut links = Links::new();
    let mut last = 0;
    for _ in 0..MAX_LINKS {
        let id = match bpf::next_link_id(last) {
            Ok(Some(id)) => id,
            Ok(None) => return Ok(links),
            Err(error) if bpf::lacks_links(error) => return Ok(Links::new()),
            Err(error) => return Err(links_failed(error, log)),
        };
        if log.out_of_time("listing links") {
            return Err("the time limit was reached".to_owned());
        }
        match bpf::link_by_id(id).and_then(|link| bpf::link_info(link.as_fd())) {
            Ok(Some(link)) => drop(links.insert((link.cgroup, link.program), link.id)),
            Ok(None) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(links_failed(error, log)),
        }
        last = id;
    }
    let why = format!("the node has more than {MAX_LINKS} links");
    log.once(ProblemCode::TooMany, "BPF links", why.clone(), "");
    Err(why)
}
