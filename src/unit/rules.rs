//! The rules that systemd makes of a unit's settings.
//!
//! `src/core/bpf-devices.c` and `cgroup.c` of systemd: a rule matches a request
//! that asks for no more than it names; rules are not merged. What has no
//! match is denied.

use super::glob;
use super::settings::{Allow, Policy, Settings};
use crate::observation::{Answer, DeviceNumber, GpuFacts, NodeKind, Unit};
use crate::policy::device::{Device, DeviceType, Request, Verdict};

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
    settings.allow.iter().for_each(|allow| names.add(allow, &mut filter));
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

/// What the names in settings stand for on this node.
struct Names<'a> {
    unit: &'a Unit,
    gpu_facts: &'a GpuFacts,
}

impl Names<'_> {
    fn add(&self, allow: &Allow, filter: &mut Filter) {
        let access = allow.access;
        let group =
            |kind, name| Some(self.group(kind, name)?.into_iter().map(|major| (kind, major, None)).collect());
        let found: Option<Vec<_>> = if let Some(name) = allow.device.strip_prefix("char-") {
            group(DeviceType::Char, name)
        } else if let Some(name) = allow.device.strip_prefix("block-") {
            group(DeviceType::Block, name)
        } else {
            let number =
                |number: DeviceNumber| (kind_of(number.kind), Some(number.major), Some(number.minor));
            self.path(&allow.device).map(|found| found.into_iter().map(number).collect())
        };
        let Some(found) = found else { return filter.unresolved.push(allow.clone()) };
        let rules = found.into_iter().map(|(kind, major, minor)| Rule { kind, major, minor, access });
        filter.rules.extend(rules);
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
        for (major, registered) in registered(self.gpu_facts.files.get("/proc/devices")?, kind) {
            if glob::matches(name, registered)? {
                majors.push(Some(major));
            }
        }
        Some(majors)
    }

    /// The device behind a path: `Some(None)` where there is none, for which
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
        Some(rest) => (NodeKind::Char, rest),
        None => (NodeKind::Block, path.strip_prefix("/dev/block/")?),
    };
    let (major, minor) = rest.split_once(':')?;
    Some(DeviceNumber { kind, major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The lines of one section of `/proc/devices`.
fn registered(text: &str, wanted: DeviceType) -> impl Iterator<Item = (u32, &str)> {
    let mut section = None;
    text.lines().filter_map(move |line| {
        match line.trim() {
            "Character devices:" => section = Some(DeviceType::Char),
            "Block devices:" => section = Some(DeviceType::Block),
            line => {
                let (major, name) = line.split_once(char::is_whitespace)?;
                let major: u32 = major.parse().ok()?;
                return (section == Some(wanted) && major > 0).then(|| (major, name.trim_start()));
            }
        }
        None
    })
}

fn kind_of(kind: NodeKind) -> DeviceType {
    match kind {
        NodeKind::Char => DeviceType::Char,
        NodeKind::Block => DeviceType::Block,
    }
}

#[cfg(test)]
mod tests;
