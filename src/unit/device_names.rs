//! What the names in device settings stand for on this node: paths of nodes,
//! and groups of `/proc/devices`, with the patterns of glob(7).

use super::filter::{Filter, FilterRule};
use super::settings::Allow;
use crate::model::DeviceType;
use crate::observation::{Answer, DeviceNumber, GpuFacts, RegisteredDriver, Unit};

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
