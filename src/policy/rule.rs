//! A rule: devices and requests that share a verdict.

use crate::model::{Device, DeviceType, Request, RequestSet, Verdict};

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
    /// What denying these requests leaves open of the same devices, as a sentence: the
    /// kernel asks for r, w and rw one by one. `is_open` says of one of them whether
    /// nothing else denies it. `None` if nothing is left, or reading and writing are not
    /// denied at all.
    pub fn left_open(&self, is_open: impl Fn(Request) -> bool) -> Option<String> {
        let opens = [Request::Read, Request::Write, Request::ReadWrite];
        let denies_a_part = opens.iter().any(|request| self.requests.contains(*request));
        let left = opens.into_iter().filter(|request| !self.requests.contains(*request) && is_open(*request));
        let left: Vec<&str> = left.map(Request::letters).collect();
        let is_part = denies_a_part && !left.is_empty();
        is_part.then(|| format!("`{self}` leaves {} open: each is a request of its own", left.join(" and ")))
    }

    /// The first device that it covers.
    pub(super) fn first_device(&self) -> Device {
        let first = |numbers: Numbers| numbers.mask.map_or(numbers.first, |mask| numbers.first | mask.value);
        let kind = self.kind.unwrap_or(DeviceType::Char);
        Device { kind, major: first(self.major), minor: first(self.minor) }
    }

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
