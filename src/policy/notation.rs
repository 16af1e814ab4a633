//! Makes a policy of rules as gpumap prints them: the other direction of
//! [`super::rules`].
//!
//! One [`Rule`] stands on a line.
//!
//! ```text
//! deny   a *:* rwm  (everything not named below)
//! allow  c 195:0-2 rw
//! allow  c 195:* rw  minor & 0x1 = 0x1
//! ```
//!
//! The first one is the default. The others may overlap only where they say the
//! same, so that their order never matters. What stands in parentheses at the end
//! of a line says nothing, nor does an empty line or one that begins with `#`.
//!
//! `devices.list` of the v1 devices controller is read here, too.

use super::decoder::Decoder;
use super::diagram::{Bdd, Met};
use super::origin::digest_of_parts;
use super::rules;
use super::types::Policy;
use crate::model::{DeviceType, MAX_MAJOR, MAX_MINOR, Numbers, Request, RequestSet, Rule, Verdict};

/// Most rules that are read; the kernel takes no program with a million
/// instructions (`BPF_COMPLEXITY_LIMIT_INSNS`).
const MAX_RULES: usize = 100_000;

/// How gpumap prints that `c 0:0` is never asked about; it says nothing of the
/// program.
const NEVER_ASKED: &str = "c 0:0 is always allowed:";

/// A line that cannot be read, or that contradicts another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{why}", at(*.line))]
pub struct BadRules {
    /// The line, counted from 1; 0 for the text as a whole.
    pub line: usize,
    /// What is wrong with it, and how to write it.
    pub why: String,
}

/// A rule with its line.
type Placed = (usize, Rule);

impl Decoder {
    /// What the denials of a text leave open that its policy allows, a sentence for each.
    pub fn left_open(&self, text: &str, policy: Policy) -> Vec<String> {
        let (_, rules) = read(text).unwrap_or((Verdict::Deny, Vec::new()));
        let denied = rules.iter().map(|(_, rule)| rule).filter(|rule| rule.verdict == Verdict::Deny);
        let left = denied.filter_map(|rule| {
            let device = rules::first_device(rule);
            rule.left_open(|request| self.verdict(policy, device, request) == Verdict::Allow)
        });
        left.collect()
    }

    /// The policy that a text describes.
    ///
    /// # Errors
    ///
    /// The first line that is no rule, that is a rule of unknown verdict, or that
    /// contradicts an earlier one; a text without a default; rules that are too many
    /// to be worked out.
    pub fn policy_of_text(&mut self, text: &str) -> Result<Policy, BadRules> {
        let (default, rules) = read(text)?;
        let mut said = Said::default();
        for (place, rule) in rules.iter().enumerate() {
            said.add(rule, rules.get(..place).unwrap_or_default())?;
        }
        let exceptions = match default {
            Verdict::Allow => said.denied,
            _ => said.allowed,
        };
        let fits = said.decoder.diagram.fits(exceptions, self.diagram.room(), &mut Met::default());
        let exceptions = said.decoder.diagram.copied_to(exceptions, &mut self.diagram);
        let allow = if default == Verdict::Allow { !exceptions } else { exceptions };
        let policy = self.policy_where(allow, !allow);
        if fits && !said.decoder.diagram.exhausted() && self.is_known(policy) {
            Ok(policy)
        } else {
            Err(bad(0, "the rules are more than gpumap can work out; use fewer, or ranges"))
        }
    }
}

/// Rules that are added before the diagram is copied to another one, without all that
/// was there on the way.
const MANY: usize = 2_048;

/// What the rules so far say.
struct Said {
    decoder: Decoder,
    allowed: Bdd,
    denied: Bdd,
}

impl Default for Said {
    fn default() -> Self {
        Self { decoder: Decoder::new(), allowed: Bdd::FALSE, denied: Bdd::FALSE }
    }
}

impl Said {
    /// Adds a rule; `before` are those that were added before it, which must not say
    /// other things of one request.
    fn add(&mut self, (line, rule): &Placed, before: &[Placed]) -> Result<(), BadRules> {
        if before.len() % MANY == MANY - 1 {
            self.tidy();
        }
        let region = self.decoder.region_of(rule);
        let diagram = &mut self.decoder.diagram;
        let (same, other) = match rule.verdict {
            Verdict::Allow => (&mut self.allowed, self.denied),
            _ => (&mut self.denied, self.allowed),
        };
        *same = diagram.or(*same, region);
        if diagram.and(region, other) == Bdd::FALSE {
            return Ok(());
        }
        let differs = |(_, earlier): &&Placed| earlier.verdict != rule.verdict && overlap(rule, earlier);
        let with = before.iter().find(differs).map_or(0, |(line, _)| *line);
        Err(bad(*line, format!("it contradicts line {with}; rules must not overlap")))
    }

    fn tidy(&mut self) {
        let old = std::mem::take(self);
        self.allowed = old.decoder.diagram.copied_to(old.allowed, &mut self.decoder.diagram);
        self.denied = old.decoder.diagram.copied_to(old.denied, &mut self.decoder.diagram);
    }
}

/// Whether two rules are about a request in common.
fn overlap(rule: &Rule, other: &Rule) -> bool {
    let decoder = &mut Decoder::new();
    let (region, other) = (decoder.region_of(rule), decoder.region_of(other));
    decoder.diagram.and(region, other) != Bdd::FALSE
}

fn at(line: usize) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}

fn bad(line: usize, why: impl Into<String>) -> BadRules {
    BadRules { line, why: why.into() }
}

/// The default and the rules.
fn read(text: &str) -> Result<(Verdict, Vec<Placed>), BadRules> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !is_remark(line));
    let needs_default = "the first rule is the default: allow a *:* rwm, or deny a *:* rwm";
    let (line, first) = lines.next().ok_or_else(|| bad(0, format!("no rules; {needs_default}")))?;
    let default: Rule = first.parse().map_err(|why| bad(line, why))?;
    if !default.is_everything() {
        return Err(bad(line, needs_default));
    }
    let mut rules = Vec::new();
    for (line, text) in lines {
        let rule: Rule = text.parse().map_err(|why| bad(line, why))?;
        if rule.is_everything() {
            return Err(bad(line, "a second default; it stands once, as the first rule"));
        }
        rules.push((line, rule));
        if rules.len() > MAX_RULES {
            return Err(bad(line, format!("more than {MAX_RULES} rules")));
        }
    }
    Ok((default.verdict, rules))
}

fn is_remark(line: &str) -> bool {
    line.is_empty() || line.starts_with('#') || line.starts_with(NEVER_ASKED)
}

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

    fn why(text: &str) -> String {
        Decoder::new().policy_of_text(text).unwrap_err().to_string()
    }

    /// Make sure that rules that gpumap prints mean what they say.
    #[test]
    fn rules_are_read() {
        let decoder = &mut Decoder::new();
        let text = "# a job's\n\n  deny   a *:* rwm  (everything not named below)\n  allow  c 195:0-2 rw\n\
                    allow c 8:* r,w (x)\n  allow  b 226:1-1048575 rwm  minor & 0x1 = 0x1\n\
                      c 0:0 is always allowed: the kernel never asks the programs about it\n";
        let policy = decoder.policy_of_text(text).unwrap();
        let list = decoder.rules(policy);
        assert_eq!(decoder.policy_of_rules(&list), policy);
        let rules: Vec<String> = list.rules.iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["c 8:* r,w", "c 195:0-1 rw", "c 195:2 rw", "b 226:&0x1=0x1 rwm"]);
        assert_eq!(list.default, Verdict::Deny);
    }

    /// Make sure that an error names its line and how to write it.
    #[test]
    fn errors_name_their_line() {
        for (text, expected) in [
            ("", "no rules; the first rule is the default"),
            ("allow c 1:3 rw", "line 1: the first rule is the default"),
            ("deny a *:* rwm\n\nallow a *:* rwm", "line 3: a second default"),
            ("deny a *:* rwm\nallow c 195:0-2 rw\ndeny c *:1 r", "line 3: it contradicts line 2"),
            ("deny a *:* rwm\nunknown c 1:3 r", "line 2: what is unknown has no program"),
            ("deny a *:* rwm\nperhaps c 1:3 r", "line 2: 'perhaps' is no verdict"),
            ("deny a *:* rwm\nallow d 1:3 r", "line 2: 'd' is no device type"),
            ("deny a *:* rwm\nallow c 195 r", "line 2: '195' is no MAJOR:MINOR"),
            ("deny a *:* rwm\nallow c 4096:3 r", "line 2: major number '4096'"),
            ("deny a *:* rwm\nallow c 1:3-2 r", "line 2: minor number '3-2': the range is empty"),
            ("deny a *:* rwm\nallow c 1:+3 r", "line 2: minor number '+3'"),
            ("deny a *:* rwm\nallow c 1:3 rx", "line 2: 'rx': no such requests"),
            ("deny a *:* rwm\nallow c 1:3", "line 2: '': no such requests"),
            ("deny a *:* rwm\nallow c 1:3 rw 7", "line 2: '7' is more than a rule"),
            ("deny a *:* rwm\nallow c 1:3 r minor & 0x1 = 0x1", "line 2: 'minor & 0x1 = 0x1' does not fit"),
            ("deny a *:* rwm\n… and 7 more pairs", "line 2: '…' is no verdict"),
        ] {
            assert!(why(text).starts_with(expected), "{text:?}: {}", why(text));
        }
    }

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
