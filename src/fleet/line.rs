//! The lines that launchers write (`LABEL: text` of srun, clush and pdsh, and the headers of
//! `clush -b`), the names of nodes in labels and in names of files, and when two of them are
//! one node's.

use std::path::Path;

/// The longest label.
const LONGEST: usize = 128;

/// What some editors and shells write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without a byte order mark.
pub(super) fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}

/// The label of a line and what follows it.
///
/// A label is a host name or a number; srun pads numbers with blanks. No line of a
/// JSON document looks like this: its keys are quoted.
pub(super) fn labelled(line: &[u8]) -> Option<(&str, &[u8])> {
    let text = line.trim_ascii_start();
    let end = text.iter().take(LONGEST + 1).position(|byte| !is_of_name(*byte))?;
    let (label, rest) = text.split_at_checked(end).filter(|(label, _)| !label.is_empty())?;
    let rest = rest.strip_prefix(b":")?;
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(b" ")? };
    Some((std::str::from_utf8(label).ok()?, rest))
}

/// Whether a byte may stand in the name of a host.
pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// Whether a line is one of the rules around the headers of `clush -b` and `dshbak`.
pub(super) fn is_rule(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.len() >= 4 && line.iter().all(|byte| *byte == b'-')
}

/// Endings of files' names that are not part of a node's name.
const ENDINGS: [&str; 5] = ["gz", "json", "ndjson", "jsonl", "txt"];

/// The name of a node in a launcher's label; `None` for a number of a task and an
/// address.
pub(super) fn of_label(label: &str) -> Option<&str> {
    label.bytes().any(|byte| byte.is_ascii_alphabetic()).then_some(label)
}

/// The name of a node in the name of an input, such as `n1` in `answers/n1.json.gz`.
pub(super) fn of_file(input: &str) -> Option<&str> {
    let mut name = Path::new(input).file_name()?.to_str()?;
    while let Some((stem, _)) = name.rsplit_once('.').filter(|(_, ending)| ENDINGS.contains(ending)) {
        name = stem;
    }
    of_label(name).filter(|name| name.bytes().all(is_of_name))
}

/// Whether two names are those of one node: one may have the domain and the other not.
pub(super) fn is_same(a: &str, b: &str) -> bool {
    a == b || (short(a) == short(b) && !(a.contains('.') && b.contains('.')))
}

/// A name without its domain.
pub(super) fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that labels of every launcher are found, and no part of a document
    /// is taken for one.
    #[test]
    fn labels() {
        for (line, expected) in [
            ("0: {\"a\"", Some(("0", "{\"a\""))),
            ("  17: x: y", Some(("17", "x: y"))),
            ("gpu-01.site: {}", Some(("gpu-01.site", "{}"))),
            ("n1:", Some(("n1", ""))),
            ("n1:{}", None),
            ("  \"schema\": \"gpumap/1\",", None),
            ("{\"a\": 1}", None),
            ("}", None),
            (": x", None),
            ("two words: x", None),
        ] {
            let found = labelled(line.as_bytes());
            assert_eq!(found, expected.map(|(label, rest)| (label, rest.as_bytes())), "{line}");
        }
        assert_eq!(labelled(format!("{}: x", "n".repeat(200)).as_bytes()), None);
        assert!(is_rule(b"---------------\n") && !is_rule(b"--") && !is_rule(b"n[1-3]"));
    }

    #[test]
    fn names() {
        for (input, expected) in [
            ("n1.json", Some("n1")),
            ("a/b/n1.site.json.gz", Some("n1.site")),
            ("standard input", None),
            ("0.json", None),
            ("10.0.0.1.json", None),
            ("n1", Some("n1")),
            ("a/..", None),
            ("n 1.json", None),
        ] {
            assert_eq!(of_file(input), expected, "{input}");
        }
        assert_eq!((of_label("17"), of_label("10.1.2.3"), of_label("n1")), (None, None, Some("n1")));
        for (a, b, same) in
            [("n1", "n1", true), ("n1", "n1.site", true), ("n1.a", "n1.b", false), ("n1", "n2", false)]
        {
            assert_eq!((is_same(a, b), is_same(b, a)), (same, same), "{a} {b}");
        }
    }
}
