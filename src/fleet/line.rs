//! The lines that launchers write: `LABEL: text` of srun, clush and pdsh, and the
//! headers of `clush -b`.

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
}
