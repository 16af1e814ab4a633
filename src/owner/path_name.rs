//! One name in a path with its surroundings, and the grammars of cgroup names.

use crate::model::{Owner, OwnerKind};

/// A name in a path, with what is around it.
#[derive(Clone, Copy)]
pub(super) struct PathName<'p, 'n> {
    /// All names of the path.
    pub(super) names: &'n [&'p [u8]],
    /// Which of them it is.
    pub(super) at: usize,
    /// Whether it is in a user's own subtree, where the user makes the names.
    pub(super) users: bool,
    /// Whether systemd's units can be here: at the root of a hierarchy (that of
    /// the node, a container or a user's manager), or in slices below one.
    pub(super) top: bool,
}

/// An owner, and what of the path says so.
#[derive(Debug)]
pub(super) struct Match {
    /// Without the owners around it.
    pub(super) owner: Owner,
    /// The number of names that were read; at least one.
    pub(super) taken: usize,
    /// Whether another systemd may run below.
    pub(super) tree: bool,
    /// Kinds of owners that root's daemons make directly inside it. Any other name
    /// there was given by processes of the owner.
    pub(super) makes: &'static [OwnerKind],
}

impl<'p> PathName<'p, '_> {
    /// The name.
    pub(super) fn name(self) -> &'p [u8] {
        self.ahead(0).unwrap_or_default()
    }

    /// The name so many levels down.
    pub(super) fn ahead(self, levels: usize) -> Option<&'p [u8]> {
        self.names.get(self.at.checked_add(levels)?).copied()
    }

    /// The name of the directory above.
    pub(super) fn parent(self) -> Option<&'p [u8]> {
        self.names.get(self.at.checked_sub(1)?).copied()
    }

    /// An owner of this kind from this name alone.
    pub(super) fn owner(kind: OwnerKind) -> Owner {
        Owner { kind, ..Owner::default() }
    }
}

impl Match {
    /// An owner that `taken` names describe, without a systemd below.
    pub(super) fn plain(owner: Owner, taken: usize) -> Option<Self> {
        Some(Self { owner, taken, tree: false, makes: &[] })
    }

    /// An owner in which a systemd may run.
    pub(super) fn tree(owner: Owner, taken: usize) -> Option<Self> {
        Some(Self { owner, taken, tree: true, makes: &[] })
    }

    /// An owner inside which root's daemons make owners too.
    pub(super) fn making(self, makes: &'static [OwnerKind]) -> Self {
        Self { makes, ..self }
    }
}

/// The text between a prefix and a suffix, if it is not empty.
pub(super) fn between<'a>(name: &'a [u8], prefix: &str, suffix: &str) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(prefix.as_bytes())?.strip_suffix(suffix.as_bytes())?;
    (!rest.is_empty()).then_some(rest)
}

/// A number as programs write it: decimal, no sign, no leading zeros; `None` if it
/// is too large.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let canonical = text.iter().all(u8::is_ascii_digit) && (text.len() == 1 || text.first() != Some(&b'0'));
    std::str::from_utf8(text).ok().filter(|_| canonical)?.parse().ok()
}

/// A number with a prefix, such as `job_17`.
pub(super) fn numbered(name: &[u8], prefix: &str) -> Option<u64> {
    number(name.strip_prefix(prefix.as_bytes())?)
}

/// A uid.
pub(super) fn uid(text: &[u8]) -> Option<u32> {
    u32::try_from(number(text)?).ok()
}

/// The id of a container: 64 lower-case hex digits.
pub(super) fn container_id(text: &[u8]) -> Option<String> {
    let good = text.len() == 64 && text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    good.then(|| self::text(text))
}

/// Whether it is a UUID, `8-4-4-4-12` hexadecimal digits.
pub(super) fn is_uuid(text: &[u8]) -> bool {
    let groups = text.split(|byte| *byte == b'-');
    let hex = |group: &[u8]| group.iter().all(u8::is_ascii_hexdigit).then_some(group.len());
    groups.map(hex).eq([Some(8), Some(4), Some(4), Some(4), Some(12)])
}

/// A name as text; bytes that are not UTF-8 are written `\xNN`.
pub(super) fn text(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

/// Decodes the `\xNN` of systemd.unit(5). The `-` that replace `/` in unit names of
/// paths stay.
pub(super) fn unescape(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'\\', b'x', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        out.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { rest.get(4..).unwrap_or_default() } else { tail };
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only numbers that a program would write are numbers.
    #[test]
    fn numbers() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"18446744073709551616", b"+1", b"-1", b"01", b"1 ", b"\xff", b"1_2"] {
            assert_eq!(number(bad), None, "{}", bad.escape_ascii());
        }
        assert_eq!((number(b"0"), uid(b"4294967295"), uid(b"4294967296")), (Some(0), Some(u32::MAX), None));
    }

    /// Make sure that broken escapes stay as they are.
    #[test]
    fn escapes() {
        assert_eq!(unescape(br"qemu\x2d1\x2dvm"), b"qemu-1-vm");
        assert_eq!(unescape(br"a\x2\xg0\\x2d\x"), br"a\x2\xg0\-\x");
        assert_eq!(text(b"a\xffb\xc3\xbc"), "a\\xffb\u{fc}");
    }
}
