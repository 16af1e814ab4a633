//! Rules as a reader of JSON takes them.

use gpumap::model::{Device, DeviceType, Numbers, Request, RequestSet, Rule, RuleType, Verdict};
use gpumap::report::Policy;

/// What the rules say; `None` where they leave it to `check`, which they never do for
/// the usual numbers of GPUs.
pub(super) fn verdict(policy: &Policy, device: Device, request: Request) -> Option<Verdict> {
    let is_listed = device.kind == DeviceType::Char && device.major == 195 && device.minor < 16;
    match policy.rules.iter().find(|listed| covers(&listed.rule, device, request)) {
        Some(rule) => (is_listed || !rule.not_drawn).then_some(rule.rule.verdict),
        None => (is_listed || policy.omitted.is_none()).then_some(policy.default),
    }
}

pub(super) fn covers(rule: &Rule, device: Device, request: Request) -> bool {
    let within = |Numbers { first, last, mask }, value: u32| {
        (first..=last).contains(&value) && mask.is_none_or(|mask| value & mask.mask == mask.value)
    };
    let kind = RuleType::from(Some(device.kind));
    [kind, RuleType::Any].contains(&rule.kind.into())
        && within(rule.major, device.major)
        && within(rule.minor, device.minor)
        && requests(&rule.requests.to_string()).contains(request)
}

/// The requests that are spelled so.
pub(super) fn requests(spelled: &str) -> RequestSet {
    let all = (0..1 << Request::ALL.len()).map(|bits: u32| {
        let is_in = move |(place, _): &(usize, Request)| bits >> place & 1 == 1;
        Request::ALL.into_iter().enumerate().filter(is_in).map(|(_, one)| one)
    });
    let mut sets = all.map(Iterator::collect::<RequestSet>);
    sets.find(|set| set.to_string() == spelled).expect("requests as gpumap spells them")
}
