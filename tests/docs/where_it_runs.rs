//! `docs/where-it-runs.md` has the table that `tests/machines/table.py` writes, with every
//! module of the tests that run under other kernels.

use std::collections::BTreeSet;

use crate::source::document;

const MARKS: [&str; 2] = ["<!-- written by tests/machines/table.py -->\n", "<!-- end -->"];

/// The cells of a line of the table.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
    inner.unwrap_or_else(|| panic!("no line of a table: {line}")).split(" | ").collect()
}

/// Whether a cell is as the script writes it: `?`, `12`, or `9, 1 failed, 2 skipped`.
fn is_result(cell: &str) -> bool {
    let mut parts = cell.split(", ");
    let passed = parts.next().is_some_and(|passed| passed.parse::<usize>().is_ok());
    let others = parts.all(|part| {
        part.split_once(' ').is_some_and(|(count, word)| {
            count.parse::<usize>().is_ok() && matches!(word, "failed" | "skipped")
        })
    });
    cell == "?" || passed && others
}

/// The modules of a test binary that have tests: those that its `main.rs` names, but
/// support.
fn modules(binary: &str) -> BTreeSet<String> {
    let main = document(&format!("tests/{binary}/main.rs"));
    let names = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.filter(|name| *name != "support").map(|name| format!("`{binary}::{name}`")).collect()
}

/// Make sure that the table names every module once, in order, with a result for each
/// machine.
#[test]
fn table() {
    let page = document("docs/where-it-runs.md");
    let table = page.split_once(MARKS[0]).and_then(|(_, rest)| rest.split_once(MARKS[1])).unwrap().0;
    let mut lines = table.lines();
    let head = cells(lines.next().unwrap());
    assert_eq!(head[0], "module");
    assert_eq!(cells(lines.next().unwrap()), vec!["---"; head.len()]);
    let rows: Vec<Vec<&str>> = lines.map(cells).collect();
    for row in &rows {
        assert_eq!(row.len(), head.len(), "{row:?}");
        assert!(row[1..].iter().all(|cell| is_result(cell)), "{row:?}");
    }
    let named: Vec<String> = rows.iter().map(|row| row[0].to_owned()).collect();
    let expected: Vec<String> = modules("kernel").into_iter().chain(modules("watch")).collect();
    assert_eq!(named, expected);
}
