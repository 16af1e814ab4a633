//! Finds the cgroup that each program in force is attached to, and its attach flags.
//!
//! The kernel lists the programs in force on a cgroup without their origin. The
//! lists of what is attached to the cgroup itself and to its ancestors tell it.
//! The kernel runs a cgroup's own programs first, then its parent's, and so on.
//! Programs attached with the preorder flag run before all others, the root's
//! first.

use std::collections::{BTreeMap, HashMap};

use crate::model::{AttachFlag, CgroupPath};
use crate::observation::{Attached, Cgroup, Observation, Text};
use crate::report::Effective;

/// `BPF_F_ALLOW_OVERRIDE` and `BPF_F_ALLOW_MULTI` (`linux/bpf.h`).
const FLAGS: [(u32, AttachFlag); 2] = [(1, AttachFlag::Override), (2, AttachFlag::Multi)];

/// The cgroups of an observation by path.
#[derive(Debug)]
pub(super) struct Tree<'a>(HashMap<&'a [u8], &'a Cgroup>);

/// One program on one of the cgroups of a path.
#[derive(Clone, Copy)]
struct Attachment<'a> {
    id: u32,
    path: &'a Text,
    own: &'a Attached,
}

impl<'a> Tree<'a> {
    pub(super) fn new(cgroups: &'a [Cgroup]) -> Self {
        Self(cgroups.iter().map(|cgroup| (cgroup.path.as_bytes(), cgroup)).collect())
    }

    /// The programs in force on `cgroup` with their places.
    pub(super) fn effective(&self, cgroup: &'a Cgroup) -> Vec<Effective> {
        let Some(ids) = cgroup.effective.known() else { return Vec::new() };
        let places = self.places(cgroup);
        let (places, preorder) = assign(ids, &places);
        ids.iter()
            .zip(places)
            .enumerate()
            .map(|(index, (id, place))| Effective {
                id: *id,
                attached_at: place.map_or_else(String::new, |place| place.path.lossy().into_owned()),
                flags: place.map_or_else(Vec::new, |place| flags(place, index < preorder)),
                link_unknown: place.is_some_and(|place| place.own.links_unknown.is_some()),
            })
            .collect()
    }

    /// Everything attached on the way from `cgroup` to the root, level by
    /// level, each level in attach order.
    fn places(&self, cgroup: &'a Cgroup) -> Vec<Vec<Attachment<'a>>> {
        let of = |at: &'a Cgroup| {
            let own = at.own.known();
            own.map_or_else(Vec::new, |own| {
                own.programs.iter().map(|id| Attachment { id: *id, path: &at.path, own }).collect()
            })
        };
        self.around(cgroup).into_iter().map(of).collect()
    }

    /// `cgroup` and the cgroups around it that were observed, the root last.
    pub(super) fn around(&self, cgroup: &'a Cgroup) -> Vec<&'a Cgroup> {
        let upwards = CgroupPath::new(&cgroup.path).upwards();
        upwards.filter_map(|path| self.0.get(path.as_bytes()).copied()).collect()
    }
}

/// The programs that are attached to a cgroup itself, with their flags as far as the
/// cgroup's lists tell them.
pub(super) fn attached(cgroup: &Cgroup) -> Vec<(u32, Vec<AttachFlag>)> {
    let Some(own) = cgroup.own.known() else { return Vec::new() };
    let place = |id: &u32| Attachment { id: *id, path: &cgroup.path, own };
    own.programs.iter().map(|id| (*id, flags(place(id), false))).collect()
}

/// Whether a program that is attached to `level` runs before those of lower cgroups
/// (`BPF_F_PREORDER`), which no query says: the order of the programs in force on
/// the cgroups there tells it. `None` if both fit, so that it makes no difference.
///
/// # Errors
///
/// No order fits the lists: they changed while they were read.
pub fn is_preorder(observation: &Observation, level: &Text, program: u32) -> Result<Option<bool>, String> {
    let tree = Tree::new(&observation.cgroups);
    let (mut plain, mut first) = (true, true);
    for cgroup in &observation.cgroups {
        let is_ruled = CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(level));
        let ids = cgroup.effective.known().map_or(&[][..], Vec::as_slice);
        let Some(at) = ids.iter().position(|id| *id == program).filter(|_| is_ruled) else { continue };
        let fitting = preorders(ids, &tree.places(cgroup));
        plain &= fitting.iter().any(|preorder| *preorder <= at);
        first &= fitting.iter().any(|preorder| *preorder > at);
    }
    match (plain, first) {
        (true, true) => Ok(None),
        (false, false) => Err("the lists of programs contradict each other".to_owned()),
        (_, first) => Ok(Some(first)),
    }
}

/// The numbers of preorder programs that fit a list of programs in force.
fn preorders(ids: &[u32], levels: &[Vec<Attachment<'_>>]) -> Vec<usize> {
    let down: Vec<Attachment<'_>> = levels.iter().rev().flatten().copied().collect();
    let up: Vec<Attachment<'_>> = levels.iter().flatten().copied().collect();
    let fits = |preorder: &usize| {
        let (first, rest) = ids.split_at(*preorder);
        subsequence(first, &down).is_some() && subsequence(rest, &up).is_some()
    };
    (0..=ids.len()).filter(fits).collect()
}

/// The place of each program, with as few of them preorder as the order
/// permits, and how many those are.
fn assign<'a>(ids: &[u32], levels: &[Vec<Attachment<'a>>]) -> (Vec<Option<Attachment<'a>>>, usize) {
    let down: Vec<Attachment<'_>> = levels.iter().rev().flatten().copied().collect();
    let up: Vec<Attachment<'_>> = levels.iter().flatten().copied().collect();
    for preorder in 0..=ids.len() {
        let (first, rest) = ids.split_at(preorder);
        if let (Some(mut places), Some(others)) = (subsequence(first, &down), subsequence(rest, &up)) {
            places.extend(others);
            return (places.into_iter().map(Some).collect(), preorder);
        }
    }
    // Own lists are missing or changed while they were read: the programs that can
    // still be found.
    let found: BTreeMap<u32, Attachment<'_>> = up.iter().rev().map(|place| (place.id, *place)).collect();
    (ids.iter().map(|id| found.get(id).copied()).collect(), 0)
}

fn subsequence<'a>(ids: &[u32], places: &[Attachment<'a>]) -> Option<Vec<Attachment<'a>>> {
    let mut rest = places.iter();
    ids.iter().map(|id| rest.find(|place| place.id == *id).copied()).collect()
}

fn flags(place: Attachment<'_>, preorder: bool) -> Vec<AttachFlag> {
    let set = FLAGS.into_iter().filter(|(bit, _)| place.own.flags & bit != 0).map(|(_, flag)| flag);
    let link = place.own.links.contains_key(&place.id).then_some(AttachFlag::Link);
    set.chain(preorder.then_some(AttachFlag::Preorder)).chain(link).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Answer;

    fn words(flags: &[AttachFlag]) -> String {
        flags.iter().map(AttachFlag::to_string).collect::<Vec<_>>().join(",")
    }

    fn cgroup(path: &str, effective: &[u32], own: &[u32], flags: u32) -> Cgroup {
        let own = Attached { programs: own.to_vec(), flags, ..Attached::default() };
        Cgroup {
            path: path.into(),
            id: 1,
            effective: Answer::Known(effective.to_vec()),
            own: Answer::Known(own),
            pids: Vec::new(),
            unseen: None,
            uid: None,
        }
    }

    /// Make sure that each program is found where it is attached: nearest
    /// first, and the other way round where it runs before the others.
    #[test]
    fn programs_are_found_where_they_are_attached() {
        let cgroups = [
            cgroup("/", &[1], &[1], 2),
            cgroup("/a", &[2, 1], &[2], 2),
            cgroup("/a/b", &[5, 3, 4, 2, 1], &[3, 4, 5], 2),
            cgroup("/a/c", &[7], &[7], 1),
        ];
        let tree = Tree::new(&cgroups);
        let at = |index: usize| -> Vec<(u32, String, String)> {
            let effective = tree.effective(&cgroups[index]).into_iter();
            effective.map(|program| (program.id, program.attached_at, words(&program.flags))).collect()
        };
        let row = |id, path: &str, flags: &str| (id, path.to_owned(), flags.to_owned());
        assert_eq!(at(1), [row(2, "/a", "multi"), row(1, "/", "multi")]);
        assert_eq!(at(2)[0], row(5, "/a/b", "multi,preorder"));
        assert_eq!(at(2)[3..], [row(2, "/a", "multi"), row(1, "/", "multi")]);
        assert_eq!(at(3), [row(7, "/a/c", "override")]);
    }

    /// Make sure that preorder is derived where the order tells it, also the order
    /// below, and only there.
    #[test]
    fn preorder_is_derived() {
        let of = |cgroups: &[Cgroup], level: &str, program| {
            let observation = Observation { cgroups: cgroups.to_vec(), ..Observation::default() };
            is_preorder(&observation, &level.into(), program)
        };
        let top = cgroup("/a", &[1], &[1], 2);
        assert_eq!(of(std::slice::from_ref(&top), "/a", 1), Ok(None));
        assert_eq!(of(&[top.clone(), cgroup("/a/b", &[2, 1], &[2], 2)], "/a", 1), Ok(Some(false)));
        assert_eq!(of(&[top.clone(), cgroup("/a/b", &[1, 2], &[2], 2)], "/a", 1), Ok(Some(true)));
        assert_eq!(of(&[top.clone(), cgroup("/a/b", &[2, 1], &[2], 2)], "/a/b", 2), Ok(None));
        // Of two on one level the second was attached as preorder.
        assert_eq!(of(&[cgroup("/a", &[2, 1], &[1, 2], 2)], "/a", 2), Ok(Some(true)));
        assert_eq!(of(&[cgroup("/a", &[2, 1], &[1, 2], 2)], "/a", 1), Ok(Some(false)));
        assert!(of(&[cgroup("/a", &[9, 1], &[1], 2)], "/a", 1).is_err());
    }
}
