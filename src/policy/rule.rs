//! What the decoder asks of a rule.

use crate::model::{Device, DeviceType, Numbers, Rule};

/// The first device that a rule covers.
pub(super) fn first_device(rule: &Rule) -> Device {
    let first = |numbers: Numbers| numbers.mask.map_or(numbers.first, |mask| numbers.first | mask.value);
    let kind = rule.kind.unwrap_or(DeviceType::Char);
    Device { kind, major: first(rule.major), minor: first(rule.minor) }
}

/// The number of questions that a rule covers.
pub(super) fn questions(rule: &Rule) -> u64 {
    let count = |numbers: Numbers| match numbers.mask {
        None => u64::from(numbers.last - numbers.first) + 1,
        Some(mask) => {
            (numbers.first..=numbers.last).filter(|number| number & mask.mask == mask.value).count() as u64
        }
    };
    let kinds = if rule.kind.is_some() { 1 } else { 2 };
    kinds * count(rule.major) * count(rule.minor) * rule.requests.iter().count() as u64
}
