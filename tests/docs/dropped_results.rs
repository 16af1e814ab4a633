//! Where facts are read, no result of a call is dropped in silence: an empty place in an
//! answer means that gpumap looked there and it was empty. A line that makes a result an
//! option or asks only whether it succeeded says why in a comment on it or right above it.

use crate::source::{Source, sources};

/// The rooms that read the node.
const ROOMS: [&str; 7] = ["observe", "repair", "probing", "watch", "activity", "gpu", "doctor"];
/// Ways to lose why a call failed.
const DROPS: [&str; 15] = [
    ".ok()",
    "map_err(|_|",
    "Err(_)",
    "let Ok(",
    ".is_ok()",
    ".is_err()",
    ".is_ok_and(",
    ".exists()",
    ".is_dir()",
    ".is_file()",
    ".flatten().flatten()",
    ".map_or(None,",
    ".unwrap_or_else(|_|",
    "Result::ok",
    // It ends where a call says `ENOENT`; `Dir::names` does not.
    "fs::read_dir(",
];
/// Calls that can fail: what stands in for their results says why.
const CALLS: [&str; 9] = [
    "fs::",
    "read_to_string(",
    "read_link(",
    "metadata(",
    ".stat()",
    ".link(",
    ".entries(",
    "getrlimit(",
    "effective()",
];
/// Of a failure of these there is nothing to tell: text is a number or it is not, and a
/// file that was looked at is of a kind.
const PURE: [&str; 8] = [
    "parse().ok()",
    "from_utf8(",
    "try_from(",
    "from_str_radix(",
    "strip_prefix(",
    "into_string().ok()",
    "binary_search",
    "file_type()",
];

/// The lines of code that drop a result and do not say why.
fn silent(code: &str) -> Vec<&str> {
    let (mut found, mut above) = (Vec::new(), "");
    for line in code.lines().map(str::trim) {
        let has_default = line.contains(".unwrap_or") || line.contains(".map_or(");
        let is_asked = line.contains("matches!(") && line.contains("Ok(");
        let is_dropped = is_asked
            || DROPS.iter().any(|drop| line.contains(drop))
            || (has_default && CALLS.iter().any(|call| line.contains(call)));
        let is_pure = PURE.iter().any(|pure| line.contains(pure));
        let is_told = line.contains("//") || above.starts_with("//");
        if is_dropped && !is_pure && !is_told {
            found.push(line);
        }
        above = line;
    }
    found
}

/// Make sure that no room drops a result without a reason.
#[test]
fn results_are_not_dropped() {
    let mut found = String::new();
    let reads = |source: &&Source| ROOMS.contains(&source.room());
    for source in sources().iter().filter(reads) {
        silent(&source.code).into_iter().for_each(|line| found += &format!("{}: {line}\n", source.name));
    }
    assert!(
        found.is_empty(),
        "these lines drop a result; handle the failure (sys::absence), or say in a comment right \
         above why nothing is lost:\n{found}"
    );
}

/// Make sure that the ways to drop a result are seen, and that a reason counts.
#[test]
fn what_is_dropped() {
    let drops = [
        "let x = fs::read(path).ok();",
        "Err(_) => None,",
        "if path.exists() {",
        "read().map_err(|_| Gone)?",
        "let text = fs::read_to_string(path).unwrap_or_default();",
        "let links = dir.stat().map_or(1, |stat| stat.links);",
        "for entry in fs::read_dir(path)? {",
        "hidden: matches!(visible(mount), Ok(None)),",
    ];
    for line in drops {
        assert_eq!(silent(line), [line]);
        assert!(silent(&format!("// Why not.\n{line}")).is_empty());
    }
    assert!(silent("let x = text.parse().ok();\nlet y = meta.file_type().is_dir();").is_empty());
}
