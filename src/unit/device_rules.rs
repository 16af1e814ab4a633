//! The rules that systemd makes from a unit's device settings (`src/core/cgroup.c` and
//! `src/core/bpf-devices.c` of systemd): what the names in them stand for on this node, paths
//! of nodes and groups of `/proc/devices` with the patterns of glob(7), and the allow list
//! that its programs hold.
//!
//! A rule of that list matches a request that asks for no more than the rule names; rules
//! are not merged. What no rule matches is denied.

use super::settings::{Allow, Policy, Settings};
use crate::model::{Device, DeviceType, Request, Verdict};
use crate::observation::{Answer, DeviceNumber, GpuFacts, RegisteredDriver, Unit};

/// The device rules that systemd makes from the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceRules {
    /// No program: the unit restricts nothing.
    Open,
    /// A program with these rules.
    Filter(Filter),
}

/// Rules of one unit: the kernel takes no program with more instructions
/// (`BPF_COMPLEXITY_LIMIT_INSNS`), and systemd writes several for a rule.
const RULE_LIMIT: usize = 100_000;

/// What `closed` always allows: null, zero, full, random, urandom, tty, ptmx.
const STATIC: [(u32, u32); 7] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)];

/// The rules that systemd would make of a unit's settings now.
pub fn device_rules(unit: &Unit, gpu_facts: &GpuFacts) -> DeviceRules {
    let settings = Settings::of(unit);
    let is_open = settings.policy == Policy::Auto && settings.allow.is_empty();
    if is_open && settings.doubts.is_empty() {
        return DeviceRules::Open;
    }
    let mut filter = Filter { doubts: settings.doubts.clone(), ..Filter::default() };
    if settings.policy != Policy::Strict {
        add_static(&mut filter);
    }
    let names = DeviceNames { unit, gpu_facts };
    for allow in &settings.allow {
        names.add(allow, &mut filter);
        if filter.rules.len() > RULE_LIMIT {
            filter.doubts.push(format!("its settings stand for more than {RULE_LIMIT} rules"));
            break;
        }
    }
    DeviceRules::Filter(filter)
}

/// The names in `DeviceAllow=` of a unit that stand for no device of this node.
pub fn names_of_nothing(unit: &Unit, gpu_facts: &GpuFacts) -> Vec<String> {
    let names = DeviceNames { unit, gpu_facts };
    let allowed = Settings::of(unit).allow;
    let of_nothing =
        allowed.into_iter().filter(|allow| names.devices(allow).is_some_and(|found| found.is_empty()));
    of_nothing.map(|allow| allow.device).collect()
}

/// Adds what `closed` always allows.
fn add_static(filter: &mut Filter) {
    let rule = |(major, minor)| FilterRule::char(Some(major), Some(minor), 7);
    filter.rules.extend(STATIC.map(rule));
    filter.rules.push(FilterRule::char(Some(136), None, 6));
    // `/run/systemd/inaccessible/{chr,blk}`.
    let hidden = FilterRule::char(Some(0), Some(0), 7);
    filter.rules.extend([hidden, FilterRule { kind: DeviceType::Block, ..hidden }]);
}

/// Type, major and minor number, where `None` is each.
type NamedDevice = (DeviceType, Option<u32>, Option<u32>);

/// The devices that the names in settings mean on this node.
pub(super) struct DeviceNames<'a> {
    pub(super) unit: &'a Unit,
    pub(super) gpu_facts: &'a GpuFacts,
}

impl DeviceNames<'_> {
    /// Adds the rules of one `DeviceAllow=`.
    pub(super) fn add(&self, allow: &Allow, filter: &mut Filter) {
        let access = allow.access;
        let Some(found) = self.devices(allow) else { return filter.unresolved.push(allow.clone()) };
        let rules = found.into_iter().map(|(kind, major, minor)| FilterRule { kind, major, minor, access });
        filter.rules.extend(rules);
    }

    /// The devices of one `DeviceAllow=`; nothing if it names none of this node, `None` if
    /// that is not known.
    pub(super) fn devices(&self, allow: &Allow) -> Option<Vec<NamedDevice>> {
        let group =
            |kind, name| Some(self.group(kind, name)?.into_iter().map(|major| (kind, major, None)).collect());
        if let Some(name) = allow.device.strip_prefix("char-") {
            group(DeviceType::Char, name)
        } else if let Some(name) = allow.device.strip_prefix("block-") {
            group(DeviceType::Block, name)
        } else {
            let number = |number: DeviceNumber| (number.kind, Some(number.major), Some(number.minor));
            self.path(&allow.device).map(|found| found.into_iter().map(number).collect())
        }
    }

    /// The majors of a group; `[None]` for all, `None` if not known.
    fn group(&self, kind: DeviceType, name: &str) -> Option<Vec<Option<u32>>> {
        if name == "*" {
            return Some(vec![None]);
        }
        if let Ok(major) = name.parse::<u32>() {
            return Some(vec![Some(major)]);
        }
        let mut majors = Vec::new();
        let is_of_kind = |driver: &RegisteredDriver| driver.kind == kind && driver.major > 0;
        for driver in self.gpu_facts.drivers()?.into_iter().filter(is_of_kind) {
            if matches(name, &driver.name)? {
                majors.push(Some(driver.major));
            }
        }
        Some(majors)
    }

    /// The device that a path leads to: `Some(None)` if there is none, so that
    /// systemd makes no rule; `None` if not known.
    fn path(&self, path: &str) -> Option<Option<DeviceNumber>> {
        if let Some(number) = by_number(path) {
            return Some(Some(number));
        }
        if let Some(named) = self.unit.nodes.iter().find(|named| named.path == path) {
            return match &named.device {
                Answer::Known(device) => Some(*device),
                Answer::Missing(_) => None,
            };
        }
        let node = self.gpu_facts.nodes.iter().find(|node| node.path == path)?;
        Some(Some(DeviceNumber { kind: node.kind, major: node.major, minor: node.minor }))
    }
}

/// `/dev/char/M:m` and `/dev/block/M:m` mean the number they name, since
/// systemd 240 also where there is no such link.
fn by_number(path: &str) -> Option<DeviceNumber> {
    let (kind, rest) = match path.strip_prefix("/dev/char/") {
        Some(rest) => (DeviceType::Char, rest),
        None => (DeviceType::Block, path.strip_prefix("/dev/block/")?),
    };
    let (major, minor) = rest.split_once(':')?;
    Some(DeviceNumber { kind, major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// Bytes of a pattern or a name: the kernel's names are far shorter, and the
/// time of a comparison is the product of both.
const LIMIT: usize = 256;

/// Whether a name matches; `None` for patterns with classes or escapes, and
/// where one of the two is too long.
pub(super) fn matches(pattern: &str, name: &str) -> Option<bool> {
    if pattern.contains(['[', '\\']) || pattern.len() > LIMIT || name.len() > LIMIT {
        return None;
    }
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut to) = (0, 0);
    // The last star, and how many bytes it has matched so far.
    let mut star: Option<(usize, usize)> = None;
    while to < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, to));
                at += 1;
            }
            Some(byte) if *byte == b'?' || Some(byte) == name.get(to) => {
                at += 1;
                to += 1;
            }
            _ => {
                let Some((place, eaten)) = star else { return Some(false) };
                star = Some((place, eaten + 1));
                (at, to) = (place + 1, eaten + 1);
            }
        }
    }
    Some(pattern[at..].iter().all(|byte| *byte == b'*'))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let yes =
            [("*", ""), ("nvidia*", "nvidia-uvm"), ("cpu/*", "cpu/msr"), ("?x", "ax"), ("*a*b", "xaayb")];
        assert!(yes.iter().all(|(pattern, name)| matches(pattern, name) == Some(true)));
        let no = [("nvidia", "nvidia-uvm"), ("?", ""), ("*a*b", "xaayc"), ("", "a")];
        assert!(no.iter().all(|(pattern, name)| matches(pattern, name) == Some(false)));
        assert_eq!(matches("nvidia[0-9]", "nvidia0"), None);
    }
}
