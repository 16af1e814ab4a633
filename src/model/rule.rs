//! Rules: devices and requests that share a verdict. Their notation is here, in both
//! directions: what gpumap prints, it reads again.
//!
//! ```text
//! allow  c 195:0-2 rw
//! allow  c 195:* rw  minor & 0x1 = 0x1
//! ```
//!
//! A device type (`c`, `b`, or `a` for both), major and minor numbers, requests; then
//! the bits that matter where not all numbers of a range are meant.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{DeviceType, MAX_MAJOR, MAX_MINOR, Request, RequestSet, RuleType, Verdict};

/// A set of numbers: a range, or within it those with certain bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Numbers {
    /// Smallest number.
    pub first: u32,
    /// Largest number.
    pub last: u32,
    /// If set, only numbers with these bits.
    pub mask: Option<Mask>,
}

/// Numbers `n` with `n & mask == value`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(description = "A set of numbers by some of their bits.")]
pub struct Mask {
    /// The bits that matter.
    pub mask: u32,
    /// The values of these bits.
    pub value: u32,
}

/// Some devices and requests that share a verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "RuleJson", into = "RuleJson")]
pub struct Rule {
    /// The verdict.
    pub verdict: Verdict,
    /// Character or block; `None` for both.
    pub kind: Option<DeviceType>,
    /// Major numbers.
    pub major: Numbers,
    /// Minor numbers.
    pub minor: Numbers,
    /// Which requests.
    pub requests: RequestSet,
}

impl Numbers {
    /// One number.
    #[must_use]
    pub const fn one(number: u32) -> Self {
        Self { first: number, last: number, mask: None }
    }

    /// All numbers up to this one.
    #[must_use]
    pub const fn up_to(last: u32) -> Self {
        Self { first: 0, last, mask: None }
    }

    /// The numbers up to `max` with `n & mask == value`, as a range if they
    /// are one.
    #[must_use]
    pub fn masked(mask: u32, value: u32, max: u32) -> Self {
        let free = !mask & max;
        let is_range = (free + 1).is_power_of_two();
        let mask = (!is_range).then_some(Mask { mask, value });
        Self { first: value, last: value | free, mask }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn single(self) -> Option<u32> {
        (self.first == self.last).then_some(self.first)
    }

    /// Whether a number lies between the first and the last one, whatever its bits.
    #[must_use]
    pub fn spans(self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// The range without its bits: `*`, `3` or `0-2`.
    fn range(self, max: u32) -> Cow<'static, str> {
        match (self.first, self.last) {
            (0, last) if last == max => "*".into(),
            (first, last) if first == last => first.to_string().into(),
            (first, last) => format!("{first}-{last}").into(),
        }
    }

    /// In the short notation, in which the bits stand in the range's place.
    fn short(self, max: u32) -> Cow<'static, str> {
        match self.mask {
            Some(Mask { mask, value }) => format!("&{mask:#x}={value:#x}").into(),
            None => self.range(max),
        }
    }

    /// Reads `*`, `3` or `0-2`.
    fn read(text: &str, max: u32) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::up_to(max));
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
        Ok(Self { first, last, mask: None })
    }
}

impl Rule {
    /// Whether it is about all requests for all devices, as a default is.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.kind.is_none()
            && self.major == Numbers::up_to(MAX_MAJOR)
            && self.minor == Numbers::up_to(MAX_MINOR)
            && self.requests == RequestSet::ALL
    }

    /// Whether it is about c 0:0 alone, overlayfs's whiteouts, which the kernel allows
    /// without asking.
    #[must_use]
    pub fn is_never_asked(&self) -> bool {
        let zero = Numbers::one(0);
        self.kind == Some(DeviceType::Char) && self.major == zero && self.minor == zero
    }

    /// What denying these requests leaves open of the same devices, as a sentence: the
    /// kernel asks for r, w and rw one by one. `is_open` says of one of them whether
    /// nothing else denies it. `None` if nothing is left, or reading and writing are not
    /// denied at all.
    pub fn left_open(&self, is_open: impl Fn(Request) -> bool) -> Option<String> {
        let opens = [Request::Read, Request::Write, Request::ReadWrite];
        let denies_a_part = opens.iter().any(|request| self.requests.contains(*request));
        let left = opens.into_iter().filter(|request| !self.requests.contains(*request) && is_open(*request));
        let left: Vec<&str> = left.map(Request::letters).collect();
        let is_part = denies_a_part && !left.is_empty();
        is_part.then(|| format!("`{self}` leaves {} open: each is a request of its own", left.join(" and ")))
    }

    /// The notation that is read again, without the verdict: ranges, then the bits that
    /// matter, `c 195:* rw  minor & 0x1 = 0x1`.
    #[must_use]
    pub fn notation(&self) -> String {
        let kind = self.kind.map_or('a', DeviceType::letter);
        let (major, minor) = (self.major.range(MAX_MAJOR), self.minor.range(MAX_MINOR));
        let bits = [("major", self.major.mask), ("minor", self.minor.mask)];
        let bits = bits.into_iter().filter_map(|(name, mask)| Some((name, mask?)));
        let bits: Vec<String> =
            bits.map(|(name, Mask { mask, value })| format!("{name} & {mask:#x} = {value:#x}")).collect();
        let gap = if bits.is_empty() { "" } else { "  " };
        format!("{kind} {major}:{minor} {}{gap}{}", self.requests, bits.join(", "))
    }

    /// Takes `minor & 0x1 = 0x1` in: which bits of a number matter.
    fn narrow(&mut self, text: &str) -> Result<(), String> {
        let shape = || format!("'{text}' is more than a rule; bits are written minor & 0x1 = 0x1");
        let (name, rest) = text.split_once('&').ok_or_else(shape)?;
        let (mask, value) = rest.split_once('=').ok_or_else(shape)?;
        let (field, max) = match name.trim() {
            "major" => (&mut self.major, MAX_MAJOR),
            "minor" => (&mut self.minor, MAX_MINOR),
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
}

/// The short notation without the verdict: `c 195:0-2 rwm`; `a` is both types.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.map_or('a', DeviceType::letter);
        let (major, minor) = (self.major.short(MAX_MAJOR), self.minor.short(MAX_MINOR));
        write!(f, "{kind} {major}:{minor} {}", self.requests)
    }
}

/// Reads a verdict and [`Rule::notation`]. What stands in parentheses at the end of the
/// line says nothing.
impl FromStr for Rule {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (verdict, rest) = word(without_remark(line));
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
        let (major, minor) = devices
            .split_once(':')
            .ok_or_else(|| format!("'{devices}' is no MAJOR:MINOR, such as 195:0-2"))?;
        let (requests, rest) = word(rest);
        let mut rule = Self {
            verdict,
            kind,
            major: Numbers::read(major, MAX_MAJOR).map_err(|why| format!("major number '{major}': {why}"))?,
            minor: Numbers::read(minor, MAX_MINOR).map_err(|why| format!("minor number '{minor}': {why}"))?,
            requests: requests.parse().map_err(|why| format!("'{requests}': {why}"))?,
        };
        let bits = rest.split(',').map(str::trim).filter(|part| !part.is_empty());
        bits.into_iter().try_for_each(|part| rule.narrow(part))?;
        Ok(rule)
    }
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

fn hex(text: &str) -> Option<u32> {
    let digits = text.trim().strip_prefix("0x")?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// A rule as the fields of JSON.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct RuleJson {
    /// The verdict on these requests.
    verdict: Verdict,
    /// `char`, `block` or `any`.
    #[serde(rename = "type")]
    kind: RuleType,
    /// First and last major number.
    major: [u32; 2],
    /// First and last minor number.
    minor: [u32; 2],
    /// Which requests, such as `rwm` (see the manual for the notation).
    requests: String,
    /// If set, only majors with `major & mask == value` are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    major_mask: Option<Mask>,
    /// If set, only minors with `minor & mask == value` are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minor_mask: Option<Mask>,
}

impl From<Rule> for RuleJson {
    fn from(rule: Rule) -> Self {
        Self {
            verdict: rule.verdict,
            kind: rule.kind.into(),
            major: [rule.major.first, rule.major.last],
            minor: [rule.minor.first, rule.minor.last],
            requests: rule.requests.to_string(),
            major_mask: rule.major.mask,
            minor_mask: rule.minor.mask,
        }
    }
}

impl TryFrom<RuleJson> for Rule {
    type Error = super::BadRequests;

    fn try_from(json: RuleJson) -> Result<Self, Self::Error> {
        let numbers = |[first, last]: [u32; 2], mask| Numbers { first, last, mask };
        let kind = match json.kind {
            RuleType::Any => None,
            RuleType::Block => Some(DeviceType::Block),
            RuleType::Char => Some(DeviceType::Char),
        };
        let (major, minor) = (numbers(json.major, json.major_mask), numbers(json.minor, json.minor_mask));
        Ok(Self { verdict: json.verdict, kind, major, minor, requests: json.requests.parse()? })
    }
}

impl JsonSchema for Rule {
    fn schema_name() -> Cow<'static, str> {
        "Rule".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        RuleJson::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: Option<DeviceType>, major: Numbers, minor: Numbers) -> Rule {
        Rule { verdict: Verdict::Deny, kind, major, minor, requests: RequestSet::ALL }
    }

    /// Make sure that ranges, wildcards and bits are written as in the manual, and that
    /// what is written is read again.
    #[test]
    fn spelling() {
        let (char, block) = (Some(DeviceType::Char), Some(DeviceType::Block));
        let (one, all) = (Numbers::one, Numbers::up_to(MAX_MINOR));
        let range = |first, last| Numbers { first, last, mask: None };
        for (rule, notation, short) in [
            (rule(char, one(195), range(0, 2)), "c 195:0-2 rwm", "c 195:0-2 rwm"),
            (rule(block, range(8, 9), all), "b 8-9:* rwm", "b 8-9:* rwm"),
            (rule(None, Numbers::up_to(MAX_MAJOR), all), "a *:* rwm", "a *:* rwm"),
            (
                rule(char, one(195), Numbers::masked(1, 1, MAX_MINOR)),
                "c 195:1-1048575 rwm  minor & 0x1 = 0x1",
                "c 195:&0x1=0x1 rwm",
            ),
        ] {
            assert_eq!((rule.notation(), rule.to_string()), (notation.to_owned(), short.to_owned()));
            assert_eq!(format!("deny  {notation} (remark)").parse(), Ok(rule));
        }
    }

    /// Make sure that JSON keeps every rule.
    #[test]
    fn json_keeps_rules() {
        let masked = rule(None, Numbers::masked(6, 2, MAX_MAJOR), Numbers::one(3));
        let json = serde_json::to_string(&masked).unwrap();
        assert_eq!(
            json,
            r#"{"verdict":"deny","type":"any","major":[2,4091],"minor":[3,3],"requests":"rwm","major_mask":{"mask":6,"value":2}}"#
        );
        assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), masked);
        assert!(serde_json::from_str::<Rule>(&json.replace("rwm", "rwx")).is_err());
    }
}
