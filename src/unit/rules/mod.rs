//! The rules that systemd makes of a unit's settings.
//!
//! `src/core/bpf-devices.c` and `cgroup.c` of systemd: a rule matches a request
//! that asks for no more than it names; rules are not merged. What has no
//! match is denied.

use super::resolve::Names;
use super::settings::{Allow, Policy, Settings};
use crate::model::{Device, DeviceType, Request, Verdict};
use crate::observation::{GpuFacts, Unit};

/// What systemd makes of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// No program: the unit restricts nothing.
    Open,
    /// A program with these rules.
    Filter(Filter),
}

/// An allow list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// What is allowed.
    pub rules: Vec<Rule>,
    /// What may be allowed too, but could not be resolved.
    pub unresolved: Vec<Allow>,
    /// Why the rules may be others, one clause each.
    pub doubts: Vec<String>,
}

/// One rule; a number that is missing stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Character or block.
    pub kind: DeviceType,
    /// Major number.
    pub major: Option<u32>,
    /// Minor number.
    pub minor: Option<u32>,
    /// The access bits of the kernel: mknod 1, read 2, write 4.
    pub access: u32,
}

/// Rules of one unit: the kernel takes no program with more instructions
/// (`BPF_COMPLEXITY_LIMIT_INSNS`), and systemd writes several for a rule.
const RULE_LIMIT: usize = 100_000;

/// What `closed` always allows: null, zero, full, random, urandom, tty, ptmx.
const STATIC: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];

/// The rules that systemd would make of a unit's settings now.
pub fn meaning(unit: &Unit, gpu_facts: &GpuFacts) -> Meaning {
    let settings = Settings::of(unit);
    let is_open = settings.policy == Policy::Auto && settings.allow.is_empty();
    if is_open && settings.doubts.is_empty() {
        return Meaning::Open;
    }
    let mut filter = Filter { doubts: settings.doubts.clone(), ..Filter::default() };
    if settings.policy != Policy::Strict {
        filter.add_static();
    }
    let names = Names { unit, gpu_facts };
    for allow in &settings.allow {
        names.add(allow, &mut filter);
        if filter.rules.len() > RULE_LIMIT {
            filter.doubts.push(format!("its settings stand for more than {RULE_LIMIT} rules"));
            break;
        }
    }
    Meaning::Filter(filter)
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

    fn add_static(&mut self) {
        let rule = |(major, minor)| Rule::char(Some(major), Some(minor), 7);
        self.rules.extend(STATIC.map(rule));
        self.rules.push(Rule::char(Some(136), None, 6));
        // `/run/systemd/inaccessible/{chr,blk}`.
        let hidden = Rule::char(Some(0), Some(0), 7);
        self.rules.extend([hidden, Rule { kind: DeviceType::Block, ..hidden }]);
    }
}

impl Rule {
    fn char(major: Option<u32>, minor: Option<u32>, access: u32) -> Self {
        Self { kind: DeviceType::Char, major, minor, access }
    }

    fn names(&self, device: Device) -> bool {
        let same = |rule: Option<u32>, number| rule.is_none_or(|rule| rule == number);
        self.kind == device.kind && same(self.major, device.major) && same(self.minor, device.minor)
    }
}

#[cfg(test)]
mod tests;
