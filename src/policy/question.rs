//! Questions about whole policies: whether everything that matches a question with
//! wildcards gets one verdict, what one policy allows beside another, policies with some
//! requests added or taken away, and a name that equal policies share.

use sha2::{Digest as _, Sha256};

use super::decoder::Decoder;
use super::diagram::{Bdd, Diagram, FunctionMap, FunctionSet};
use super::inputs::{self, MAJOR, MAJOR_BITS, MINOR, MINOR_BITS, REQUEST, REQUEST_BITS, TYPE, Variable};
use super::types::Policy;
use crate::model::{Device, DeviceType, Request, RequestSet, Rule, Span, Verdict, Verdicts};

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
        let (mut seen, mut stack, mut found) = (FunctionSet::default(), vec![function], None);
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

impl Decoder {
    /// A policy that allows what `wanted` allows and `now` denies, both for
    /// certain, and denies all else.
    pub fn missing(&mut self, now: Policy, wanted: Policy) -> Policy {
        let missing = self.diagram.and(wanted.allow, now.deny);
        self.policy_where(missing, !missing)
    }

    /// A policy that allows what these rules name, whatever their verdicts, and
    /// denies all else.
    pub fn naming(&mut self, rules: &[Rule]) -> Policy {
        let named = rules.iter().fold(Bdd::FALSE, |sum, rule| {
            let region = self.region_of(rule);
            self.diagram.or(sum, region)
        });
        self.policy_where(named, !named)
    }

    /// `policy`, and what `more` allows is allowed too.
    pub fn widened(&mut self, policy: Policy, more: Policy) -> Policy {
        let allow = self.diagram.or(policy.allow, more.allow);
        let deny = self.diagram.and(policy.deny, !more.allow);
        self.policy_where(allow, deny)
    }

    /// `policy`, and what `less` allows is denied.
    pub fn narrowed(&mut self, policy: Policy, less: Policy) -> Policy {
        let allow = self.diagram.and(policy.allow, !less.allow);
        let deny = self.diagram.or(policy.deny, less.allow);
        self.policy_where(allow, deny)
    }

    /// Whether nothing is allowed for certain.
    pub fn allows_nothing(&self, policy: Policy) -> bool {
        policy.allow == Bdd::FALSE
    }

    /// Whether all that `policy` allows is allowed by `other`.
    pub fn allows_no_more(&mut self, policy: Policy, other: Policy) -> bool {
        self.diagram.and(policy.allow, !other.allow) == Bdd::FALSE && !self.diagram.exhausted()
    }
}

/// How the id of a policy begins of which not every verdict is known.
pub const INEXACT: &str = "inexact-";

impl Decoder {
    /// The name of a policy, the same in every run of every gpumap that numbers the
    /// question's bits alike. That of an exact policy is a hash of everything that it
    /// says: equal ids are equal verdicts, and other ids are others. That of a policy
    /// which is not exact begins with `inexact-` and is a hash of what it was made of:
    /// equal ids are equal verdicts.
    pub fn id(&mut self, policy: Policy) -> String {
        if let Some(digest) = self.origins.digest(policy.origin) {
            return format!("{INEXACT}{}", digits(digest));
        }
        let drawing = self.drawing(policy);
        if self.is_known(policy) { drawing } else { format!("{INEXACT}{drawing}") }
    }

    /// A hash of what is drawn of a policy.
    fn drawing(&self, policy: Policy) -> String {
        let mut hasher = Sha256::new();
        let mut numbers = FunctionMap::default();
        for function in [policy.allow, policy.deny] {
            let number = number(&self.diagram, function, &mut numbers, &mut hasher);
            hasher.update(number.to_le_bytes());
        }
        digits(&hasher.finalize())
    }
}

/// All of a digest: what is compared by its id could be made to collide with fewer digits.
fn digits(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The number of a function in order of first visit; each is hashed once, by
/// its variable and the numbers of its two sides.
fn number(diagram: &Diagram, function: Bdd, numbers: &mut FunctionMap<u32>, hasher: &mut Sha256) -> u32 {
    if let Some(value) = function.as_constant() {
        return value.into();
    }
    if let Some(known) = numbers.get(&function) {
        return *known;
    }
    let Some(variable) = diagram.top(function) else { return 0 };
    let (low, high) = diagram.cofactors(function, variable);
    let (low, high) = (number(diagram, low, numbers, hasher), number(diagram, high, numbers, hasher));
    for part in [variable, low, high] {
        hasher.update(part.to_le_bytes());
    }
    let number = numbers.len() as u32 + 2;
    numbers.insert(function, number);
    number
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

    /// Make sure that what is missing, added, makes the policy that was wanted.
    #[test]
    fn missing_requests_are_the_difference() {
        let decoder = &mut Decoder::new();
        let wanted = decoder.policy_of_text("deny a *:* rwm\nallow c 195:0-2 rw\nallow c *:* m").unwrap();
        let now = decoder.policy_of_text("deny a *:* rwm\nallow c 195:1 rw\nallow b *:* m").unwrap();
        let missing = decoder.missing(now, wanted);
        let both = decoder.widened(now, wanted);
        assert_eq!(decoder.widened(now, missing), both);
        assert_eq!(decoder.narrowed(both, missing), now);
        assert!(decoder.allows_no_more(missing, wanted) && !decoder.allows_no_more(wanted, missing));
        let nothing = decoder.missing(wanted, wanted);
        assert!(decoder.allows_nothing(nothing) && !decoder.allows_nothing(missing));
        let rules = decoder.rules(missing).rules;
        assert_eq!(decoder.naming(&rules), missing);
    }
}
