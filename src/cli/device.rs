//! The DEVICE grammar: `TYPE MAJOR:MINOR [REQUEST]`, a device node's path, or
//! the name of a GPU.
//!
//! Parsed by hand and without allocating, because `check -` reads a million
//! of these a second.

use crate::model::{DeviceType, MAX_MAJOR, MAX_MINOR, Request, RequestSet, Span};

/// A device as the user asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceArgument<'a> {
    /// By number.
    Numbers(Pattern),
    /// By the path of its node; the request is `rw`.
    Node(&'a [u8]),
    /// By a name: one word of letters, digits and `:._/-`, such as `nvidia0`,
    /// a UUID or a PCI address; the request is `rw`.
    Name(&'a str),
}

/// A device by number, in which everything but the request may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Block or character; `None` for both.
    pub kind: Option<DeviceType>,
    /// Within 0 to 4095.
    pub major: Span,
    /// Within 0 to 1048575.
    pub minor: Span,
    /// What is requested: one request, or all of them (`rwm`).
    pub requests: RequestSet,
}

/// Why a text is no device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDevice {
    /// Not three words, or no colon.
    #[error("not a device")]
    Shape,
    /// A colon between type and numbers, as in `c:195:3`.
    #[error("a space, not a colon, stands between the type and the numbers")]
    Colon,
    /// An unknown type.
    #[error("no such device type (c, b or a)")]
    Kind,
    /// Not a major number.
    #[error("no such major number (0 to 4095, a range of them, or *)")]
    Major,
    /// Not a minor number.
    #[error("no such minor number (0 to 1048575, a range of them, or *)")]
    Minor,
    /// Not a request.
    #[error("no such request (r, w, rw, m, f or rwm)")]
    Access,
}

/// The grammar in one clause, for error messages.
pub const GRAMMAR: &str = "write 'TYPE MAJOR:MINOR [REQUEST]' as one argument, such as 'c 195:3 rw', a path such as /dev/nvidia3, or a GPU's name, UUID or PCI address";

/// Reads a device.
pub fn parse(text: &[u8]) -> Result<DeviceArgument<'_>, BadDevice> {
    if text.first() == Some(&b'/') {
        return Ok(DeviceArgument::Node(text));
    }
    let (kind, rest) = word(text);
    // GPUs are character devices, and gpumap prints their numbers alone.
    let (kind, (numbers, rest)) = if has_numbers(kind) && !rest.is_empty() {
        (b"c".as_slice(), (kind, rest))
    } else {
        (kind, word(rest))
    };
    let (letters, rest) = word(rest);
    if numbers.is_empty() && has_colon_type(text) {
        return Err(BadDevice::Colon);
    }
    if numbers.is_empty()
        && let Some(name) = name(text)
    {
        return Ok(DeviceArgument::Name(name));
    }
    if numbers.is_empty() || !rest.is_empty() {
        return Err(BadDevice::Shape);
    }
    let colon = numbers.iter().position(|byte| *byte == b':').ok_or(BadDevice::Shape)?;
    Ok(DeviceArgument::Numbers(Pattern {
        kind: parse_kind(kind)?,
        major: self::numbers(&numbers[..colon], MAX_MAJOR).ok_or(BadDevice::Major)?,
        minor: self::numbers(&numbers[colon + 1..], MAX_MINOR).ok_or(BadDevice::Minor)?,
        requests: parse_requests(letters)?,
    }))
}

/// Whether a word is two numbers with a colon between them.
fn has_numbers(word: &[u8]) -> bool {
    let is_number = |part: &[u8]| part.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'*');
    let colon = word.iter().position(|byte| *byte == b':');
    colon.is_some_and(|at| is_number(&word[..at]) && is_number(&word[at + 1..]))
}

/// Whether a word is a type, a colon and what begins like a major number. No name
/// of a GPU is like that: a PCI address has two digits at least.
fn has_colon_type(text: &[u8]) -> bool {
    matches!(text, [b'a' | b'b' | b'c' | b'*', b':', b'0'..=b'9' | b'*', ..])
}

/// A word that can be a GPU's name. The letters of the grammar itself cannot.
fn name(text: &[u8]) -> Option<&str> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b":._/-".contains(byte);
    let is_type = matches!(text, b"a" | b"b" | b"c");
    let is_name = !text.is_empty() && !is_type && text.iter().all(is_part);
    is_name.then(|| std::str::from_utf8(text).ok()).flatten()
}

/// The first word and what follows it and its spaces. Only spaces separate:
/// a tab would break the output's columns.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let next = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
    (word, &rest[next..])
}

fn parse_kind(word: &[u8]) -> Result<Option<DeviceType>, BadDevice> {
    match word {
        b"c" => Ok(Some(DeviceType::Char)),
        b"b" => Ok(Some(DeviceType::Block)),
        b"a" | b"*" => Ok(None),
        _ => Err(BadDevice::Kind),
    }
}

/// A number, a range `3-5`, or `*` for all up to `max`.
fn numbers(text: &[u8], max: u32) -> Option<Span> {
    if text == b"*" {
        return Some(Span::up_to(max));
    }
    let Some(dash) = text.iter().position(|byte| *byte == b'-') else {
        return number(text, max).map(Span::one);
    };
    let (first, last) = (number(&text[..dash], max)?, number(&text[dash + 1..], max)?);
    (first <= last).then_some(Span { first, last })
}

fn number(digits: &[u8], max: u32) -> Option<u32> {
    if digits.is_empty() || digits.len() > 7 {
        return None;
    }
    let mut value = 0;
    for digit in digits {
        value = value * 10 + u32::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    (value <= max).then_some(value)
}

/// Letters in any order, each at most once.
fn parse_requests(letters: &[u8]) -> Result<RequestSet, BadDevice> {
    const LETTERS: &[u8; 4] = b"rwmf";
    let mut seen = 0_u8;
    for letter in letters {
        let index = LETTERS.iter().position(|known| known == letter).ok_or(BadDevice::Access)?;
        if seen & 1 << index != 0 {
            return Err(BadDevice::Access);
        }
        seen |= 1 << index;
    }
    let request = match seen {
        0b0000 | 0b0011 => Request::ReadWrite,
        0b0001 => Request::Read,
        0b0010 => Request::Write,
        0b0100 => Request::Mknod,
        0b0111 => return Ok(RequestSet::ALL),
        0b1000 => Request::Exists,
        _ => return Err(BadDevice::Access),
    };
    Ok(request.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Pattern {
        match parse(text.as_bytes()) {
            Ok(DeviceArgument::Numbers(pattern)) => pattern,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Make sure that each part of the grammar is read as documented.
    #[test]
    fn good() {
        let plain = Pattern {
            kind: Some(DeviceType::Char),
            major: Span::one(195),
            minor: Span::one(3),
            requests: Request::ReadWrite.into(),
        };
        for text in
            ["195:3 rw", "195:3 wr", "c 195:3", "c 195:3 rw", "c 195:3 wr", "c  195:3  rw ", "c 0195:03"]
        {
            assert_eq!(numbers(text), plain, "{text}");
        }
        assert_eq!(numbers("b 4095:1048575 m").minor, Span::one(1_048_575));
        assert_eq!(numbers("c 195:0-3").minor, Span { first: 0, last: 3 });
        assert_eq!(numbers("195-196:* r").major, Span { first: 195, last: 196 });
        for (letters, request) in [("r", Request::Read), ("w", Request::Write), ("f", Request::Exists)] {
            assert_eq!(numbers(&format!("c 1:2 {letters}")).requests, request.into());
        }
        for letters in ["rwm", "mwr", "wmr"] {
            assert_eq!(numbers(&format!("c 1:2 {letters}")).requests, RequestSet::ALL);
        }
        for open in ["a *:* rwm", "* *:* rwm"] {
            let (major, minor) = (Span::up_to(MAX_MAJOR), Span::up_to(MAX_MINOR));
            let pattern = Pattern { kind: None, major, minor, requests: RequestSet::ALL };
            assert_eq!(numbers(open), pattern);
        }
        assert_eq!(parse(b"/dev/nvidia 0"), Ok(DeviceArgument::Node(b"/dev/nvidia 0")));
        for name in ["nvidia0", "GPU-5f3c", "0000:1b:00.0", "dri/renderD128", "3", "195:0", "nvidia0-3"] {
            assert_eq!(parse(name.as_bytes()), Ok(DeviceArgument::Name(name)));
        }
    }

    /// Make sure that a text outside of the grammar is refused with the reason.
    #[test]
    fn bad() {
        for (text, why) in [
            ("", BadDevice::Shape),
            ("c", BadDevice::Shape),
            ("c 195", BadDevice::Shape),
            ("c 195:3 rw x", BadDevice::Shape),
            ("c\t195:3", BadDevice::Shape),
            (" c 195:3", BadDevice::Shape),
            ("c:195:3", BadDevice::Colon),
            ("b:8:0", BadDevice::Colon),
            ("d 195:3", BadDevice::Kind),
            ("c 4096:3", BadDevice::Major),
            ("c :3", BadDevice::Major),
            ("c -1:3", BadDevice::Major),
            ("c 195:", BadDevice::Minor),
            ("c 195:1048576", BadDevice::Minor),
            ("c 195:99999999999999999999", BadDevice::Minor),
            ("c 195:3:4", BadDevice::Minor),
            ("c 195:3-", BadDevice::Minor),
            ("c 195:3-2", BadDevice::Minor),
            ("c 195:0-1048576", BadDevice::Minor),
            ("c 195:3 x", BadDevice::Access),
            ("c 195:3 rr", BadDevice::Access),
            ("c 195:3 rm", BadDevice::Access),
            ("c 195:3 rwmf", BadDevice::Access),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(why), "{text}");
        }
    }
}
