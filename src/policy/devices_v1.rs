//! Decodes `devices.list` of the v1 devices controller into a policy.

use super::decoder::Decoder;
use super::diagram::Bdd;
use super::origin::digest_of_parts;
use super::types::Policy;
use crate::model::{DeviceType, MAX_MAJOR, MAX_MINOR, Numbers, Request, RequestSet, Rule, Verdict};

/// The only line of a group whose default is allow.
const ALL: &str = "a *:* rwm";

impl Decoder {
    /// The policy of a v1 device cgroup by the lines of its `devices.list`.
    ///
    /// A group whose default is deny lists what it allows, each line matching
    /// requests that ask for no more than its letters. A group whose default
    /// is allow prints one line and **hides its denials** (`security/
    /// device_cgroup.c`); what it allows is therefore unknown, but for the
    /// root group, which no boot writes denials to.
    pub fn devices_v1(&mut self, path: &[u8], lines: &[String]) -> Policy {
        if lines.iter().any(|line| line.trim() == ALL) {
            return match path {
                b"/" => self.all_of(&[]),
                _ => self
                    .unknown_policy("cgroup v1 shows no denials in devices.list, so they cannot be excluded"),
            };
        }
        let mut allowed = Bdd::FALSE;
        for line in lines.iter().filter(|line| !line.trim().is_empty()) {
            let Some(rule) = parse(line) else {
                return self.unknown_policy("a line of the v1 devices.list could not be understood");
            };
            let region = self.region_of(&rule);
            allowed = self.diagram.or(allowed, region);
        }
        self.policy_where(allowed, !allowed)
    }

    /// A policy with the verdicts that all `policies` share. Where they differ it is
    /// unknown, because of `why`. Without policies it allows everything.
    pub fn agreement(&mut self, policies: &[Policy], why: &str) -> Policy {
        let Some((first, rest)) = policies.split_first() else { return self.all_of(&[]) };
        let (allow, deny) = rest.iter().fold((first.allow, first.deny), |(allow, deny), policy| {
            (self.diagram.and(allow, policy.allow), self.diagram.and(deny, policy.deny))
        });
        if rest.iter().all(|policy| policy == first) {
            return *first;
        }
        let agreed = self.policy_where(allow, deny);
        let differ = self.unknown(agreed);
        if differ != Bdd::FALSE && policies.iter().any(|policy| *policy != agreed) {
            self.note_open(differ, why);
        }
        if differ == Bdd::FALSE {
            return agreed;
        }
        let mut ids: Vec<String> = policies.iter().map(|policy| self.id(*policy)).collect();
        ids.sort_unstable();
        ids.dedup();
        let parts = std::iter::once(why).chain(ids.iter().map(String::as_str)).map(str::as_bytes);
        self.made_of(agreed, digest_of_parts("agreement", parts), None)
    }
}

/// A line such as `c 195:* rw`.
fn parse(line: &str) -> Option<Rule> {
    let mut words = line.split_ascii_whitespace();
    let kind = match words.next()? {
        "a" => None,
        "b" => Some(DeviceType::Block),
        "c" => Some(DeviceType::Char),
        _ => return None,
    };
    let (major, minor) = words.next()?.split_once(':')?;
    let bits = words.next()?.bytes().try_fold(0, |bits, letter| match letter {
        b'm' => Some(bits | 1),
        b'r' => Some(bits | 2),
        b'w' => Some(bits | 4),
        _ => None,
    })?;
    let requests: RequestSet =
        Request::ALL.into_iter().filter(|request| request.bits() & !bits == 0).collect();
    let (major, minor) = (numbers(major, MAX_MAJOR)?, numbers(minor, MAX_MINOR)?);
    Some(Rule { verdict: Verdict::Allow, kind, major, minor, requests })
}

fn numbers(text: &str, max: u32) -> Option<Numbers> {
    match text {
        "*" => Some(Numbers { first: 0, last: max, mask: None }),
        _ => {
            let number = text.parse().ok().filter(|number| *number <= max)?;
            Some(Numbers { first: number, last: number, mask: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Device;

    /// Make sure that an allow-list is read as the kernel matches it and that
    /// hidden denials stay unknown.
    #[test]
    fn lists_are_read_as_the_kernel_matches() {
        let decoder = &mut Decoder::new();
        let lines = ["c 195:3 r".to_owned(), "c 195:3 w".to_owned(), "b *:* m".to_owned()];
        let policy = decoder.devices_v1(b"/job", &lines);
        let gpu = Device { kind: DeviceType::Char, major: 195, minor: 3 };
        for (request, verdict) in [
            (Request::Read, Verdict::Allow),
            (Request::Write, Verdict::Allow),
            (Request::ReadWrite, Verdict::Deny),
            (Request::Exists, Verdict::Allow),
            (Request::Mknod, Verdict::Deny),
        ] {
            assert_eq!(decoder.verdict(policy, gpu, request), verdict, "{request:?}");
        }
        let all = [ALL.to_owned()];
        let root = decoder.devices_v1(b"/", &all);
        let job = decoder.devices_v1(b"/job", &all);
        assert_eq!(decoder.verdict(root, gpu, Request::Read), Verdict::Allow);
        assert_eq!(decoder.verdict(job, gpu, Request::Read), Verdict::Unknown);
        assert_eq!(decoder.agreement(&[root, policy], "differ").allow, policy.allow);
    }
}
