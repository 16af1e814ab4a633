//! Words of closed sets are types inside of the program: no code compares a text with one.

use std::collections::BTreeSet;

use crate::source::{Source, document, sources};

/// Files that may compare texts with words of the schemas, because they read texts
/// that others wrote: Slurm, drivers, the kernel (names of namespaces), systemd,
/// people.
const READERS: [&str; 6] = [
    "allocation/gres.rs",
    "doctor/cgroups.rs",
    "gpu/label.rs",
    "policy/notation.rs",
    "unit/settings.rs",
    "probing/programs.rs",
];

/// The words of all closed sets in the schemas.
fn schema_words() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for name in ["gpumap-1", "gpumap-1.events", "gpumap.observation-1"] {
        let schema = document(&format!("man/{name}.schema.json")).parse().expect("JSON");
        collect_words(&schema, &mut words);
    }
    words
}

fn collect_words(schema: &serde_json::Value, words: &mut BTreeSet<String>) {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    words.extend(schema.get("enum").and_then(|list| list.as_array()).into_iter().flatten().filter_map(text));
    words.extend(schema.get("const").and_then(text));
    match schema {
        serde_json::Value::Object(fields) => fields.values().for_each(|value| collect_words(value, words)),
        serde_json::Value::Array(items) => items.iter().for_each(|value| collect_words(value, words)),
        _ => {}
    }
}

/// The texts that a line of code compares something with: those after `==` and
/// `!=`, those of patterns like `"a" | "b"`, and those before `=>`.
fn compared(line: &str) -> Vec<&str> {
    let pieces: Vec<&str> = line.split('"').collect();
    let texts = pieces.iter().enumerate().skip(1).step_by(2);
    let is_compared = |at: usize| {
        let before = pieces[at - 1].trim_end().trim_end_matches("Some(").trim_end_matches('&').trim();
        let after = pieces.get(at + 1).map_or("", |after| after.trim_start_matches(')').trim());
        let is_arm = before.is_empty() && (after.starts_with("=>") || after.starts_with("if "));
        before.ends_with("==") || before.ends_with("!=") || before == "|" || after == "|" || is_arm
    };
    texts.filter(|(at, _)| is_compared(*at)).map(|(_, text)| *text).collect()
}

/// Make sure that the words of closed sets are types inside of the program: no code
/// but the model's and that of [`READERS`] compares a text with one.
#[test]
fn words_of_closed_sets_are_types() {
    let words = schema_words();
    assert!(words.contains("slurm") && words.contains("zombie"), "the schemas have the words");
    let may_compare = |source: &Source| source.room() == "model" || READERS.contains(&source.name.as_str());
    for source in sources().iter().filter(|source| !may_compare(source)) {
        for line in source.code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let found = compared(line).into_iter().find(|text| words.contains(*text));
            assert_eq!(found, None, "src/{}: {line}", source.name);
        }
    }
}

/// Make sure that comparisons are seen, and that other texts are not.
#[test]
fn comparisons_are_found() {
    for line in
        ["kind == \"slurm\"", "\"slurm\" => 1,", "Some(\"slurm\" | \"x\") => 1", "a != Some(\"slurm\")"]
    {
        assert!(compared(line).contains(&"slurm"), "{line}");
    }
    for line in [
        "text(\"slurm\")",
        "let word = \"slurm\";",
        "(\"slurm\", OwnerKind::Slurm),",
        "or_else(|| \"slurm\")",
    ] {
        assert!(compared(line).is_empty(), "{line}");
    }
}
