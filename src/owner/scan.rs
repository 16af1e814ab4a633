//! Reading a path from the root to the leaf: every recogniser looks at every
//! name, and whatever one of them takes becomes the new innermost owner.

use super::place::{Match, Place};
use super::{container, engine, machine, pod, schedulers, slurm, unit};
use crate::report::Owner;

/// Owners around each other that are kept, the innermost: only a hostile path
/// has more, and their nesting must stay shallow.
const DEPTH: usize = 16;

type Recogniser = fn(Place<'_, '_>) -> Option<Match>;

/// Owners that the node's administrator or container engines make. The first
/// that matches wins: names with a meaning of their own come before units.
const ANYWHERE: &[Recogniser] =
    &[pod::recognise, engine::recognise, container::recognise, machine::recognise, schedulers::flux];

/// Owners that only root can make: not recognised in a user's own subtree.
const ROOT_ONLY: &[Recogniser] = &[
    slurm::v2,
    slurm::v1,
    schedulers::parastation,
    schedulers::crane,
    schedulers::pbs,
    schedulers::htcondor,
];

/// One owner of a path.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) owner: Owner,
    /// The path up to the job's directory, for an owner with a SLUID.
    pub(super) job: Option<&'a [u8]>,
}

/// The owners of a path, outermost first.
pub(super) fn scan(path: &[u8]) -> Vec<Found<'_>> {
    let (names, ends) = split(path);
    let mut found: Vec<Found<'_>> = Vec::new();
    let mut place = Place { names: &names, at: 0, users: false, top: true };
    while place.at < names.len() {
        let users = place.users || unit::manager(place.name()).is_some();
        let Some(Match { owner, taken, tree }) = recognise(place) else {
            place.top = place.top && place.name().ends_with(b".slice");
            place.at += 1;
            place.users = users;
            continue;
        };
        if found.last().is_some_and(|last| is_implied(&last.owner, &owner)) {
            found.pop();
        }
        // A SLUID is the name after that of Slurm's scope.
        let end = ends.get(place.at + 1).filter(|_| owner.sluid.is_some());
        found.push(Found { owner, job: end.and_then(|end| path.get(..*end)) });
        place = Place { at: place.at + taken, top: tree, users, ..place };
        found.drain(..found.len().saturating_sub(DEPTH));
    }
    found
}

/// Puts owners into each other, the last innermost. One name may have told of
/// two, the outer of which is in place already.
pub(super) fn nested(owners: impl Iterator<Item = Owner>) -> Option<Owner> {
    owners.fold(None, |around: Option<Owner>, owner| {
        let outer = match owner.outer {
            Some(outer) => Some(Box::new(Owner { outer: around.map(Box::new), ..*outer })),
            None => around.map(Box::new),
        };
        Some(Owner { outer, ..owner })
    })
}

/// The names of a path, and where each ends in it.
fn split(path: &[u8]) -> (Vec<&[u8]>, Vec<usize>) {
    let mut end = 0;
    let names = path.split(|byte| *byte == b'/').map(|name| {
        end += name.len() + 1;
        (name, end - 1)
    });
    names.filter(|(name, _)| !name.is_empty()).unzip()
}

fn recognise(place: Place<'_, '_>) -> Option<Match> {
    let root_only = if place.users { &[] } else { ROOT_ONLY };
    let mut all = root_only.iter().chain(ANYWHERE).chain(&[unit::recognise as Recogniser]);
    all.find_map(|recogniser| recogniser(place))
}

/// Whether the owner around adds nothing: a user's slice around the session or
/// manager of the same user.
fn is_implied(outer: &Owner, inner: &Owner) -> bool {
    outer.kind == "user" && matches!(inner.kind.as_str(), "user" | "session") && outer.uid == inner.uid
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the job's directory is cut out of the path as it is
    /// written.
    #[test]
    fn job_directories() {
        let path = b"//system.slice/slurmstepd.scope/sEKNKTV3WPV500//step_0/user";
        let found = scan(path);
        assert_eq!(found[0].job, Some(&b"//system.slice/slurmstepd.scope/sEKNKTV3WPV500"[..]));
    }

    /// Make sure that no path makes a deep nest.
    #[test]
    fn bounded_nesting() {
        let path = "/system.slice/slurmstepd.scope/job_1".repeat(100_000);
        assert_eq!(scan(path.as_bytes()).len(), DEPTH);
    }
}
