//! The decoder against recorded kernel verdicts, on programs made by real
//! software. Needs no privileges.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "this is test code: a surprise ends the test"
)]

mod support;

use gpumap::model::{Device, Request, Verdict};
use gpumap::observation::{Map, Program};
use support::bench::Facts;
use support::captures::{Capture, all, directory};
use support::verify::{Decode, Interpret, Judge};

/// Captures whose neighbours in the effective list were not captured: only the
/// program alone can be checked.
const NEIGHBOUR_MISSING: [&str; 0] = [];

fn captures() -> Vec<Capture> {
    let captures = all(&directory());
    if captures.is_empty() {
        eprintln!("skipped: no captures in {}", directory().display());
    }
    captures
}

fn facts(programs: Vec<Program>, maps: Vec<Map>) -> Facts {
    Facts { programs, maps, cgroup_id: 1, devices: Vec::new(), allowed: Vec::new() }
}

/// The answers of `judge` that are not the kernel's.
fn differences(facts: &Facts, recorded: &[(Device, Request, Verdict)], judge: &mut dyn Judge) -> Vec<String> {
    let questions: Vec<(Device, Request)> = recorded.iter().map(|row| (row.0, row.1)).collect();
    let verdicts = judge.verdicts(facts, &questions);
    recorded
        .iter()
        .zip(verdicts)
        .filter(|((_, _, kernel), verdict)| kernel != verdict)
        .map(|((device, request, kernel), verdict)| {
            format!("{device} {}: {verdict} here, {kernel} by the kernel", request.letters())
        })
        .collect()
}

fn report(name: &str, differences: &[String], failures: &mut Vec<String>) {
    if let Some(first) = differences.first() {
        failures.push(format!("{name}: {} differences, first {first}", differences.len()));
    }
}

fn alone(judge: &mut dyn Judge, wanted: impl Fn(&Capture) -> bool) {
    let mut failures = Vec::new();
    for capture in captures().into_iter().filter(wanted) {
        let facts = facts(vec![capture.program.clone()], capture.maps.clone());
        report(&capture.name, &differences(&facts, &capture.alone, judge), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The program with this id. Ids were reused for one program under two names
/// only, and across machines not at all.
fn by_id(captures: &[Capture], id: u32) -> Option<&Capture> {
    captures.iter().find(|capture| capture.program.id == id)
}

fn together(judge: &mut dyn Judge) {
    let captures = captures();
    let (mut failures, mut missing) = (Vec::new(), Vec::new());
    for capture in captures.iter().filter(|capture| !capture.together.is_empty()) {
        let parts: Option<Vec<&Capture>> = capture.effective.iter().map(|id| by_id(&captures, *id)).collect();
        let Some(parts) = parts else {
            missing.push(capture.name.as_str());
            continue;
        };
        let programs = parts.iter().map(|part| part.program.clone()).collect();
        let maps = parts.iter().flat_map(|part| part.maps.clone()).collect();
        let facts = facts(programs, maps);
        report(&capture.name, &differences(&facts, &capture.together, judge), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(missing, NEIGHBOUR_MISSING, "captures with neighbours that were not captured");
}

/// Make sure that every captured program is decoded exactly, nothing unknown.
#[test]
fn captured_programs_alone() {
    alone(&mut Decode, |_| true);
}

/// Make sure that programs captured together decide together as they did.
#[test]
fn captured_programs_together() {
    together(&mut Decode);
}

/// Make sure that the captures are read rightly: the bench's own interpreter
/// agrees with them. Map lookups are left out, its layout is the running
/// kernel's and needs root to learn.
#[test]
fn harness_agrees_with_captures() {
    alone(&mut Interpret, |capture| capture.maps.is_empty());
    together(&mut Interpret);
}

/// Make sure that captures hold what their names promise: a table of verdicts
/// for every program, both verdicts somewhere.
#[test]
fn captures_are_complete() {
    let captures = captures();
    for capture in &captures {
        assert!(!capture.alone.is_empty(), "{} has no verdicts", capture.name);
        assert!(capture.effective.contains(&capture.program.id), "{} was not in effect", capture.name);
    }
    for verdict in [Verdict::Allow, Verdict::Deny] {
        let found = captures.iter().flat_map(|capture| &capture.alone).any(|row| row.2 == verdict);
        assert!(found || captures.is_empty(), "no capture says {verdict}");
    }
}
