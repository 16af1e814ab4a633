//! Answers to single questions where a policy as a whole is too complex: the
//! programs run on that question alone.
//!
//! The machine is the same, with the 36 bits of the question as constants, so
//! there is one semantics. What the programs may write was settled for all
//! questions before: an earlier question may have written it.

use crate::observation::{Map, Program, with_inner};

use super::decoder::{Combination, Context, Decoder, Policy};
use super::written::Written;
use crate::model::Verdict;

/// Number of what answers the questions that a policy leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rest(usize);

impl Rest {
    /// Nothing: open questions stay open.
    pub const NONE: Self = Self(0);
}

/// What answers open questions, of all policies of a decoder.
#[derive(Debug, Default)]
pub struct Rests(Vec<Answerer>);

#[derive(Debug, PartialEq)]
enum Answerer {
    Programs(Stack),
    /// All of these must allow.
    All(Vec<Policy>),
}

/// Programs with all that they read.
#[derive(Debug, PartialEq)]
struct Stack {
    programs: Vec<Program>,
    maps: Vec<Map>,
    cgroup_id: Option<u64>,
    combination: Combination,
    written: Written,
}

impl Rests {
    /// Programs that are run for each open question.
    pub fn programs(&mut self, programs: &[&Program], context: &Context<'_>, written: Written) -> Rest {
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
    pub fn all(&mut self, policies: &[Policy]) -> Rest {
        if policies.iter().all(|policy| policy.rest == Rest::NONE) {
            return Rest::NONE;
        }
        self.add(Answerer::All(policies.to_vec()))
    }

    /// The same answers have the same number, so that equal policies are equal.
    fn add(&mut self, answerer: Answerer) -> Rest {
        let known = self.0.iter().position(|known| *known == answerer);
        Rest(
            known.unwrap_or_else(|| {
                self.0.push(answerer);
                self.0.len() - 1
            }) + 1,
        )
    }

    /// The answer to a question that a policy leaves open, and why there is
    /// none.
    pub fn ask(&self, decoder: &Decoder, rest: Rest, bits: u64) -> (Verdict, Option<String>) {
        match rest.0.checked_sub(1).and_then(|place| self.0.get(place)) {
            None => (Verdict::Unknown, None),
            Some(Answerer::Programs(stack)) => {
                let programs: Vec<&Program> = stack.programs.iter().collect();
                let context =
                    Context { maps: &stack.maps, cgroup_id: stack.cgroup_id, combination: stack.combination };
                Decoder::ask(&programs, &context, &stack.written, bits)
            }
            Some(Answerer::All(policies)) => {
                let mut open = None;
                for policy in policies {
                    match decoder.verdict_of(*policy, bits) {
                        Verdict::Allow => {}
                        Verdict::Deny => return (Verdict::Deny, None),
                        Verdict::Unknown => open = Some(*policy),
                    }
                }
                match open {
                    None => (Verdict::Allow, None),
                    Some(policy) => (Verdict::Unknown, Some(decoder.why_unknown(policy, bits).join("; "))),
                }
            }
        }
    }
}
