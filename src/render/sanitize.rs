//! Makes hostile text visible.
//!
//! Users choose cgroup names, command names and file names. On a terminal such
//! text could move the cursor, recolour a verdict or, with direction marks,
//! show a line in another order than it has; in a pipe it could forge a line.
//! So it is the same everywhere: what does not show itself is written as an
//! escape. A backslash stays as it is (systemd's unit names are full of them),
//! so the text is for eyes; programs read the JSON.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text from the system, safe to print.
pub fn text(text: &str) -> Cow<'_, str> {
    if text.bytes().all(is_plain_ascii) || !text.chars().any(is_hostile) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push(&mut out, c);
    }
    out.into()
}

/// Bytes from the system, safe to print: invalid UTF-8 becomes `\xff`.
pub fn bytes(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(valid) = std::str::from_utf8(bytes) {
        return text(valid);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.push_str(&text(chunk.valid()));
        for byte in chunk.invalid() {
            let _infallible = write!(out, "\\x{byte:02x}");
        }
    }
    out.into()
}

/// Text of a report, which contains text that is not UTF-8 lossily and also as hex.
pub fn with_hex<'a>(lossy: &'a str, hex: Option<&str>) -> Cow<'a, str> {
    match hex.and_then(decode) {
        Some(raw) => bytes(&raw).into_owned().into(),
        None => text(lossy),
    }
}

/// Text from the system in at most `max` characters, safe to print; the rest is
/// replaced by `end`. Reads no more of a long text than that.
pub fn short(long: &str, max: usize, end: &str) -> String {
    let head: String = long.chars().take(max.saturating_add(1)).collect();
    cut(&text(&head), max, end)
}

/// The same for text of a report, which contains text that is not UTF-8 also as hex.
pub fn short_with_hex(lossy: &str, hex: Option<&str>, max: usize) -> String {
    let bytes = max.saturating_add(1).saturating_mul(4);
    match hex.map(|hex| hex.get(..bytes.saturating_mul(2)).unwrap_or(hex)).and_then(decode) {
        Some(raw) => cut(&self::bytes(&raw), max, "…"),
        None => short(lossy, max, "…"),
    }
}

fn cut(safe: &str, max: usize, end: &str) -> String {
    if safe.chars().count() <= max {
        return safe.to_owned();
    }
    safe.chars().take(max.saturating_sub(end.chars().count())).chain(end.chars()).collect()
}

/// Whether a character hides, moves or reorders the text around it.
pub(super) fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn is_plain_ascii(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn push(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if c.is_ascii_control() => {
            let _infallible = write!(out, "\\x{:02x}", u32::from(c));
        }
        c if is_hostile(c) => {
            let _infallible = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

fn decode(hex: &str) -> Option<Vec<u8>> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that ordinary names come through untouched and unallocated.
    #[test]
    fn plain_text_is_borrowed() {
        for plain in ["/system.slice/job_1", "dev-disk\\x2dby", "Ünïcödé 名前", ""] {
            assert!(matches!(text(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    /// Make sure that nothing invisible, moving or reordering survives.
    #[test]
    fn hostile_text_shows() {
        assert_eq!(text("a\x1b[31mb"), "a\\x1b[31mb");
        assert_eq!(text("a\nb\tc\r"), "a\\nb\\tc\\r");
        assert_eq!(text("\u{9b}2J"), "\\u{9b}2J");
        assert_eq!(text("x\u{202e}y\u{200b}z\u{feff}"), "x\\u{202e}y\\u{200b}z\\u{feff}");
        assert_eq!(text("\u{e0041}\u{2066}\x7f"), "\\u{e0041}\\u{2066}\\x7f");
        assert_eq!(bytes(b"job\xff\xfe\x07"), "job\\xff\\xfe\\x07");
        assert_eq!(with_hex("job\u{fffd}", Some("6a6f62ff")), "job\\xff");
        assert_eq!(with_hex("job", None), "job");
    }

    /// Make sure that long text is cut after it was made safe, and says so.
    #[test]
    fn shortened() {
        assert_eq!(short("abcdef", 6, "…"), "abcdef");
        assert_eq!(short("abcdefg", 6, "…"), "abcde…");
        assert_eq!(short("ab\x1b[31m", 6, "…"), "ab\\x1…");
        assert_eq!(short(&"x".repeat(2 << 20), 4, ""), "xxxx");
        assert_eq!(short_with_hex("\u{fffd}0", Some("ff30"), 8), "\\xff0");
        assert_eq!(short_with_hex("0", Some(&"30".repeat(1 << 20)), 3), "00…");
        assert_eq!(short_with_hex("0", Some("not hex"), 3), "0");
    }

    /// Make sure that no character at all leads out of printable text.
    #[test]
    fn no_control_survives() {
        for c in '\0'..=char::MAX {
            assert!(!text(&c.to_string()).chars().any(is_hostile), "{c:?}");
        }
    }
}
