//! Answers questions with wildcards: whether everything that matches gets one
//! verdict.

use std::collections::HashSet;

use super::decoder::Decoder;
use super::diagram::Bdd;
use super::inputs::{self, MAJOR, MAJOR_BITS, MINOR, MINOR_BITS, REQUEST, REQUEST_BITS, TYPE, Variable};
use super::types::Policy;
use crate::model::{Device, DeviceType, Request, RequestSet, Verdict};

/// A device in which type and numbers may be left open, and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Character or block; `None` for both.
    pub kind: Option<DeviceType>,
    /// Major number; `None` for all.
    pub major: Option<u32>,
    /// Minor number; `None` for all.
    pub minor: Option<u32>,
    /// The requests asked about.
    pub requests: RequestSet,
}

impl Question {
    /// The one device, if nothing is left open.
    pub fn device(&self) -> Option<Device> {
        Some(Device { kind: self.kind?, major: self.major?, minor: self.minor? })
    }

    /// The variables that are fixed, and to what.
    fn fixed(&self, request: Request) -> (u64, u64) {
        let device = Device {
            kind: self.kind.unwrap_or(DeviceType::Block),
            major: self.major.unwrap_or(0),
            minor: self.minor.unwrap_or(0),
        };
        let ones = |first: Variable, width: u32| ((1u64 << width) - 1) << first;
        let fixed = [
            (true, ones(REQUEST, REQUEST_BITS)),
            (self.kind.is_some(), ones(TYPE, 1)),
            (self.major.is_some(), ones(MAJOR, MAJOR_BITS)),
            (self.minor.is_some(), ones(MINOR, MINOR_BITS)),
        ];
        let fixed = fixed.into_iter().filter(|(is_fixed, _)| *is_fixed).fold(0, |sum, (_, bits)| sum | bits);
        (fixed, inputs::assignment(device, request))
    }
}

impl Decoder {
    /// The one verdict of everything that matches; `None` if there are
    /// several.
    pub fn verdict_of_all(&self, policy: Policy, question: &Question) -> Option<Verdict> {
        let mut verdicts = question.requests.iter().map(|request| match question.device() {
            Some(device) => Some(self.verdict(policy, device, request)),
            None => self.uniform(policy, question.fixed(request)),
        });
        let first = verdicts.next()??;
        verdicts.all(|verdict| verdict == Some(first)).then_some(first)
    }

    fn uniform(&self, policy: Policy, fixed: (u64, u64)) -> Option<Verdict> {
        if self.limit().is_over() {
            return Some(Verdict::Unknown);
        }
        match (self.constant_where(policy.allow, fixed)?, self.constant_where(policy.deny, fixed)?) {
            (true, _) => Some(Verdict::Allow),
            (_, true) => Some(Verdict::Deny),
            (false, false) => Some(Verdict::Unknown),
        }
    }

    /// The function's value for the given values of the `fixed` variables, if it is
    /// the same for all values of the others.
    fn constant_where(&self, function: Bdd, (fixed, values): (u64, u64)) -> Option<bool> {
        let (mut seen, mut stack, mut found) = (HashSet::new(), vec![function], None);
        while let Some(at) = stack.pop() {
            if !seen.insert(at) {
                continue;
            }
            let Some(variable) = self.diagram.top(at) else {
                let value = at.as_constant();
                if found.is_some() && found != value {
                    return None;
                }
                found = value;
                continue;
            };
            let (low, high) = self.diagram.cofactors(at, variable);
            match (fixed >> variable & 1, values >> variable & 1) {
                (0, _) => stack.extend([low, high]),
                (_, 0) => stack.push(low),
                _ => stack.push(high),
            }
        }
        found
    }
}
