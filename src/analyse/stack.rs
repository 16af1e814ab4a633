//! The programs in force on one cgroup one by one: where each is attached, with which
//! flags, and what it decides.

use std::collections::{BTreeMap, HashMap};

use super::error::AnalyseError;
use super::policies::Policies;
use super::{check, programs};
use crate::model::{AttachFlag, CgroupPath, Writer};
use crate::observation;
use crate::observation::{Attached, Cgroup, Observation, Process, Program, Text};
use crate::policy::{Decoder, Policy};
use crate::report::Effective;

/// The programs in force on a cgroup.
#[derive(Clone, Debug)]
pub struct Stack {
    /// In run order.
    pub programs: Vec<ProgramInForce>,
    /// What they decide together.
    pub together: Policy,
    /// The same with the v1 controller of the processes inside, where that is
    /// mounted.
    pub whole: Policy,
    /// What that controller says by itself; `None` where it has no say.
    pub v1: Option<Policy>,
}

/// One program in force.
#[derive(Clone, Debug)]
pub struct ProgramInForce {
    /// Its id, where it is attached, and how.
    pub place: Effective,
    /// The program's name; often empty.
    pub name: String,
    /// When it was loaded, RFC 3339; empty if unknown.
    pub loaded_at: String,
    /// Software whose programs have this shape; a label.
    pub writer: Option<Writer>,
    /// What it decides by itself.
    pub policy: Policy,
    /// Whether that may be another in another place: it asks for the cgroup, reads
    /// maps, or changes what other programs decided.
    pub by_place: bool,
}

/// The programs in force on a cgroup of an observation.
///
/// # Errors
///
/// The observation does not hold the cgroup or one of its programs.
pub fn stack(observation: &Observation, path: &Text, decoder: &mut Decoder) -> Result<Stack, AnalyseError> {
    let policies = Policies::new(observation);
    let cgroup = check::cgroup(observation, path)?;
    let tree = Tree::new(&observation.cgroups);
    let programs = tree.effective(cgroup).into_iter();
    let programs = programs.map(|place| in_force(observation, cgroup, place, &policies, decoder));
    let programs = programs.collect::<Result<Vec<_>, _>>()?;
    let together = policies.of_cgroup(cgroup, &[], decoder);
    let inside: Vec<&Process> =
        observation.processes.iter().filter(|process| process.cgroup == *path).collect();
    let whole = policies.of_cgroup(cgroup, &inside, decoder);
    let v1 = policies.v1_of(&inside, decoder);
    Ok(Stack { programs, together, whole, v1 })
}

/// What the programs in force decide on each cgroup at or below `top`, in the order
/// of the observation; the v1 controller has no say here.
pub fn policies_below<'a>(
    observation: &'a Observation,
    top: &Text,
    decoder: &mut Decoder,
) -> Vec<(&'a observation::Cgroup, Policy)> {
    let policies = Policies::new(observation);
    let is_below =
        |cgroup: &&observation::Cgroup| CgroupPath::new(&cgroup.path).is_at_or_below(CgroupPath::new(top));
    let cgroups = observation.cgroups.iter().filter(is_below);
    cgroups.map(|cgroup| (cgroup, policies.of_cgroup(cgroup, &[], decoder))).collect()
}

fn in_force(
    observation: &Observation,
    cgroup: &observation::Cgroup,
    place: Effective,
    policies: &Policies<'_>,
    decoder: &mut Decoder,
) -> Result<ProgramInForce, AnalyseError> {
    let program: &Program = check::program(observation, place.id)?;
    let alone = policies.alone(place.id, decoder);
    let context = policies.context(Some(cgroup.id));
    let policy = alone.unwrap_or_else(|| decoder.policy(&[program], &context));
    Ok(ProgramInForce {
        name: program.name.lossy().into_owned(),
        loaded_at: program.loaded_at.clone(),
        writer: programs::writer_of(program),
        policy,
        by_place: alone.is_none(),
        place,
    })
}

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
