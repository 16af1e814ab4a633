//! Compares docs/rooms.md and CONTRIBUTING.md with the code: which room imports which,
//! and where a newcomer is sent.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::circles;
use crate::imports::Module;
use crate::source::{Source, document, root, sources};

/// A room's name with the rooms that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// What the rooms of `src` really import.
fn imports() -> Imports {
    let sources = sources();
    let rooms: BTreeSet<&str> = sources.iter().map(Source::room).collect();
    let mut found = Imports::new();
    for source in &sources {
        let module = Module::parse(&source.code);
        let inside = module.all_paths().filter(|path| path[0] == "crate").filter_map(|path| path.get(1));
        let others = inside.filter(|room| rooms.contains(room.as_str()) && *room != source.room());
        found.entry(source.room().to_owned()).or_default().extend(others.cloned());
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
    let with_examples =
        |rooms: BTreeSet<String>| rooms.into_iter().map(|room| (room, String::new())).collect();
    let needs = imports().into_iter().map(|(room, others)| (room, with_examples(others))).collect();
    assert_eq!(circles(needs), BTreeMap::new(), "rooms that need each other");
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
