//! What one policy allows beside another, and policies with some requests added
//! or taken away.

use super::decoder::Decoder;
use super::diagram::Bdd;
use super::types::Policy;
use crate::model::Rule;

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

#[cfg(test)]
mod tests {
    use super::*;

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
