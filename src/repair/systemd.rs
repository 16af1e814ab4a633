//! The command that gives devices back where a program of systemd's denies them:
//! `systemctl set-property --runtime UNIT DeviceAllow=…`.
//!
//! systemd adds the values to the list of the unit, makes its program anew and swaps
//! it; programs of others stay in force beside it. The list outlives daemon-reload,
//! which makes the program of it again.
//!
//! A value of `DeviceAllow=` (systemd.resource-control(5)) allows every request that asks
//! for no more than its letters, and so always the existence test. Devices are named by
//! number, `/dev/char/195:0`, which systemd takes without a look at the node (since 240),
//! or by a whole major number, `char-195`.

use crate::model::{DeviceType, MAX_MAJOR, MAX_MINOR, Numbers, Request, RequestSet, Rule, Verdict};
use crate::observation::{Text, Unit};
use crate::policy::{Decoder, Policy};
use crate::report::RepairStep;
use crate::unit::{self, Settings};

/// Where systemd keeps units that programs made, not files.
const TRANSIENT: &str = "/run/systemd/transient/";

/// The step.
///
/// # Errors
///
/// Why the command would do harm, or cannot be known not to, a sentence.
pub(super) fn step(cgroup: &Text, units: &[Unit], values: &Values) -> Result<RepairStep, String> {
    let name = unit::of_cgroup(cgroup.as_bytes())
        .ok_or_else(|| format!("{} is no unit of the system's systemd", cgroup.lossy()))?;
    // `VALID_CHARS` of systemd (src/basic/unit-name.c): what else is there is no
    // unit, and nothing to paste into a shell.
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte)) {
        return Err(format!("{name:?} is no name that systemd gives a unit"));
    }
    let unit = units.iter().find(|unit| unit.cgroup == *cgroup);
    let unit = unit.ok_or_else(|| format!("what the files of {name} say about devices was not seen"))?;
    let settings = Settings::of(unit);
    if !settings.doubts.is_empty() {
        return Err(format!("what {name} allows is not certain: {}", settings.doubts.join("; ")));
    }
    if settings.policy == unit::Policy::Auto && settings.allow.is_empty() {
        return Err(format!(
            "the files of {name} restrict nothing (DevicePolicy=auto, no DeviceAllow=): a DeviceAllow= would \
             turn that into a closed list"
        ));
    }
    let is_transient = unit.fragment.as_deref().is_some_and(|path| path.starts_with(TRANSIENT));
    let command = command(name, values.values.iter().map(String::as_str));
    Ok(RepairStep {
        line: shell_line(&command),
        command,
        effect: format!(
            "systemd adds the devices to the list of {name} and swaps its own program; all others stay as \
             they are"
        ),
        lasts: if is_transient {
            format!("as long as {name}: through daemon-reload, daemon-reexec and changes of its properties")
        } else {
            "until the next boot; without --runtime also after it".to_owned()
        },
        undone_by: format!(
            "a new start of what runs in {name}; setting its DeviceAllow= anew; systemctl revert, which \
             removes the list of the runtime too and must not be used here"
        ),
        undo: undo(name, &settings).map(|command| shell_line(&command)),
    })
}

fn command<'v>(unit: &str, values: impl Iterator<Item = &'v str>) -> Vec<String> {
    let words = ["systemctl", "set-property", "--runtime", "--", unit].map(str::to_owned);
    words.into_iter().chain(values.map(|value| format!("DeviceAllow={value}"))).collect()
}

/// The command that sets the list as it is now: an empty value clears it first.
fn undo(unit: &str, settings: &Settings) -> Option<Vec<String>> {
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_graphic());
    if !settings.allow.iter().all(|allow| is_plain(&allow.device)) {
        return None;
    }
    let letters = |access: u32| {
        let letters = [(2, 'r'), (4, 'w'), (1, 'm')];
        letters.into_iter().filter(|(bit, _)| access & bit != 0).map(|(_, letter)| letter).collect::<String>()
    };
    let values: Vec<String> =
        settings.allow.iter().map(|allow| format!("{} {}", allow.device, letters(allow.access))).collect();
    Some(command(unit, std::iter::once("").chain(values.iter().map(String::as_str))))
}

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

/// The command as one line that a shell takes apart into exactly these words.
pub(super) fn shell_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

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

    /// Make sure that a real shell takes a line apart as it was.
    #[test]
    fn a_shell_reads_the_words() {
        let words =
            ["a.scope", "", "it's", r"dev-\x2d.slice", "DeviceAllow=/dev/char/195:0 rw", "$HOME `x` *"];
        let words: Vec<String> = words.map(str::to_owned).to_vec();
        let script = format!("printf '<%s>' {}", shell_line(&words));
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let expected: String = words.iter().map(|word| format!("<{word}>")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!(shell_line(&words[..1]), "a.scope");
    }
}
