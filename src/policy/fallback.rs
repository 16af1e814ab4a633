//! Answers single questions where a policy as a whole is too complex: it runs the
//! programs on that question alone.
//!
//! The machine is the same, with the 36 bits of the question as constants, so there
//! is one semantics. What the programs may write was found for all questions
//! before, because an earlier question may have caused the write.

use std::cell::OnceCell;

use crate::observation::{Map, Program, with_inner};

use super::code::{Code, Parsed};
use super::program_code::ProgramCode;
use super::types::{Combination, Context, Fallback, Policy};
use super::written::Written;

/// The answerers of open questions, of all policies of a decoder.
#[derive(Debug, Default)]
pub struct Fallbacks(Vec<Answerer>);

/// Answers the open questions of one policy.
#[derive(Debug, PartialEq)]
pub enum Answerer {
    /// These programs, run for each question.
    Programs(Stack),
    /// All of these must allow.
    All(Vec<Policy>),
}

/// Programs with all that they read.
#[derive(Debug)]
pub struct Stack {
    /// The programs in run order.
    pub programs: Vec<Program>,
    /// Their maps.
    pub maps: Vec<Map>,
    /// The cgroup asked about.
    pub cgroup_id: Option<u64>,
    /// The ids of the cgroups on the way to it.
    path: Vec<u64>,
    /// How the kernel combines the programs.
    pub combination: Combination,
    /// What the programs may have written before the question.
    pub written: Written,
    /// What the diagram alone says of all questions, if it was drawn.
    drawn: Option<Policy>,
    /// The programs prepared, once a question was asked.
    parsed: OnceCell<Vec<Result<Parsed, String>>>,
}

impl PartialEq for Stack {
    fn eq(&self, other: &Self) -> bool {
        let all = |stack: &Self| (stack.cgroup_id, stack.combination);
        all(self) == all(other)
            && self.programs == other.programs
            && self.maps == other.maps
            && self.written == other.written
            && self.drawn == other.drawn
    }
}

impl Stack {
    /// Whether these are the programs, with the same in their maps.
    fn is_of(&self, programs: &[&Program], context: &Context<'_>) -> bool {
        let holds_the_same = |map: &Map| context.maps.iter().find(|one| one.id == map.id) == Some(map);
        (self.cgroup_id, self.combination) == (context.cgroup_id, context.combination)
            && self.programs.iter().eq(programs.iter().copied())
            && self.maps.iter().all(holds_the_same)
    }

    /// What the programs read.
    pub fn context(&self) -> Context<'_> {
        Context { maps: &self.maps, cgroups: &[], cgroup_id: self.cgroup_id, combination: self.combination }
    }

    /// The programs ready to run; they are parsed once.
    pub fn codes(&self) -> Vec<ProgramCode<'_>> {
        let parsed = self.parsed.get_or_init(|| self.programs.iter().map(Parsed::of).collect());
        self.programs
            .iter()
            .zip(parsed)
            .map(|(program, parsed)| ProgramCode {
                program,
                code: parsed.clone().map(|parsed| Code::with(parsed, program, &self.maps, self.path.clone())),
                maps: &self.maps,
            })
            .collect()
    }
}

impl Fallbacks {
    /// Programs that are run for each question that `drawn` leaves open.
    pub fn programs(
        &mut self,
        programs: &[&Program],
        context: &Context<'_>,
        written: Written,
        drawn: Option<Policy>,
    ) -> Fallback {
        let ids = programs.iter().flat_map(|program| program.map_ids.iter().copied());
        let ids = with_inner(ids, |id| context.maps.iter().find(|map| map.id == id));
        let used = |map: &&Map| ids.contains(&map.id);
        self.add(Answerer::Programs(Stack {
            programs: programs.iter().copied().cloned().collect(),
            maps: context.maps.iter().filter(used).cloned().collect(),
            cgroup_id: context.cgroup_id,
            path: context.path(),
            combination: context.combination,
            written,
            drawn,
            parsed: OnceCell::new(),
        }))
    }

    /// The policy of these programs if it was drawn before, and what they may write.
    pub fn known(&self, programs: &[&Program], context: &Context<'_>) -> Option<(Policy, &Written)> {
        self.0.iter().enumerate().find_map(|(number, answerer)| match answerer {
            Answerer::Programs(stack) if stack.is_of(programs, context) => {
                let fallback = Fallback(number + 1);
                stack.drawn.map(|drawn| (Policy { fallback, ..drawn }, &stack.written))
            }
            _ => None,
        })
    }

    /// Policies that must all allow.
    pub fn all(&mut self, policies: &[Policy]) -> Fallback {
        if policies.iter().all(|policy| policy.fallback == Fallback::NONE) {
            return Fallback::NONE;
        }
        self.add(Answerer::All(policies.to_vec()))
    }

    /// Equal answerers get the same number, so that equal policies are equal.
    fn add(&mut self, answerer: Answerer) -> Fallback {
        let known = self.0.iter().position(|known| *known == answerer);
        Fallback(
            known.unwrap_or_else(|| {
                self.0.push(answerer);
                self.0.len() - 1
            }) + 1,
        )
    }

    /// The answerer of the questions that a policy leaves open.
    pub fn get(&self, fallback: Fallback) -> Option<&Answerer> {
        self.0.get(fallback.0.checked_sub(1)?)
    }
}
