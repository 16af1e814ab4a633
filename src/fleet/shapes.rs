//! The shape of the device programs that owners of one kind are under: who wrote
//! them, and what they decide where no rule says anything. Nodes that are set up
//! alike have the same shapes, whichever jobs run there.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Answer;
use crate::model::{OwnerKind, Verdict};
use crate::report::NodeAnswer;

/// Shapes of a kind that are listed.
const SHAPES: usize = 16;
/// Programs of a shape that are listed.
const PROGRAMS: usize = 8;

/// The shapes of a node by kind of owner. Most cgroups of a kind are alike, so that each
/// is compared with those before it and put into words at the end.
#[derive(Debug, Default)]
pub(super) struct Shapes<'a> {
    by_kind: BTreeMap<OwnerKind, Vec<Shape<'a>>>,
    /// The cgroup that is being added: one place for all of them.
    now: Shape<'a>,
}

/// What tells programs of one kind of owner apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shape<'a> {
    /// The first of them.
    programs: Vec<Program<'a>>,
    /// How many more there are.
    more: usize,
    /// What they decide where no rule says anything.
    default: Verdict,
}

/// A program in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Program<'a> {
    /// Its writer, as far as that is known.
    pub(super) writer: Option<&'a str>,
    /// How many instructions it has.
    pub(super) insns: Option<usize>,
}

/// The shapes of an answer by kind of owner.
pub(super) fn of(payload: &NodeAnswer) -> BTreeMap<String, Vec<String>> {
    let programs = payload.programs.iter();
    let programs: BTreeMap<u32, (Option<String>, Option<usize>)> = programs
        .map(|(id, program)| (*id, (program.writer.as_ref().map(ToString::to_string), program.insns)))
        .collect();
    let mut shapes = Shapes::default();
    for cgroup in payload.cgroups.iter() {
        let owner = cgroup.owner.as_ref().filter(|owner| owner.part.is_none() && owner.is_workload());
        let Some(owner) = owner else { continue };
        let found = cgroup.programs.iter().filter_map(|effective| programs.get(&effective.id));
        let found = found.map(|(writer, insns)| Program { writer: writer.as_deref(), insns: *insns });
        let policy = payload.policies.get(&cgroup.policy);
        shapes.add(&owner.kind, found, policy.map(|policy| policy.default).unwrap_or_default());
    }
    shapes.finish()
}

/// The same of a full answer that another node wrote.
pub(super) fn of_answer(answer: &Answer<'_>) -> BTreeMap<String, Vec<String>> {
    let mut shapes = Shapes::default();
    for cgroup in answer.cgroups.iter().flat_map(|cgroups| &cgroups.0) {
        let Some(owner) = cgroup.owner.as_ref().filter(|owner| owner.part.is_none()) else { continue };
        let kind = OwnerKind::of(&owner.kind);
        // Slurm's own cgroups are below no job.
        if kind == OwnerKind::Slurm && owner.job_id.is_none() && owner.sluid.is_none() {
            continue;
        }
        let programs = cgroup.programs.0.iter().filter_map(|effective| answer.programs.0.get(&effective.id));
        let programs =
            programs.map(|program| Program { writer: program.writer.as_deref(), insns: program.insns });
        let policy = answer.policies.as_ref().and_then(|policies| policies.0.get(&cgroup.policy));
        shapes.add(&kind, programs, policy.map_or(Verdict::default(), |policy| policy.default));
    }
    shapes.finish()
}

impl<'a> Shapes<'a> {
    /// Adds a cgroup of an owner.
    pub(super) fn add(
        &mut self,
        kind: &OwnerKind,
        programs: impl Iterator<Item = Program<'a>>,
        default: Verdict,
    ) {
        if kind.is_service() {
            return;
        }
        // Slurm writes a rule for each device of gres.conf, whatever a job has. The
        // programs of container engines are as long as the container's own list.
        let mut programs = programs.map(|it| Program { insns: it.insns.filter(|_| kind.is_slurm()), ..it });
        self.now.programs.clear();
        self.now.programs.extend(programs.by_ref().take(PROGRAMS));
        (self.now.more, self.now.default) = (programs.count(), default);
        match self.by_kind.get_mut(kind) {
            Some(shapes) if shapes.len() >= SHAPES || shapes.contains(&self.now) => {}
            Some(shapes) => shapes.push(self.now.clone()),
            None => drop(self.by_kind.insert(kind.clone(), vec![self.now.clone()])),
        }
    }

    /// The shapes in words by kind of owner.
    pub(super) fn finish(self) -> BTreeMap<String, Vec<String>> {
        let words = |shapes: Vec<Shape<'_>>| {
            let words: BTreeSet<String> = shapes.iter().map(Shape::text).collect();
            words.into_iter().collect()
        };
        self.by_kind.into_iter().map(|(kind, shapes)| (kind.to_string(), words(shapes))).collect()
    }
}

impl Shape<'_> {
    fn text(&self) -> String {
        let one = |program: &Program<'_>| {
            let writer = program.writer.unwrap_or("unknown writer");
            match program.insns {
                Some(insns) => format!("{writer}, {insns} instructions"),
                None => writer.to_owned(),
            }
        };
        let all: Vec<String> = self.programs.iter().map(one).collect();
        match (all.is_empty(), self.more) {
            (true, _) => "no program".to_owned(),
            (false, 0) => format!("{}; else {}", all.join(" + "), self.default),
            (false, more) => format!("{} + {more} more; else {}", all.join(" + "), self.default),
        }
    }
}
