//! An allow list of devices, as systemd's programs hold it.
//!
//! `src/core/bpf-devices.c` of systemd: a rule matches a request that asks for
//! no more than the rule names; rules are not merged. What no rule matches is
//! denied.

use super::settings::Allow;
use crate::model::{Device, DeviceType, Request, Verdict};

/// An allow list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The rules that allow.
    pub rules: Vec<FilterRule>,
    /// Settings that may allow more, but could not be resolved.
    pub unresolved: Vec<Allow>,
    /// Why the rules may be others, one clause each.
    pub doubts: Vec<String>,
}

/// One rule; a missing number means all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRule {
    /// Character or block.
    pub kind: DeviceType,
    /// Major number.
    pub major: Option<u32>,
    /// Minor number.
    pub minor: Option<u32>,
    /// The access bits of the kernel: mknod 1, read 2, write 4.
    pub access: u32,
}

impl Filter {
    /// Whether the program would allow a request.
    pub fn verdict(&self, device: Device, request: Request) -> Verdict {
        let asked = request.bits();
        let of_device = || self.rules.iter().filter(|rule| rule.names(device));
        let together = of_device().fold(0, |all, rule| all | rule.access);
        if !self.doubts.is_empty() {
            Verdict::Unknown
        } else if of_device().any(|rule| asked & !rule.access == 0) {
            Verdict::Allow
        } else if asked & !together == 0 && together != 0 {
            // Two lines for one device: some versions of systemd join them.
            Verdict::Unknown
        } else if self.unresolved.iter().any(|allow| asked & !(allow.access | together) == 0) {
            Verdict::Unknown
        } else {
            Verdict::Deny
        }
    }
}

impl FilterRule {
    pub(super) fn char(major: Option<u32>, minor: Option<u32>, access: u32) -> Self {
        Self { kind: DeviceType::Char, major, minor, access }
    }

    fn names(&self, device: Device) -> bool {
        let same = |rule: Option<u32>, number| rule.is_none_or(|rule| rule == number);
        self.kind == device.kind && same(self.major, device.major) && same(self.minor, device.minor)
    }
}
