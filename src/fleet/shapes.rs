//! The shape of the device programs that owners of one kind are under: who wrote
//! them, and what they decide where no rule says anything. Nodes that are set up
//! alike have the same shapes, whichever jobs run there.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{OwnerKind, Verdict};
use crate::report::Payload;

/// Shapes of a kind that are listed.
const SHAPES: usize = 16;
/// Programs of a shape that are listed.
const PROGRAMS: usize = 8;

/// The shapes of a node by kind of owner.
#[derive(Debug, Default)]
pub(super) struct Shapes(BTreeMap<String, BTreeSet<String>>);

/// A program in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Program<'a> {
    /// Its writer, as far as that is known.
    pub(super) writer: Option<&'a str>,
    /// How many instructions it has.
    pub(super) insns: Option<usize>,
}

impl Shapes {
    /// The shapes of an answer.
    pub(super) fn of(payload: &Payload) -> Self {
        let mut shapes = Self::default();
        for cgroup in payload.cgroups.iter().flatten() {
            let owner = cgroup.owner.as_ref().filter(|owner| owner.part.is_none() && owner.is_workload());
            let Some(owner) = owner else { continue };
            let program = |id| payload.programs.as_ref().and_then(|programs| programs.get(id));
            let writers: Vec<(Option<String>, Option<usize>)> = cgroup
                .programs
                .iter()
                .filter_map(|effective| program(&effective.id))
                .map(|program| (program.writer.as_ref().map(ToString::to_string), program.insns))
                .collect();
            let programs: Vec<Program<'_>> = writers
                .iter()
                .map(|(writer, insns)| Program { writer: writer.as_deref(), insns: *insns })
                .collect();
            let policy = payload.policies.as_ref().and_then(|policies| policies.get(&cgroup.policy));
            shapes.add(&owner.kind, &programs, policy.map(|policy| policy.default).unwrap_or_default());
        }
        shapes
    }

    /// Adds a cgroup of an owner.
    pub(super) fn add(&mut self, kind: &OwnerKind, programs: &[Program<'_>], default: Verdict) {
        if kind.is_service() {
            return;
        }
        let shapes = self.0.entry(kind.to_string()).or_default();
        if shapes.len() < SHAPES {
            shapes.insert(shape(kind, programs, default));
        }
    }

    /// The shapes by kind of owner.
    pub(super) fn finish(self) -> BTreeMap<String, Vec<String>> {
        self.0.into_iter().map(|(kind, shapes)| (kind, shapes.into_iter().collect())).collect()
    }
}

fn shape(kind: &OwnerKind, programs: &[Program<'_>], default: Verdict) -> String {
    let one = |program: &Program<'_>| {
        let writer = program.writer.unwrap_or("unknown writer");
        // Slurm writes a rule for each device of gres.conf, whatever a job has. The
        // programs of container engines are as long as the container's own list.
        match program.insns.filter(|_| kind.is_slurm()) {
            Some(insns) => format!("{writer}, {insns} instructions"),
            None => writer.to_owned(),
        }
    };
    let all: Vec<String> = programs.iter().take(PROGRAMS).map(one).collect();
    match (all.is_empty(), programs.len().saturating_sub(PROGRAMS)) {
        (true, _) => "no program".to_owned(),
        (false, 0) => format!("{}; else {default}", all.join(" + ")),
        (false, more) => format!("{} + {more} more; else {default}", all.join(" + ")),
    }
}
