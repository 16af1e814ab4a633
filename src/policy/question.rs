//! Answers questions with wildcards: whether everything that matches gets one
//! verdict.

use std::collections::HashSet;

use super::decoder::Decoder;
use super::diagram::Bdd;
use super::inputs::{self, MAJOR, MAJOR_BITS, MINOR, MINOR_BITS, REQUEST, REQUEST_BITS, TYPE, Variable};
use super::types::Policy;
use crate::model::{Device, DeviceType, Request, RequestSet, Span, Verdict, Verdicts};

/// A device in which type and numbers may be left open, and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Character or block; `None` for both.
    pub kind: Option<DeviceType>,
    /// Major numbers.
    pub major: Span,
    /// Minor numbers.
    pub minor: Span,
    /// The requests asked about.
    pub requests: RequestSet,
}

impl Question {
    /// The one device, if nothing is left open.
    pub fn device(&self) -> Option<Device> {
        Some(Device { kind: self.kind?, major: self.major.single()?, minor: self.minor.single()? })
    }

    /// The variables that are fixed and to what, for each block of numbers.
    fn fixed(&self, request: Request) -> impl Iterator<Item = (u64, u64)> {
        let kind = self.kind;
        let blocks =
            self.major.blocks().flat_map(|major| self.minor.blocks().map(move |minor| (major, minor)));
        blocks.map(move |((major, major_open), (minor, minor_open))| {
            let device = Device { kind: kind.unwrap_or(DeviceType::Block), major, minor };
            let ones = |first: Variable, width: u32| ((1u64 << width) - 1) << first;
            // The first variable of a number is its most significant bit.
            let fixed = ones(REQUEST, REQUEST_BITS)
                | ones(TYPE, u32::from(kind.is_some()))
                | ones(MAJOR, MAJOR_BITS.saturating_sub(major_open))
                | ones(MINOR, MINOR_BITS.saturating_sub(minor_open));
            (fixed, inputs::assignment(device, request))
        })
    }
}

/// The verdicts of what matches a question.
#[derive(Clone, Copy, Default)]
struct Found {
    allow: bool,
    deny: bool,
    unknown: bool,
}

impl Found {
    fn add(self, other: Self) -> Self {
        Self {
            allow: self.allow || other.allow,
            deny: self.deny || other.deny,
            unknown: self.unknown || other.unknown,
        }
    }

    fn one(verdict: Verdict) -> Self {
        Self {
            allow: verdict == Verdict::Allow,
            deny: verdict == Verdict::Deny,
            unknown: verdict == Verdict::Unknown,
        }
    }
}

impl From<Found> for Verdicts {
    fn from(found: Found) -> Self {
        match (found.allow, found.deny, found.unknown) {
            (true, true, _) => Self::Mixed,
            (true, false, false) => Self::Allow,
            (false, true, false) => Self::Deny,
            _ => Self::Unknown,
        }
    }
}

impl Decoder {
    /// The verdict of everything that matches: mixed where something is allowed and
    /// something denied, unknown where something may be either.
    pub fn verdict_of_all(&self, policy: Policy, question: &Question) -> Verdicts {
        let of_request = |request| match question.device() {
            Some(device) => Found::one(self.verdict(policy, device, request)),
            None => question
                .fixed(request)
                .map(|fixed| self.found(policy, fixed))
                .fold(Found::default(), Found::add),
        };
        question.requests.iter().map(of_request).fold(Found::default(), Found::add).into()
    }

    /// The verdicts for the given values of the `fixed` variables.
    fn found(&self, policy: Policy, fixed: (u64, u64)) -> Found {
        if self.limit().is_over() {
            return Found::one(Verdict::Unknown);
        }
        let (allow, deny) =
            (self.constant_where(policy.allow, fixed), self.constant_where(policy.deny, fixed));
        Found {
            allow: allow != Some(false),
            deny: deny != Some(false),
            // Where both differ from device to device, both verdicts are there.
            unknown: allow != Some(true) && deny != Some(true),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MAX_MAJOR, MAX_MINOR};

    /// Make sure that a question about ranges has the verdict of every device in them.
    #[test]
    fn ranges() {
        let mut decoder = Decoder::new();
        let policy = decoder.policy_of_text("deny a *:* rwm\nallow c 195:1-5 rw").unwrap();
        let ask = |major, first, last| {
            let minor = Span { first, last };
            let requests = Request::ReadWrite.into();
            decoder.verdict_of_all(policy, &Question { kind: Some(DeviceType::Char), major, minor, requests })
        };
        let (gpus, all) = (Span::one(195), Span::up_to(MAX_MAJOR));
        for (first, last, expected) in [
            (1, 5, Verdicts::Allow),
            (2, 3, Verdicts::Allow),
            (0, 5, Verdicts::Mixed),
            (5, 6, Verdicts::Mixed),
            (6, MAX_MINOR, Verdicts::Deny),
            (0, 0, Verdicts::Deny),
        ] {
            assert_eq!(ask(gpus, first, last), expected, "{first}-{last}");
        }
        assert_eq!(ask(all, 1, 5), Verdicts::Mixed);
        assert_eq!(ask(Span { first: 0, last: 194 }, 1, 5), Verdicts::Deny);
    }

    /// Make sure that what may be either keeps an answer from being mixed or settled.
    #[test]
    fn unknown_parts() {
        let of = |allow, deny, unknown| Verdicts::from(Found { allow, deny, unknown });
        assert_eq!(of(true, false, true), Verdicts::Unknown);
        assert_eq!(of(false, true, true), Verdicts::Unknown);
        assert_eq!(of(true, true, true), Verdicts::Mixed);
        assert_eq!(of(false, false, false), Verdicts::Unknown);
    }
}
