//! Answers single questions where a policy as a whole is too complex: it runs the
//! programs on that question alone.
//!
//! The machine is the same, with the 36 bits of the question as constants, so there
//! is one semantics. What the programs may write was found for all questions
//! before, because an earlier question may have caused the write.

use crate::observation::{Map, Program, with_inner};

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
#[derive(Debug, PartialEq)]
pub struct Stack {
    /// The programs in run order.
    pub programs: Vec<Program>,
    /// Their maps.
    pub maps: Vec<Map>,
    /// The cgroup asked about.
    pub cgroup_id: Option<u64>,
    /// How the kernel combines the programs.
    pub combination: Combination,
    /// What the programs may have written before the question.
    pub written: Written,
}

impl Fallbacks {
    /// Programs that are run for each open question.
    pub fn programs(&mut self, programs: &[&Program], context: &Context<'_>, written: Written) -> Fallback {
        let ids = programs.iter().flat_map(|program| program.map_ids.iter().copied());
        let ids = with_inner(ids, |id| context.maps.iter().find(|map| map.id == id));
        let used = |map: &&Map| ids.contains(&map.id);
        self.add(Answerer::Programs(Stack {
            programs: programs.iter().copied().cloned().collect(),
            maps: context.maps.iter().filter(used).cloned().collect(),
            cgroup_id: context.cgroup_id,
            combination: context.combination,
            written,
        }))
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
