//! Every finding has a saved node that triggers it, one that is excused, and
//! one that is clean.
//!
//! `fixtures/audit/ID/{trigger,excused,clean}*.json` are observations; beside
//! each `NAME.json` there may be `NAME.toml`, a configuration, and `NAME.args`,
//! further arguments of `gpumap audit` on one line. What `gpumap audit` prints
//! of a `trigger*` stands in `NAME.txt`; `SNAPSHOTS=overwrite cargo test --test
//! offline findings` writes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gpumap::audit;
use snapbox::data::DataFormat;
use snapbox::{Data, assert_data_eq};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

/// The observations of one id.
fn nodes(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|path| path.extension().is_some_and(|it| it == "json")).collect()
}

fn audit_of(node: &Path, further: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(["--from", name(node), "audit"]).args(further);
    let config = node.with_extension("toml");
    if config.exists() {
        command.args(["--config", name(&config)]);
    } else {
        command.args(["--config", "/dev/null"]);
    }
    let args = fs::read_to_string(node.with_extension("args")).unwrap_or_default();
    command.args(args.split_whitespace()).current_dir(node.parent().unwrap());
    command.env_remove("CLICOLOR_FORCE").stdin(Stdio::null()).output().unwrap()
}

/// The ids that are found and not ignored.
fn ids(node: &Path) -> BTreeSet<String> {
    let output = audit_of(node, &["--json"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let failed = document["findings"].as_array().is_none();
    assert!(!failed, "{}: {}", node.display(), String::from_utf8_lossy(&output.stderr));
    let findings = document["findings"].as_array().unwrap().iter();
    let counted = findings.filter(|finding| finding["ignored"].is_null());
    counted.map(|finding| finding["id"].as_str().unwrap().to_owned()).collect()
}

/// Make sure that each finding fires where it must and nowhere else.
#[test]
fn every_fixture() {
    for dir in entries(&fixtures().join("audit")).iter().filter(|path| path.is_dir()) {
        let id = name(dir);
        assert!(audit::kind(id).is_some(), "fixtures/audit/{id} is of no finding");
        for node in nodes(dir) {
            let found = ids(&node);
            match name(&node) {
                file if file.starts_with("trigger") => assert!(found.contains(id), "{id}/{file}: {found:?}"),
                file if file.starts_with("excused") || file.starts_with("clean") => {
                    assert!(!found.contains(id), "{id}/{file}: {found:?}")
                }
                file => assert!(file.is_empty(), "{id}/{file}: neither trigger, excused nor clean"),
            }
        }
    }
}

/// Make sure that a finding reads as stored.
#[test]
fn texts() {
    for dir in entries(&fixtures().join("audit")).iter().filter(|path| path.is_dir()) {
        for node in nodes(dir).iter().filter(|node| name(node).starts_with("trigger")) {
            let output = audit_of(node, &[]);
            let code = output.status.code().unwrap();
            let (out, err) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
            let actual = format!("{}{}exit {code}\n", out.unwrap(), err.unwrap());
            let expected = node.with_extension("txt");
            assert_data_eq!(actual, Data::read_from(&expected, Some(DataFormat::Text)).raw());
        }
    }
}

/// Make sure that ids are unique and in kebab-case, that each has a page, and a
/// saved node of each sort.
#[test]
fn catalogue() {
    let mut seen = BTreeSet::new();
    for kind in audit::kinds() {
        let id = kind.id;
        assert!(seen.insert(id), "{id}: twice");
        let is_kebab = id.split('-').all(|word| {
            !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        });
        assert!(is_kebab, "{id}: not in kebab-case");
        assert!(!kind.title.trim().is_empty() && !kind.page.trim().is_empty(), "{id}: not documented");
        assert!(kind.title.lines().count() == 1 && !kind.title.ends_with('.'), "{id}: title");
        let dir = fixtures().join("audit").join(id);
        let names: Vec<PathBuf> = nodes(&dir);
        for sort in ["trigger", "excused", "clean"] {
            let is_there = names.iter().any(|node| name(node).starts_with(sort));
            assert!(is_there, "fixtures/audit/{id}/{sort}.json is missing");
        }
    }
}

/// Saved nodes on which all is well.
const CLEAN: [&str; 3] = ["runc-container", "slurm-4gpu", "systemd-before-reload"];

/// Make sure that a clean node is silent: notes, which say that isolation
/// holds, apart.
#[test]
fn clean_nodes() {
    for node in CLEAN {
        let output = audit_of(&fixtures().join(format!("nodes/{node}.json")), &[]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("No finding."), "{node}: {text}");
    }
}

/// Saved nodes with a fault that is found.
const FAULTY: [&str; 2] = ["slurm-runc-in-job", "systemd-reload"];

/// Make sure that the nodes of known faults are not.
#[test]
fn faulty_nodes() {
    for node in FAULTY {
        let found = ids(&fixtures().join(format!("nodes/{node}.json")));
        assert!(!found.is_empty(), "{node}: nothing found");
    }
}
