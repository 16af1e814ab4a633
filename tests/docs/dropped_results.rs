//! Where facts are read, no result of a call is dropped in silence: an empty place in an
//! answer means that gpumap looked there and it was empty. A line that makes a result an
//! option or asks only whether it succeeded says why in a comment on it or right above it.
//! Lines from before this rule are counted for each file in `dropped_results.txt`; a count
//! may fall, and `BLESS=1` writes it anew, but never rise.

use std::collections::BTreeMap;
use std::fs;

use crate::architecture::{root, rust_files};

/// The rooms that read the node.
const ROOMS: [&str; 7] = ["observe", "apply", "probing", "watch", "activity", "gpu", "doctor"];
const COUNTS: &str = "tests/docs/dropped_results.txt";
/// Ways to lose why a call failed.
const DROPS: [&str; 11] = [
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

/// The lines of a file that drop a result and do not say why.
fn silent(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let (mut found, mut above) = (Vec::new(), "");
    for line in code.lines().map(str::trim) {
        let is_dropped = DROPS.iter().any(|drop| line.contains(drop));
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
    let mut now = BTreeMap::new();
    for file in ROOMS.iter().flat_map(|room| rust_files(&root().join("src").join(room))) {
        if file.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).expect("a file");
        let name = file.strip_prefix(root()).expect("a file of the project").display().to_string();
        let lines: Vec<String> = silent(&text).into_iter().map(str::to_owned).collect();
        if !lines.is_empty() {
            now.insert(name, lines);
        }
    }
    let counts = fs::read_to_string(root().join(COUNTS)).unwrap_or_default();
    let known: BTreeMap<&str, usize> = counts
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, count)| (name, count.parse().expect("a count")))
        .collect();
    let is_blessed = std::env::var_os("BLESS").is_some();
    for (name, lines) in now.iter().filter(|_| !counts.is_empty()) {
        let allowed = known.get(name.as_str()).copied().unwrap_or(0);
        assert!(
            lines.len() <= allowed,
            "{name} drops more results without a reason than the {allowed} of before; handle the failure \
             (sys::absence), or say in a comment why nothing is lost:\n  {}",
            lines.join("\n  ")
        );
    }
    let table: String = now.iter().map(|(name, lines)| format!("{name} {}\n", lines.len())).collect();
    if is_blessed {
        fs::write(root().join(COUNTS), table).expect("written");
    } else {
        assert_eq!(
            counts, table,
            "fewer results are dropped than {COUNTS} says: BLESS=1 cargo test --test docs"
        );
    }
}

/// Make sure that the ways to drop a result are seen, and that a reason counts.
#[test]
fn what_is_dropped() {
    let drops = [
        "let x = fs::read(path).ok();",
        "Err(_) => None,",
        "if path.exists() {",
        "read().map_err(|_| Gone)?",
    ];
    for line in drops {
        assert_eq!(silent(line), [line]);
        assert!(silent(&format!("// Why not.\n{line}")).is_empty());
    }
    assert!(silent("let x = text.parse().ok();\nlet y = meta.file_type().is_dir();").is_empty());
}
