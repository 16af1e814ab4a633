//! Names of nodes in labels and in names of files, and when two of them are one node's.

use std::path::Path;

use super::line::is_of_name;

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
