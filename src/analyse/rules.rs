//! Turns policies and rules of the decoder into those of the report.

use std::collections::BTreeMap;

use crate::gpu::Labels;
use crate::model::{Device, DeviceType, Rule, Verdict};
use crate::observation::GpuFacts;
use crate::policy::{self, AlwaysListed, Decoder, Unsettled};
use crate::report::{ListedRule, Omitted, Policy, Unknown};

/// The policies of an answer by id.
#[derive(Debug)]
pub(super) struct PolicyTable {
    ids: BTreeMap<policy::Policy, String>,
    /// The drivers of majors that the kernel assigns anew on each boot.
    majors: BTreeMap<u32, Vec<String>>,
    /// The devices whose rules are never left out.
    always_listed: AlwaysListed,
    /// The policies of the answer.
    pub(super) policies: BTreeMap<String, Policy>,
}

/// Majors of character devices that the kernel assigns as drivers ask for them
/// (`CHRDEV_MAJOR_DYN_END` and its neighbours in `linux/fs.h`).
const DYNAMIC: [std::ops::RangeInclusive<u32>; 2] = [234..=254, 384..=511];

impl PolicyTable {
    /// An empty table that knows the majors of this node.
    pub(super) fn new(facts: &GpuFacts) -> Self {
        let majors = dynamic_majors(facts);
        let always_listed = listed_of(facts, &majors);
        Self { ids: BTreeMap::new(), majors, always_listed, policies: BTreeMap::new() }
    }

    /// The id of a policy, which is in the table from then on.
    pub(super) fn add(&mut self, policy: policy::Policy, decoder: &mut Decoder) -> String {
        if let Some(id) = self.ids.get(&policy) {
            return id.clone();
        }
        let mut id = decoder.id(policy);
        // Two policies that are not one have two places, whatever their ids.
        while self.policies.contains_key(&id) {
            id.push('+');
        }
        let mut policy_report = report(&id, policy, decoder, &self.always_listed);
        policy_report.rules.iter_mut().for_each(|rule| rule.names = self.names(&rule.rule));
        self.policies.insert(id.clone(), policy_report);
        self.ids.insert(policy, id.clone());
        id
    }

    /// The drivers of the one major that a rule names.
    fn names(&self, rule: &Rule) -> Vec<String> {
        let major = rule.major.single().filter(|_| rule.kind == Some(DeviceType::Char));
        major.and_then(|major| self.majors.get(&major)).cloned().unwrap_or_default()
    }
}

/// The devices of a node whose rules are never left out.
pub(super) fn always_listed(facts: &GpuFacts) -> AlwaysListed {
    listed_of(facts, &dynamic_majors(facts))
}

fn listed_of(facts: &GpuFacts, majors: &BTreeMap<u32, Vec<String>>) -> AlwaysListed {
    let is_of_gpu = |name: &String| ["nvidia", "kfd", "drm"].iter().any(|start| name.starts_with(start));
    let of_gpus = majors.iter().filter(|(_, names)| names.iter().any(is_of_gpu)).map(|(major, _)| *major);
    let nodes =
        facts.nodes.iter().map(|node| Device { kind: node.kind, major: node.major, minor: node.minor });
    AlwaysListed::new(of_gpus, nodes)
}

/// The drivers of majors that the kernel assigns anew on each boot.
fn dynamic_majors(facts: &GpuFacts) -> BTreeMap<u32, Vec<String>> {
    let labels = Labels::new(facts);
    let names = |major| (major, labels.driver_names(DeviceType::Char, major));
    DYNAMIC.into_iter().flatten().map(names).filter(|(_, names)| !names.is_empty()).collect()
}

fn report(id: &str, policy: policy::Policy, decoder: &mut Decoder, always_listed: &AlwaysListed) -> Policy {
    let list = decoder.rules_with(policy, always_listed);
    let listed =
        |rule: &Rule| ListedRule { not_drawn: list.not_drawn.contains(rule), ..ListedRule::from(*rule) };
    Policy {
        id: id.to_owned(),
        default: list.default,
        exact: list.omitted.is_none() && decoder.is_known(policy),
        not_drawn: list.default == Verdict::Unknown && list.unknown.iter().any(|open| open.not_drawn),
        rules: list.rules.iter().map(listed).collect(),
        unknown: list.unknown.into_iter().map(unknown).collect(),
        omitted: list.omitted.map(|questions| Omitted { questions }),
    }
}

fn unknown(open: Unsettled) -> Unknown {
    let rules = open.rules.iter().map(ToString::to_string).collect();
    Unknown { rules, why: open.why, not_drawn: open.not_drawn }
}
