//! Compares docs/rooms.md with the code: which room imports which, where a
//! newcomer is sent, and whether words that are types are compared as texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A room's name with the rooms that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

/// Every Rust file below a directory.
pub(crate) fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.path());
    let files = entries.flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] });
    files.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}

/// What a file has besides tests and comments.
pub(crate) fn code(file: &Path) -> String {
    if file.file_name().is_some_and(|name| name == "tests.rs") {
        return String::new();
    }
    let text = fs::read_to_string(file).expect("a file");
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The names that follow each `crate::`, those of a list in braces, too.
fn named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    let names = |after: &str| match after.strip_prefix('{') {
        None => vec![word(after)],
        Some(list) => top_level(list).iter().map(|part| word(part.trim())).collect(),
    };
    code.split("crate::").skip(1).flat_map(names).collect()
}

/// The parts of a `use` list up to its closing brace.
fn top_level(list: &str) -> Vec<String> {
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => parts.push(String::new()),
            _ if depth == 0 => parts.last_mut().expect("a part").push(c),
            _ => {}
        }
    }
    parts
}

/// What the rooms of `src` really import.
fn imports() -> Imports {
    let source = root().join("src");
    let room = |path: &Path| {
        let inside = path.strip_prefix(&source).expect("a file of src");
        let first = inside.components().next().expect("a name").as_os_str();
        first.to_str().expect("text").trim_end_matches(".rs").to_owned()
    };
    let files = rust_files(&source);
    let rooms: BTreeSet<String> = files.iter().map(|file| room(file)).collect();
    let mut found = Imports::new();
    for file in &files {
        let own = room(file);
        let names = named(&code(file)).into_iter().filter(|name| rooms.contains(name) && *name != own);
        found.entry(own.clone()).or_default().extend(names);
    }
    found
}

/// What the table of rooms says. Its rows are ``| `src/room` | what | `a`, `b` |``.
fn table() -> Imports {
    let text = document("docs/rooms.md");
    let rows = text.lines().filter_map(|line| {
        let (room, rest) = line.strip_prefix("| `src/")?.split_once("` | ")?;
        let (_, imports) = rest.trim_end_matches(" |").rsplit_once(" | ")?;
        let names = imports.split('`').skip(1).step_by(2).map(str::to_owned);
        Some((room.to_owned(), names.collect()))
    });
    rows.collect()
}

/// Make sure that the table of rooms names every room and exactly what it
/// imports.
#[test]
fn rooms_import_what_the_table_says() {
    let mut real = imports();
    // The roots of the program and of its library are no rooms.
    for root in ["main", "lib", "fuzzing"] {
        real.remove(root);
    }
    let written = table();
    for (room, imports) in &real {
        assert_eq!(written.get(room), Some(imports), "src/{room} in docs/rooms.md");
    }
    assert_eq!(written.keys().collect::<Vec<_>>(), real.keys().collect::<Vec<_>>());
}

/// Make sure that no room imports one that needs it, at any distance.
#[test]
fn rooms_have_no_circles() {
    let mut left = imports();
    while let Some(room) = left.iter().find(|(_, imports)| imports.is_empty()).map(|(room, _)| room.clone()) {
        left.remove(&room);
        left.values_mut().for_each(|imports| {
            imports.remove(&room);
        });
    }
    assert_eq!(left, Imports::new(), "rooms that need each other");
}

/// Make sure that facts know nothing of answers.
#[test]
fn facts_know_nothing_of_answers() {
    let imports = imports();
    for facts in ["sys", "observation", "observe", "model"] {
        for answers in ["report", "analyse", "audit", "render", "commands"] {
            assert!(!imports[facts].contains(answers), "src/{facts} imports src/{answers}");
        }
    }
}

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
        let text = fs::read(root().join(format!("man/{name}.schema.json"))).expect("a schema");
        let schema = serde_json::from_slice(&text).expect("JSON");
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
    let source = root().join("src");
    for file in rust_files(&source) {
        let name = file.strip_prefix(&source).expect("a file of src").to_str().expect("text");
        if name.starts_with("model/") || READERS.contains(&name) {
            continue;
        }
        for line in code(&file).lines() {
            let found = compared(line).into_iter().find(|text| words.contains(*text));
            assert_eq!(found, None, "src/{name}: {line}");
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

/// Make sure that every file which the documents send a reader to is there, and that the
/// first of them can be read in one sitting.
#[test]
fn named_files_exist() {
    assert!(document("CONTRIBUTING.md").len() <= 10_000);
    for name in ["CONTRIBUTING.md", "docs/rooms.md", "docs/testing.md"] {
        for word in document(name).split('`').skip(1).step_by(2) {
            let is_path = ["src/", "tests/", "docs/", "bpf/", "fuzz/", "benches/", "fixtures/", "man/"]
                .iter()
                .any(|room| word.starts_with(room));
            let is_plain = word.bytes().all(|c| c.is_ascii_lowercase() || b"/._-".contains(&c));
            if is_path && is_plain {
                assert!(root().join(word).exists(), "{name}: {word}");
            }
        }
    }
}

/// Make sure that the wings of CONTRIBUTING.md have every room once.
#[test]
fn every_room_is_in_a_wing() {
    let text = document("CONTRIBUTING.md");
    let wings =
        text.lines().skip_while(|line| !line.starts_with("| wing |")).take_while(|line| !line.is_empty());
    let rooms = wings.skip(2).filter_map(|row| row.trim_end_matches(" |").rsplit_once(" | "));
    let named = rooms.flat_map(|(_, rooms)| rooms.split('`').skip(1).step_by(2));
    let mut named: Vec<&str> = named.filter(|name| !name.contains('/')).collect();
    named.sort_unstable();
    assert_eq!(named, table().keys().map(String::as_str).collect::<Vec<_>>());
}
