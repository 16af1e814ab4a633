//! Reads rules in the notation in which gpumap prints them: the other direction
//! of [`super::rules`].
//!
//! One rule stands on a line: a verdict, a device type, numbers, requests.
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

use super::decoder::Decoder;
use super::diagram::Bdd;
use super::rule::{Mask, Numbers, Rule};
use super::types::Policy;
use crate::model::{DeviceType, MAX_MAJOR, MAX_MINOR, RequestSet, Verdict};

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
            let device = rule.first_device();
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
        let fits = said.decoder.diagram.fits(exceptions, self.diagram.room());
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
    let default = rule(first).map_err(|why| bad(line, why))?;
    if !is_everything(&default) {
        return Err(bad(line, needs_default));
    }
    let mut rules = Vec::new();
    for (line, text) in lines {
        let rule = rule(text).map_err(|why| bad(line, why))?;
        if is_everything(&rule) {
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

fn is_everything(rule: &Rule) -> bool {
    let is_all = |numbers: Numbers, max| numbers == Numbers { first: 0, last: max, mask: None };
    rule.kind.is_none()
        && is_all(rule.major, MAX_MAJOR)
        && is_all(rule.minor, MAX_MINOR)
        && rule.requests == RequestSet::ALL
}

/// One line that is not empty.
fn rule(line: &str) -> Result<Rule, String> {
    let line = without_remark(line);
    let (verdict, rest) = word(line);
    let verdict = match verdict {
        "allow" => Verdict::Allow,
        "deny" => Verdict::Deny,
        "unknown" => return Err("what is unknown has no program; write allow or deny".to_owned()),
        other => return Err(format!("'{other}' is no verdict (allow, deny)")),
    };
    let (kind, rest) = word(rest);
    let kind = match kind {
        "c" => Some(DeviceType::Char),
        "b" => Some(DeviceType::Block),
        "a" => None,
        other => return Err(format!("'{other}' is no device type (c, b or a)")),
    };
    let (devices, rest) = word(rest);
    let (major, minor) =
        devices.split_once(':').ok_or_else(|| format!("'{devices}' is no MAJOR:MINOR, such as 195:0-2"))?;
    let (requests, rest) = word(rest);
    let mut rule = Rule {
        verdict,
        kind,
        major: numbers(major, MAX_MAJOR).map_err(|why| format!("major number '{major}': {why}"))?,
        minor: numbers(minor, MAX_MINOR).map_err(|why| format!("minor number '{minor}': {why}"))?,
        requests: requests.parse().map_err(|why| format!("'{requests}': {why}"))?,
    };
    rest.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .try_for_each(|part| mask(part, &mut rule))?;
    Ok(rule)
}

/// The line without the parentheses at its end.
fn without_remark(line: &str) -> &str {
    let mut line = line.trim();
    while line.ends_with(')')
        && let Some((before, _)) = line.split_once(" (")
    {
        line = before.trim_end();
    }
    line
}

fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_once(char::is_whitespace).unwrap_or((text, ""))
}

/// `*`, `3` or `0-2`.
fn numbers(text: &str, max: u32) -> Result<Numbers, String> {
    if text == "*" {
        return Ok(Numbers { first: 0, last: max, mask: None });
    }
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse::<u32>().ok().filter(|value| is_number && *value <= max);
        value.ok_or_else(|| format!("write a number up to {max}, a range such as 0-2, or *"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err("the range is empty: the smaller number stands first".to_owned());
    }
    Ok(Numbers { first, last, mask: None })
}

/// `minor & 0x1 = 0x1`: which bits of a number matter.
fn mask(text: &str, rule: &mut Rule) -> Result<(), String> {
    let shape = || format!("'{text}' is more than a rule; bits are written minor & 0x1 = 0x1");
    let (name, rest) = text.split_once('&').ok_or_else(shape)?;
    let (mask, value) = rest.split_once('=').ok_or_else(shape)?;
    let (field, max) = match name.trim() {
        "major" => (&mut rule.major, MAX_MAJOR),
        "minor" => (&mut rule.minor, MAX_MINOR),
        _ => return Err(shape()),
    };
    let (mask, value) = (hex(mask).ok_or_else(shape)?, hex(value).ok_or_else(shape)?);
    // What gpumap prints: the smallest and the largest such number stand before.
    let fits = mask <= max && value & !mask == 0 && field.mask.is_none();
    let (first, last) = (value, value | (!mask & max));
    let is_all = (field.first, field.last) == (0, max);
    if !fits || !is_all && (field.first, field.last) != (first, last) {
        return Err(format!("'{text}' does not fit the numbers before it"));
    }
    *field = Numbers { first, last, mask: Some(Mask { mask, value }) };
    Ok(())
}

fn hex(text: &str) -> Option<u32> {
    let digits = text.trim().strip_prefix("0x")?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
