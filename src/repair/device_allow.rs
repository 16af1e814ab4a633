//! Rules as values of systemd's `DeviceAllow=` (systemd.resource-control(5)).
//!
//! A value allows every request that asks for no more than its letters, and so
//! always the existence test. Devices are named by number, `/dev/char/195:0`, which
//! systemd takes without a look at the node (since 240), or by a whole major number,
//! `char-195`.

use crate::model::{DeviceType, MAX_MAJOR, MAX_MINOR, Numbers, Request, RequestSet, Rule, Verdict};
use crate::policy::{Decoder, Policy};

/// Most values that a command gets.
const MAX_VALUES: usize = 512;

/// Values, and what they allow together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Values {
    /// Such as `/dev/char/195:0 rw`.
    pub(super) values: Vec<String>,
    /// What they allow.
    pub(super) allows: Policy,
}

/// The values that allow as much of `missing` as can be said in them, and nothing
/// that `ceiling` denies.
pub(super) fn values(decoder: &mut Decoder, missing: Policy, ceiling: Policy) -> Values {
    let list = decoder.rules(missing);
    let (mut values, mut allowed) = (Vec::new(), Vec::new());
    // A list with exceptions cannot be said, nor one that is not all there.
    let rules = if list.default == Verdict::Deny { list.rules.as_slice() } else { &[] };
    for rule in rules {
        let Some((rule, letters)) = sayable(decoder, rule, ceiling) else { continue };
        let Some(names) = names(&rule) else { continue };
        if values.len() + names.len() > MAX_VALUES {
            break;
        }
        values.extend(names.into_iter().map(|name| format!("{name} {letters}")));
        allowed.push(rule);
    }
    Values { values, allows: decoder.naming(&allowed) }
}

/// The rule that letters make of a rule, and the letters: as few requests more as
/// there are letters for, and only those that may be allowed.
fn sayable(decoder: &mut Decoder, rule: &Rule, ceiling: Policy) -> Option<(Rule, &'static str)> {
    /// The access bits of the kernel with their letters, few first.
    const LETTERS: [(u32, &str); 7] =
        [(1, "m"), (2, "r"), (4, "w"), (3, "rm"), (5, "wm"), (6, "rw"), (7, "rwm")];
    LETTERS.into_iter().find_map(|(bits, letters)| {
        let requests: RequestSet =
            Request::ALL.into_iter().filter(|request| request.bits() & !bits == 0).collect();
        let covers = rule.requests.iter().all(|request| requests.contains(request));
        let said = Rule { requests, ..*rule };
        let named = decoder.naming(&[said]);
        (covers && decoder.allows_no_more(named, ceiling)).then_some((said, letters))
    })
}

/// How systemd names the devices of a rule; `None` if it has no names for them.
fn names(rule: &Rule) -> Option<Vec<String>> {
    let is_all = |numbers: Numbers, max| (numbers.first, numbers.last) == (0, max);
    if rule.major.mask.is_some() || rule.minor.mask.is_some() {
        return None;
    }
    let kinds = match rule.kind {
        Some(kind) => vec![kind],
        None => vec![DeviceType::Char, DeviceType::Block],
    };
    let word = |kind: DeviceType| if kind == DeviceType::Char { "char" } else { "block" };
    let (majors, minors) = (rule.major.first..=rule.major.last, rule.minor.first..=rule.minor.last);
    let length = |numbers: Numbers| (numbers.last - numbers.first) as usize + 1;
    let (count, each) = (length(rule.major), length(rule.minor));
    let names = match (is_all(rule.major, MAX_MAJOR), is_all(rule.minor, MAX_MINOR)) {
        (true, true) => kinds.into_iter().map(|kind| format!("{}-*", word(kind))).collect(),
        (true, false) => return None,
        (false, true) if count <= MAX_VALUES => kinds
            .into_iter()
            .flat_map(|kind| majors.clone().map(move |major| format!("{}-{major}", word(kind))))
            .collect(),
        (false, false) if count.saturating_mul(each) <= MAX_VALUES => {
            let numbers = majors.flat_map(|major| minors.clone().map(move |minor| (major, minor)));
            let numbers: Vec<(u32, u32)> = numbers.collect();
            let of = |kind: DeviceType| {
                numbers.iter().map(move |(major, minor)| format!("/dev/{}/{major}:{minor}", word(kind)))
            };
            kinds.into_iter().flat_map(of).collect()
        }
        _ => return None,
    };
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(missing: &str, ceiling: &str) -> (Vec<String>, bool) {
        let decoder = &mut Decoder::new();
        let missing = decoder.policy_of_text(missing).unwrap();
        let ceiling = decoder.policy_of_text(ceiling).unwrap();
        let values = values(decoder, missing, ceiling);
        assert!(decoder.allows_no_more(values.allows, ceiling));
        (values.values, decoder.allows_no_more(missing, values.allows))
    }

    /// Make sure that devices have the names that systemd knows.
    #[test]
    fn names_of_devices() {
        let ceiling = "allow a *:* rwm";
        for (rules, expected) in [
            ("allow c 195:0 rw", &["/dev/char/195:0 rw"][..]),
            ("allow c 195:0-1 r,w,rw", &["/dev/char/195:0 rw", "/dev/char/195:1 rw"]),
            ("allow b 8:* r", &["block-8 r"]),
            ("allow c *:* m", &["char-* m"]),
            ("allow a 7:3 rwm", &["/dev/char/7:3 rwm", "/dev/block/7:3 rwm"]),
            ("allow c 1:3 f", &["/dev/char/1:3 m"]),
        ] {
            let (values, is_all) = said(&format!("deny a *:* rwm\n{rules}"), ceiling);
            assert_eq!(
                (values.as_slice(), is_all),
                (&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..], true)
            );
        }
    }

    /// Make sure that nothing beyond the ceiling is said, and that what cannot be
    /// said is left out.
    #[test]
    fn what_cannot_be_said() {
        // `w` alone must not become `rw`.
        let rules = "deny a *:* rwm\nallow c 195:0 r,w";
        assert_eq!(said(rules, rules), (vec![], false));
        let exact =
            "deny a *:* rwm\nallow c 195:0 rf\nallow c *:7 rw\nallow c 8:0-1048575 rw minor & 0x1 = 0x1";
        assert_eq!(said(exact, exact), (vec!["/dev/char/195:0 r".to_owned()], false));
        assert_eq!(said("allow a *:* rwm\ndeny c 1:1 rw", "allow a *:* rwm"), (vec![], false));
    }
}
