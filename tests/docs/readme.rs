//! The README and the tour are kept true: their examples are run, their commands and
//! links exist. `BLESS=1 cargo test --test docs` writes the examples' output anew.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::shell_words;
use crate::source::{document, root};

const PROMPT: &str = "$ gpumap ";

/// What a command line prints, run in the root of the repository.
fn run(line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command
        .args(shell_words::split(line))
        .current_dir(root())
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// The text with what each example prints now.
fn with_fresh_examples(text: &str) -> String {
    let mut fresh = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        fresh.extend([line, "\n"]);
        if line == "```console" {
            lines.by_ref().take_while(|line| *line != "```").filter(|line| line.starts_with("$ ")).for_each(
                |line| {
                    let arguments = line.strip_prefix(PROMPT);
                    assert!(arguments.is_some(), "an example of something else: {line}");
                    fresh.extend([line, "\n", &run(arguments.unwrap())]);
                },
            );
            fresh.push_str("```\n");
        }
    }
    fresh
}

/// Make sure that the examples show what gpumap prints.
#[test]
fn examples() {
    for name in ["README.md", "docs/tour.md"] {
        let text = document(name);
        let fresh = with_fresh_examples(&text);
        assert!(text.contains(PROMPT), "{name}: no examples");
        if std::env::var_os("BLESS").is_some() {
            fs::write(root().join(name), fresh).unwrap();
            continue;
        }
        for (number, (old, new)) in text.lines().zip(fresh.lines()).enumerate() {
            assert_eq!(old, new, "{name}:{}: run BLESS=1 cargo test --test docs", number + 1);
        }
        assert!(text == fresh, "{name} is not current: run BLESS=1 cargo test --test docs");
    }
}

/// Make sure that the command to try is the one whose output is shown, and
/// that `.ci/run` finds the one command that runs the tests.
#[test]
fn commands_to_try() {
    let text = document("README.md");
    let shown = text.lines().find_map(|line| line.strip_prefix(PROMPT)).unwrap();
    let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    assert_eq!(lines("cargo run "), [format!("cargo run -- {shown}")]);
    assert_eq!(lines("cargo test "), ["cargo test --locked --no-fail-fast"]);
}

/// Make sure that every command is in the README.
#[test]
fn every_command() {
    let text = document("README.md");
    for command in gpumap::cli::definition().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        assert!(text.contains(&format!("`{name}")), "README.md does not mention `{name}`");
    }
}

/// The pages of the root and of `docs/`.
fn pages() -> Vec<PathBuf> {
    let folders = [root().to_owned(), root().join("docs")];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "md"))
        .collect()
}

/// Make sure that links to files lead somewhere.
#[test]
fn links() {
    for name in pages() {
        let (text, folder) = (fs::read_to_string(&name).unwrap(), name.parent().unwrap());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap();
            assert!(link.contains("://") || folder.join(file).exists(), "{}: {link}", name.display());
        }
    }
}
