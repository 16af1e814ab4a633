//! The levels of cgroups: which program at which level allows or denies. Ways through
//! programs are kept once: the programs of many jobs have the same instructions.
//!
//! Cgroups in which the same programs are in force, attached at the same places, with the
//! same policy, are one stack: a job has dozens of cgroups and few stacks.

use std::collections::{BTreeMap, HashMap};

use super::super::attachment::attached;
use super::super::explain;
use super::super::joined_node::{JoinedNode, in_scope};
use super::places::{self, Column, Limits, Places};
use crate::analyse::subject::AnalyseError;
use crate::model::Verdict;
use crate::observation;
use crate::report::{
    Cgroup, Effective, Finding, PageLevel, PageProgram, PageProof, PageReturn, PageStack, PageVerdict,
    ProgramProof, Step,
};

/// The cgroups and columns of a page.
pub(super) struct Node<'a> {
    pub(super) cgroups: &'a [Cgroup],
    pub(super) columns: &'a [Column],
    /// The cgroups by place, the most interesting first.
    pub(super) order: Vec<usize>,
}

/// The stacks, and that of each cgroup.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) list: Vec<PageStack>,
    by_cgroup: HashMap<usize, usize>,
}

/// What cgroups of one stack have in common: the programs in force with their places, the
/// policy, why these could not be asked, and the cgroup itself where a program looks at
/// that.
type Key<'a> = (&'a [Effective], &'a str, Option<&'a str>, Option<u64>);

impl Stacks {
    /// The stack of a cgroup by place.
    pub(super) fn of_cgroup(&self, place: usize) -> Option<usize> {
        self.by_cgroup.get(&place).copied()
    }

    /// The stack of the cgroup that each finding is about.
    pub(super) fn of_findings(&self, findings: &[Finding], cgroups: &[Cgroup]) -> Vec<Option<usize>> {
        let places: HashMap<&str, usize> =
            cgroups.iter().enumerate().map(|(place, cgroup)| (cgroup.path.as_str(), place)).collect();
        let stack = |finding: &Finding| self.of_cgroup(*places.get(finding.cgroup.as_deref()?)?);
        findings.iter().map(stack).collect()
    }

    /// The stacks in which each policy is in force.
    pub(super) fn by_policy(&self) -> BTreeMap<String, Vec<usize>> {
        let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, stack) in self.list.iter().enumerate() {
            found.entry(stack.policy.clone()).or_default().push(place);
        }
        found
    }

    /// The stacks with the owners whose cgroups they decide for.
    pub(super) fn with_owners(mut self, places: &Places, owners: &[usize]) -> Self {
        for owner in owners {
            for place in places.of_owner(*owner) {
                let stack = self.by_cgroup.get(place).and_then(|stack| self.list.get_mut(*stack));
                if let Some(stack) = stack.filter(|stack| stack.owners.last() != Some(owner)) {
                    stack.owners.push(*owner);
                }
            }
        }
        self
    }
}

/// The stacks of all cgroups, those of the first ones first.
pub(super) fn of<'a>(
    join: &mut JoinedNode<'a>,
    node: &Node<'_>,
    proofs: &mut Proofs,
    limits: &mut Limits,
) -> Result<Stacks, AnalyseError> {
    let observed = in_scope(join.observation)?;
    let observed: HashMap<u64, &'a observation::Cgroup> =
        observed.into_iter().map(|cgroup| (cgroup.id, cgroup)).collect();
    let mut index: HashMap<Key<'_>, Option<usize>> = HashMap::new();
    let (mut stacks, mut left_out) = (Stacks::default(), 0);
    for place in &node.order {
        let Some(cgroup) = node.cgroups.get(*place) else { continue };
        let Some(seen) = observed.get(&cgroup.id) else { continue };
        let looks_at_place = cgroup.programs.iter().any(|program| join.depends_on_place(program.id));
        let key = (
            cgroup.programs.as_slice(),
            cgroup.policy.as_str(),
            cgroup.programs_unknown.as_deref(),
            looks_at_place.then_some(cgroup.id),
        );
        let stack = match index.get(&key) {
            Some(known) => *known,
            None => {
                let new = stack(join, seen, cgroup, node.columns, proofs, limits);
                let at = new.map(|new| {
                    stacks.list.push(new);
                    stacks.list.len() - 1
                });
                left_out += usize::from(at.is_none());
                index.insert(key, at);
                at
            }
        };
        if let Some(stack) = stack {
            stacks.by_cgroup.insert(*place, stack);
            if let Some(stack) = stacks.list.get_mut(stack) {
                stack.cgroups.push(*place);
            }
        }
    }
    limits.cut("sets of cgroups with their programs", left_out, "gpumap cgroup PATH shows one");
    Ok(stacks)
}

fn stack<'a>(
    join: &mut JoinedNode<'a>,
    seen: &'a observation::Cgroup,
    cgroup: &Cgroup,
    columns: &[Column],
    proofs: &mut Proofs,
    limits: &mut Limits,
) -> Option<PageStack> {
    let mut levels = levels(join, seen, cgroup);
    let programs: usize = levels.iter().map(|level| level.programs.len() + 1).sum();
    if join.limit().was_missed() || !limits.take_marks(programs.saturating_mul(columns.len().max(1))) {
        return None;
    }
    let mut verdicts = Vec::with_capacity(columns.len());
    for column in columns {
        let mut v1 = None;
        let mut returns: Vec<PageReturn> = Vec::new();
        let (verdict, why) = places::verdict(cgroup, column);
        for (question, text) in column.questions.iter().zip(&column.shown.questions) {
            let (device, request) = *question;
            let proof = join.ways_of(seen, device, request);
            v1 = v1.or(explain::v1_sentence(join.observation, &seen.path, proof.verdict, verdict));
            returns.resize(proof.programs.len(), PageReturn { verdict: Verdict::Allow, proofs: Vec::new() });
            for (part, way) in returns.iter_mut().zip(proof.programs) {
                part.verdict = both(part.verdict, way.returns);
                part.proofs.push(proofs.add(text, way, limits));
            }
        }
        set_returns(&mut levels, returns);
        verdicts.push(PageVerdict { verdict, why: why.map(str::to_owned), devices_v1: v1 });
    }
    Some(PageStack {
        levels,
        verdicts,
        rule: join.rule_of(seen),
        policy: cgroup.policy.clone(),
        unknown: cgroup.programs_unknown.clone(),
        ..PageStack::default()
    })
}

/// The result for two questions that must both be allowed.
fn both(first: Verdict, second: Verdict) -> Verdict {
    match (first, second) {
        (Verdict::Deny, _) | (_, Verdict::Deny) => Verdict::Deny,
        (Verdict::Unknown, _) | (_, Verdict::Unknown) => Verdict::Unknown,
        _ => Verdict::Allow,
    }
}

/// Hands the results of one column, in run order, to the programs in force.
fn set_returns(levels: &mut [PageLevel], returns: Vec<PageReturn>) {
    let unknown = PageReturn::default();
    for program in levels.iter_mut().flat_map(|level| &mut level.programs) {
        if let Some(order) = program.order {
            program.returns.push(returns.get(order - 1).cloned().unwrap_or_else(|| unknown.clone()));
        }
    }
}

/// The levels from the root to a cgroup, with all that is attached there. Programs in
/// force whose place is not known come first, at a level without a path.
fn levels<'a>(join: &JoinedNode<'a>, seen: &'a observation::Cgroup, cgroup: &Cgroup) -> Vec<PageLevel> {
    let at = |path: &str| -> Vec<PageProgram> {
        let placed = cgroup.programs.iter().enumerate().filter(|(_, program)| program.attached_at == path);
        placed.map(|(index, program)| in_force(index, program)).collect()
    };
    let unplaced = PageLevel { path: String::new(), programs: at("") };
    let level = |around: &observation::Cgroup| {
        let path = around.path.lossy().into_owned();
        let mut programs = at(&path);
        let idle =
            attached(around).into_iter().filter(|(id, _)| programs.iter().all(|known| known.id != *id));
        let idle: Vec<PageProgram> =
            idle.map(|(id, flags)| PageProgram { id, flags, ..PageProgram::default() }).collect();
        programs.extend(idle);
        PageLevel { path, programs }
    };
    let placed = join.around(seen).into_iter().rev().map(level);
    std::iter::once(unplaced).filter(|level| !level.programs.is_empty()).chain(placed).collect()
}

fn in_force(index: usize, program: &Effective) -> PageProgram {
    PageProgram { id: program.id, flags: program.flags.clone(), order: Some(index + 1), returns: Vec::new() }
}

/// Instructions of one proof beyond which its middle is left out.
const LONG: usize = 300;

/// Instructions kept of its beginning and of its end.
const HEAD: usize = 200;

const TAIL: usize = 60;

/// What makes two ways the same.
type WayKey = (String, Vec<Step>, Option<usize>, Option<i32>, Option<String>);

/// The proofs of a page.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    list: Vec<PageProof>,
    index: HashMap<WayKey, Option<usize>>,
    left_out: usize,
}

impl Proofs {
    /// Adds a way, and returns its place; `None` if there is no room for it.
    pub(super) fn add(&mut self, question: &str, way: ProgramProof, limits: &mut Limits) -> Option<usize> {
        let key = (question.to_owned(), way.steps, way.decided_at, way.retval, way.why.clone());
        let id = way.id;
        if let Some(known) = self.index.get(&key) {
            let proof = self.list.get_mut((*known)?)?;
            if !proof.programs.contains(&id) {
                proof.programs.push(id);
            }
            return *known;
        }
        let (steps, folded) = fold(&key.1);
        let place = limits.take_steps(steps.len() + 1).then_some(self.list.len());
        match place {
            Some(_) => {
                let way = ProgramProof { steps, ..way };
                self.list.push(PageProof {
                    question: question.to_owned(),
                    programs: vec![id],
                    way,
                    folded,
                    folded_after: HEAD,
                });
            }
            None => self.left_out += 1,
        }
        self.index.insert(key, place);
        place
    }

    /// The proofs, and the note about those without room.
    pub(super) fn finish(self, limits: &mut Limits) -> Vec<PageProof> {
        limits.cut("ways through programs", self.left_out, "gpumap explain --cgroup PATH DEVICE shows one");
        self.list
    }
}

/// A long way without its middle, and how much that was.
fn fold(steps: &[Step]) -> (Vec<Step>, usize) {
    if steps.len() <= LONG {
        return (steps.to_vec(), 0);
    }
    let ends = steps.iter().take(HEAD).chain(steps.iter().skip(steps.len() - TAIL));
    (ends.cloned().collect(), steps.len() - HEAD - TAIL)
}
