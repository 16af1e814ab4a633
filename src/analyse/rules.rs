//! Policies and rules in the words of `gpumap/1`.

use std::collections::BTreeMap;

use crate::policy::device::DeviceType;
use crate::policy::{self, Decoder, Numbers};
use crate::report::{Mask, Omitted, Policy, Rule, Unknown};

/// The policies of an answer by id.
#[derive(Debug, Default)]
pub(super) struct Table {
    ids: BTreeMap<policy::Policy, String>,
    /// What goes into the answer.
    pub(super) policies: BTreeMap<String, Policy>,
}

impl Table {
    /// The id of a policy, which is in the table from then on.
    pub(super) fn add(&mut self, policy: policy::Policy, decoder: &mut Decoder) -> String {
        if let Some(id) = self.ids.get(&policy) {
            return id.clone();
        }
        let id = decoder.id(policy);
        self.policies.insert(id.clone(), report(&id, policy, decoder));
        self.ids.insert(policy, id.clone());
        id
    }
}

fn report(id: &str, policy: policy::Policy, decoder: &mut Decoder) -> Policy {
    let list = decoder.rules(policy);
    Policy {
        id: id.to_owned(),
        default: list.default.to_string(),
        exact: list.omitted.is_none() && decoder.is_known(policy),
        rules: list.rules.iter().map(rule).collect(),
        unknown: list.unknown.into_iter().map(unknown).collect(),
        omitted: list.omitted.map(|questions| Omitted { questions }),
    }
}

fn unknown((why, rules): (String, Vec<policy::Rule>)) -> Unknown {
    Unknown { rules: rules.iter().map(ToString::to_string).collect(), why }
}

/// A rule.
pub(super) fn rule(rule: &policy::Rule) -> Rule {
    let kind = match rule.kind {
        None => "any",
        Some(DeviceType::Char) => "char",
        Some(DeviceType::Block) => "block",
    };
    let mask = |numbers: Numbers| numbers.mask.map(|mask| Mask { mask: mask.mask, value: mask.value });
    Rule {
        verdict: rule.verdict.to_string(),
        kind: kind.to_owned(),
        major: [rule.major.first, rule.major.last],
        minor: [rule.minor.first, rule.minor.last],
        requests: rule.requests.to_string(),
        major_mask: mask(rule.major),
        minor_mask: mask(rule.minor),
    }
}
