//! Writes policies as rules for people: a default and disjoint exceptions.
//!
//! Each request is written as boxes of device numbers, and equal boxes of different
//! requests then become one rule. This turns a policy back into the two sentences
//! that its author meant, such as "mknod of everything, and these devices".

use std::collections::BTreeMap;

use super::always_listed::{AlwaysListed, Answered};
use super::decoder::Decoder;
use super::diagram::{Bdd, Diagram, FunctionMap, Variable};
use super::inputs::{self, MAJOR, MAJOR_BITS, MINOR, MINOR_BITS, REQUEST, REQUEST_BITS, TYPE};
use super::types::Policy;
use crate::model::{Device, DeviceType, Mask, Numbers, Request, RequestSet, Rule, Verdict};

/// Most boxes written down for one request.
const MAX_BOXES: usize = 1 << 14;

/// Up to this many ranges, a list of ranges is clearer than masks and values.
const FEW: usize = 8;

/// A policy as rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleList {
    /// The verdict of everything no rule names.
    pub default: Verdict,
    /// Disjoint exceptions.
    pub rules: Vec<Rule>,
    /// Why verdicts are unknown, each with the rules concerned.
    pub unknown: Vec<Unsettled>,
    /// Those of `rules` that are not drawn.
    pub not_drawn: Vec<Rule>,
    /// If the policy has no short form and rules were left out: the number of
    /// (device, request) pairs whose verdict is not the default.
    pub omitted: Option<u64>,
}

/// Rules whose verdicts are unknown for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The reason.
    pub why: String,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Whether they are only not drawn: [`Decoder::verdict`] runs the programs on one
    /// question, and may know its answer.
    pub not_drawn: bool,
}

/// A region where two policies differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyDifference {
    /// Verdict of the first policy there.
    pub from: Verdict,
    /// Verdict of the second.
    pub to: Verdict,
    /// The region; its rules carry the second verdict.
    pub rules: Vec<Rule>,
    /// As in [`RuleList::omitted`].
    pub omitted: Option<u64>,
}

impl PolicyDifference {
    /// So many questions of which it is not known whether the answers differ.
    fn not_compared(questions: u64) -> Self {
        let (from, to) = (Verdict::Unknown, Verdict::Unknown);
        Self { from, to, rules: Vec::new(), omitted: Some(questions) }
    }
}

impl RuleList {
    /// Nothing but a default, which denies.
    pub(super) fn nothing() -> Self {
        let (rules, unknown, not_drawn) = (Vec::new(), Vec::new(), Vec::new());
        Self { default: Verdict::Deny, rules, unknown, not_drawn, omitted: None }
    }
}

/// A box of device numbers.
type DeviceBox = (Option<DeviceType>, Numbers, Numbers);

impl Decoder {
    /// The policy as a default and disjoint rules. What programs say of `c 0:0`
    /// is in them, although the kernel never asks.
    pub fn rules(&mut self, policy: Policy) -> RuleList {
        self.rules_with(policy, &AlwaysListed::NOTHING)
    }

    /// The rules of a policy. Even if it has no short form, the rules about devices
    /// in `always_listed` are there.
    pub fn rules_with(&mut self, policy: Policy, always_listed: &AlwaysListed) -> RuleList {
        if self.diagram.exhausted() {
            return self.no_rules();
        }
        let answered = self.with_answers(policy, always_listed);
        let mut list = self.written_down(&answered, always_listed);
        if answered.not_drawn != Bdd::FALSE {
            list.omitted = Some(list.omitted.unwrap_or(0) + self.questions(answered.not_drawn));
        }
        if self.diagram.exhausted() { self.no_rules() } else { list }
    }

    /// A placeholder for rules that cannot be computed.
    fn no_rules(&self) -> RuleList {
        let why = self.why_exhausted().to_owned();
        let unknown = vec![Unsettled { why, rules: Vec::new(), not_drawn: false }];
        RuleList { default: Verdict::Unknown, unknown, ..RuleList::nothing() }
    }

    /// The rules, provided that the diagram holds them all.
    fn written_down(&mut self, answered: &Answered, always_listed: &AlwaysListed) -> RuleList {
        let policy = answered.policy;
        let unknown = self.unknown(policy);
        let regions =
            [(Verdict::Deny, policy.deny), (Verdict::Allow, policy.allow), (Verdict::Unknown, unknown)];
        let default = self.most_common(&regions);
        let mut list = RuleList { default, ..RuleList::nothing() };
        let drawn = self.diagram.and(unknown, !answered.not_drawn);
        let regions =
            [(Verdict::Deny, policy.deny), (Verdict::Allow, policy.allow), (Verdict::Unknown, drawn)];
        for (verdict, region) in regions.into_iter().filter(|(verdict, _)| *verdict != default) {
            let (rules, omitted) = self.rules_of(region, verdict, always_listed);
            list.rules.extend(rules);
            list.omitted = list.omitted.into_iter().chain(omitted).reduce(|sum, count| sum + count);
        }
        if default != Verdict::Unknown {
            list.not_drawn = self.rules_of(answered.not_drawn, Verdict::Unknown, always_listed).0;
            list.rules.extend(&list.not_drawn);
        }
        list.rules.sort_by_key(order);
        self.say_why(&mut list, answered, always_listed);
        list
    }

    /// The rules of a region, and how many questions they leave out.
    fn rules_of(
        &mut self,
        region: Bdd,
        verdict: Verdict,
        always_listed: &AlwaysListed,
    ) -> (Vec<Rule>, Option<u64>) {
        match self.region_rules(region, verdict) {
            Ok(rules) => (rules, None),
            Err(count) => {
                let rules = self.always_listed_rules(region, verdict, always_listed);
                let shown: u64 = rules.iter().map(questions_of).sum();
                (rules, Some(count.saturating_sub(shown)))
            }
        }
    }

    /// Adds the reasons of what is unknown: what was asked one by one, then the rest.
    fn say_why(&mut self, list: &mut RuleList, answered: &Answered, always_listed: &AlwaysListed) {
        let asked = answered.open.clone().into_iter().map(|(region, why)| (region, why, false));
        let mut regions: Vec<(Bdd, String, bool)> = asked.collect();
        let open = self.open_regions(answered.policy);
        match answered.not_drawn {
            Bdd::FALSE => regions.extend(open.into_iter().map(|(region, why)| (region, why, false))),
            // The reasons share one list of rules, which may be long.
            not_drawn => {
                let why: Vec<String> = open.into_iter().map(|(_, why)| why).collect();
                regions.push((not_drawn, why.join("; "), true));
            }
        }
        for (region, why, not_drawn) in regions {
            let (rules, _) = self.rules_of(region, Verdict::Unknown, always_listed);
            list.unknown.push(Unsettled { why, rules, not_drawn });
        }
    }

    /// The differences between `a` and `b`.
    pub fn changes(&mut self, a: Policy, b: Policy) -> Vec<PolicyDifference> {
        self.changes_with(a, b, &AlwaysListed::NOTHING)
    }

    /// The differences between `a` and `b`. Even if they have no short form, those
    /// about devices in `always_listed` are there.
    pub fn changes_with(
        &mut self,
        a: Policy,
        b: Policy,
        always_listed: &AlwaysListed,
    ) -> Vec<PolicyDifference> {
        if a == b {
            return Vec::new();
        }
        let (a, b) = (self.with_answers(a, always_listed), self.with_answers(b, always_listed));
        let not_drawn = self.diagram.or(a.not_drawn, b.not_drawn);
        let (in_a, in_b) = (self.by_verdict(a.policy), self.by_verdict(b.policy));
        let mut changes = Vec::new();
        for (from, was) in in_a {
            for (to, is) in in_b {
                let region = self.diagram.and(was, is);
                let region = self.diagram.and(region, !not_drawn);
                if from == to || region == Bdd::FALSE {
                    continue;
                }
                let (rules, omitted) = self.rules_of(region, to, always_listed);
                changes.push(PolicyDifference { from, to, rules, omitted });
            }
        }
        if not_drawn != Bdd::FALSE {
            changes.push(PolicyDifference::not_compared(self.questions(not_drawn)));
        }
        // The differences that were found may be wrong and are not all.
        if self.diagram.exhausted() { vec![PolicyDifference::not_compared(0)] } else { changes }
    }

    /// The policy that `list` describes; used to check that nothing got lost.
    pub fn policy_of_rules(&mut self, list: &RuleList) -> Policy {
        let mut policy = match list.default {
            Verdict::Allow => self.policy_where(Bdd::TRUE, Bdd::FALSE),
            Verdict::Deny => self.policy_where(Bdd::FALSE, Bdd::TRUE),
            Verdict::Unknown => self.policy_where(Bdd::FALSE, Bdd::FALSE),
        };
        for rule in &list.rules {
            let region = self.region_of(rule);
            let (allow, deny) = match rule.verdict {
                Verdict::Allow => {
                    (self.diagram.or(policy.allow, region), self.diagram.and(policy.deny, !region))
                }
                Verdict::Deny => {
                    (self.diagram.and(policy.allow, !region), self.diagram.or(policy.deny, region))
                }
                Verdict::Unknown => {
                    (self.diagram.and(policy.allow, !region), self.diagram.and(policy.deny, !region))
                }
            };
            policy = self.policy_where(allow, deny);
        }
        policy
    }

    fn by_verdict(&mut self, policy: Policy) -> [(Verdict, Bdd); 3] {
        let unknown = self.unknown(policy);
        [(Verdict::Allow, policy.allow), (Verdict::Deny, policy.deny), (Verdict::Unknown, unknown)]
    }

    /// The verdict most devices get when opened for reading and writing.
    fn most_common(&self, regions: &[(Verdict, Bdd); 3]) -> Verdict {
        let bits = inputs::request_assignment(Request::ReadWrite);
        let opens = |leaf| self.diagram.evaluate(leaf, bits) == Some(true);
        let weight = |region| count(&self.diagram, region, &opens);
        let mut best = (Verdict::Deny, 0);
        for (verdict, region) in regions {
            let weight = weight(*region);
            if weight > best.1 {
                best = (*verdict, weight);
            }
        }
        best.0
    }

    /// The rules of a region; the number of questions in it if it has no short
    /// form.
    pub(super) fn region_rules(&mut self, region: Bdd, verdict: Verdict) -> Result<Vec<Rule>, u64> {
        let mut requests: BTreeMap<DeviceBox, RequestSet> = BTreeMap::new();
        for request in Request::ALL {
            self.stop_in_time();
            let function = self.with_request(region, request);
            let Some(boxes) = boxes(&self.diagram, function) else { return Err(self.questions(region)) };
            for numbers in boxes {
                let set = requests.entry(numbers).or_default();
                *set = set.with(request);
            }
        }
        let rule = |((kind, major, minor), requests)| Rule { verdict, kind, major, minor, requests };
        let mut rules: Vec<Rule> = requests.into_iter().map(rule).collect();
        join_types(&mut rules);
        rules.sort_by_key(order);
        Ok(rules)
    }

    /// `region` for one request, as a function of type and numbers alone.
    fn with_request(&mut self, region: Bdd, request: Request) -> Bdd {
        let bits = inputs::request_assignment(request);
        fix_bits(&mut self.diagram, region, bits, &mut FunctionMap::default())
    }

    /// Gives the diagram up if the time is over, so that what is made of it is thrown
    /// away.
    fn stop_in_time(&mut self) {
        if self.limit().is_over() {
            self.diagram.give_up();
        }
    }

    fn questions(&mut self, region: Bdd) -> u64 {
        Request::ALL
            .into_iter()
            .map(|request| {
                let function = self.with_request(region, request);
                count(&self.diagram, function, &|leaf| leaf == Bdd::TRUE)
            })
            .sum()
    }

    /// The questions a rule is about.
    pub(super) fn region_of(&mut self, rule: &Rule) -> Bdd {
        let requests = rule.requests.iter().fold(Bdd::FALSE, |sum, request| {
            let cube = cube(&mut self.diagram, REQUEST, REQUEST_BITS, u32::MAX, request.bits(), Bdd::TRUE);
            self.diagram.or(sum, cube)
        });
        let minor = numbers_region(&mut self.diagram, MINOR, MINOR_BITS, rule.minor);
        let major = numbers_region(&mut self.diagram, MAJOR, MAJOR_BITS, rule.major);
        let kind = match rule.kind {
            None => Bdd::TRUE,
            Some(DeviceType::Char) => self.diagram.variable(TYPE),
            Some(DeviceType::Block) => !self.diagram.variable(TYPE),
        };
        [minor, major, kind].into_iter().fold(requests, |region, part| self.diagram.and(region, part))
    }
}

/// Place in a list: characters first, then by number.
fn order(rule: &Rule) -> (u8, Numbers, Numbers, Verdict) {
    let kind = match rule.kind {
        Some(DeviceType::Char) => 0,
        Some(DeviceType::Block) => 1,
        None => 2,
    };
    (kind, rule.major, rule.minor, rule.verdict)
}

/// Rules that differ only in the type become one for both.
fn join_types(rules: &mut Vec<Rule>) {
    let blocks: Vec<Rule> =
        rules.iter().filter(|rule| rule.kind == Some(DeviceType::Block)).copied().collect();
    for block in blocks {
        let character = Rule { kind: Some(DeviceType::Char), ..block };
        if let Some(place) = rules.iter().position(|rule| *rule == character) {
            rules[place].kind = None;
            rules.retain(|rule| *rule != block);
        }
    }
}

/// `function` with the request bits set as in `bits`.
fn fix_bits(diagram: &mut Diagram, function: Bdd, bits: u64, done: &mut FunctionMap<Bdd>) -> Bdd {
    match diagram.top(function) {
        None => function,
        Some(REQUEST..) => Bdd::constant(diagram.evaluate(function, bits) == Some(true)),
        Some(variable) => {
            if let Some(known) = done.get(&function) {
                return *known;
            }
            let (low, high) = diagram.cofactors(function, variable);
            let (low, high) = (fix_bits(diagram, low, bits, done), fix_bits(diagram, high, bits, done));
            let fixed = diagram.node(variable, low, high);
            done.insert(function, fixed);
            fixed
        }
    }
}

/// Number of (type, major, minor) for which `function` ends in a leaf that
/// `counts`.
fn count(diagram: &Diagram, function: Bdd, counts: &dyn Fn(Bdd) -> bool) -> u64 {
    fn below(diagram: &Diagram, at: Bdd, counts: &dyn Fn(Bdd) -> bool, done: &mut FunctionMap<u64>) -> u64 {
        let variable = diagram.top(at).map_or(REQUEST, |variable| variable.min(REQUEST));
        if variable == REQUEST {
            return u64::from(counts(at));
        }
        if let Some(known) = done.get(&at) {
            return *known;
        }
        let (low, high) = diagram.cofactors(at, variable);
        let sum = [low, high]
            .map(|side| below(diagram, side, counts, done) << (level(diagram, side) - variable - 1))
            .iter()
            .sum();
        done.insert(at, sum);
        sum
    }
    below(diagram, function, counts, &mut FunctionMap::default()) << (level(diagram, function) - TYPE)
}

fn level(diagram: &Diagram, function: Bdd) -> Variable {
    diagram.top(function).map_or(REQUEST, |variable| variable.min(REQUEST))
}

/// The boxes where `function` of type and numbers holds; `None` if there are
/// too many in every form.
fn boxes(diagram: &Diagram, function: Bdd) -> Option<Vec<DeviceBox>> {
    let ranges = range_boxes(diagram, function);
    if ranges.as_ref().is_some_and(|ranges| ranges.len() <= FEW) {
        return ranges;
    }
    let masks = mask_boxes(diagram, function);
    match (ranges, masks) {
        (Some(ranges), Some(masks)) if masks.len() * 4 <= ranges.len() => Some(masks),
        (Some(ranges), _) => Some(ranges),
        (None, masks) => masks,
    }
}

fn range_boxes(diagram: &Diagram, function: Bdd) -> Option<Vec<DeviceBox>> {
    let (block, character) = diagram.cofactors(function, TYPE);
    let types = if block == character {
        vec![(None, block)]
    } else {
        vec![(Some(DeviceType::Block), block), (Some(DeviceType::Char), character)]
    };
    let mut boxes = Vec::new();
    for (kind, majors) in types {
        for (major, minors) in ranges(diagram, majors, MAJOR, MAJOR_BITS)? {
            for (minor, _) in ranges(diagram, minors, MINOR, MINOR_BITS)? {
                boxes.push((kind, major, minor));
                if boxes.len() > MAX_BOXES {
                    return None;
                }
            }
        }
    }
    Some(boxes)
}

/// The longest ranges of a number over which the rest of `function` stays the
/// same and is not false.
fn ranges(diagram: &Diagram, function: Bdd, first: Variable, width: u32) -> Option<Vec<(Numbers, Bdd)>> {
    let mut found: Vec<(Numbers, Bdd)> = Vec::new();
    let mut stack = vec![(function, first, 0u32)];
    while let Some((at, variable, prefix)) = stack.pop() {
        if at == Bdd::FALSE {
            continue;
        }
        if level(diagram, at) < first + width {
            let (low, high) = diagram.cofactors(at, variable);
            let bit = 1 << (first + width - 1 - variable);
            stack.push((high, variable + 1, prefix | bit));
            stack.push((low, variable + 1, prefix));
            continue;
        }
        let size = 1u32 << (first + width - variable);
        let numbers = Numbers { first: prefix, last: prefix + (size - 1), mask: None };
        match found.last_mut() {
            Some((last, rest)) if *rest == at && last.last + 1 == numbers.first => last.last = numbers.last,
            _ => found.push((numbers, at)),
        }
        if found.len() > MAX_BOXES {
            return None;
        }
    }
    Some(found)
}

/// One box for every way through the diagram.
fn mask_boxes(diagram: &Diagram, function: Bdd) -> Option<Vec<DeviceBox>> {
    let mut boxes = Vec::new();
    // The variables fixed so far and their values, as assignments.
    let mut stack = vec![(function, 0u64, 0u64)];
    while let Some((at, fixed, value)) = stack.pop() {
        let Some(variable) = diagram.top(at) else {
            if at == Bdd::TRUE {
                boxes.push(box_of(fixed, value));
            }
            if boxes.len() > MAX_BOXES {
                return None;
            }
            continue;
        };
        let (low, high) = diagram.cofactors(at, variable);
        let bit = 1 << variable;
        stack.push((high, fixed | bit, value | bit));
        stack.push((low, fixed | bit, value));
    }
    Some(boxes)
}

fn box_of(fixed: u64, value: u64) -> DeviceBox {
    let kind = match (fixed >> TYPE & 1, value >> TYPE & 1) {
        (0, _) => None,
        (_, 0) => Some(DeviceType::Block),
        _ => Some(DeviceType::Char),
    };
    let numbers = |first: Variable, width: u32| {
        let number = |bits: u64| ((bits >> first) as u32).reverse_bits() >> (u32::BITS - width);
        Numbers::masked(number(fixed), number(value), (1 << width) - 1)
    };
    (kind, numbers(MAJOR, MAJOR_BITS), numbers(MINOR, MINOR_BITS))
}

/// The questions for which the number in `width` variables from `first` has the bits
/// of `value` under `mask`, and `rest` holds.
fn cube(diagram: &mut Diagram, first: Variable, width: u32, mask: u32, value: u32, rest: Bdd) -> Bdd {
    (0..width).fold(rest, |below, place| {
        let variable = first + width - 1 - place;
        match (mask >> place & 1, value >> place & 1) {
            (0, _) => below,
            (_, 1) => diagram.node(variable, Bdd::FALSE, below),
            _ => diagram.node(variable, below, Bdd::FALSE),
        }
    })
}

fn numbers_region(diagram: &mut Diagram, first: Variable, width: u32, numbers: Numbers) -> Bdd {
    if let Some(Mask { mask, value }) = numbers.mask {
        return cube(diagram, first, width, mask, value, Bdd::TRUE);
    }
    // From the least significant bit up: at least `first`, at most `last`.
    let mut at_least = Bdd::TRUE;
    let mut at_most = Bdd::TRUE;
    for place in 0..width {
        let variable = first + width - 1 - place;
        at_least = match numbers.first >> place & 1 {
            1 => diagram.node(variable, Bdd::FALSE, at_least),
            _ => diagram.node(variable, at_least, Bdd::TRUE),
        };
        at_most = match numbers.last >> place & 1 {
            1 => diagram.node(variable, Bdd::TRUE, at_most),
            _ => diagram.node(variable, at_most, Bdd::FALSE),
        };
    }
    diagram.and(at_least, at_most)
}

/// The first device that a rule covers.
pub(super) fn first_device(rule: &Rule) -> Device {
    let first = |numbers: Numbers| numbers.mask.map_or(numbers.first, |mask| numbers.first | mask.value);
    let kind = rule.kind.unwrap_or(DeviceType::Char);
    Device { kind, major: first(rule.major), minor: first(rule.minor) }
}

/// The number of questions that a rule covers.
pub(super) fn questions_of(rule: &Rule) -> u64 {
    let count = |numbers: Numbers| match numbers.mask {
        None => u64::from(numbers.last - numbers.first) + 1,
        Some(mask) => {
            (numbers.first..=numbers.last).filter(|number| number & mask.mask == mask.value).count() as u64
        }
    };
    let kinds = if rule.kind.is_some() { 1 } else { 2 };
    kinds * count(rule.major) * count(rule.minor) * rule.requests.iter().count() as u64
}
