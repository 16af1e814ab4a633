//! A rule: devices and requests that share a verdict.

use crate::model::{DeviceType, RequestSet, Verdict};

/// A set of numbers: a range, or within it those with certain bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Numbers {
    /// Smallest number.
    pub first: u32,
    /// Largest number.
    pub last: u32,
    /// If set, only numbers with these bits.
    pub mask: Option<Mask>,
}

/// Numbers `n` with `n & mask == value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mask {
    /// The bits that matter.
    pub mask: u32,
    /// Their values.
    pub value: u32,
}

/// Some devices and requests that share a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The verdict.
    pub verdict: Verdict,
    /// Character or block; `None` for both.
    pub kind: Option<DeviceType>,
    /// Major numbers.
    pub major: Numbers,
    /// Minor numbers.
    pub minor: Numbers,
    /// Which requests.
    pub requests: RequestSet,
}

impl Rule {
    /// The number of questions that the rule covers.
    pub(super) fn questions(&self) -> u64 {
        let count = |numbers: Numbers| match numbers.mask {
            None => u64::from(numbers.last - numbers.first) + 1,
            Some(mask) => (numbers.first..=numbers.last)
                .filter(|number| number & mask.mask == mask.value)
                .count() as u64,
        };
        let kinds = if self.kind.is_some() { 1 } else { 2 };
        kinds * count(self.major) * count(self.minor) * self.requests.iter().count() as u64
    }
}
