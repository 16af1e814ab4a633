//! Compares the decoder with recorded kernel verdicts, on programs made by real
//! software. Needs no privileges.

use crate::support::bench::Facts;
use crate::support::captures::{Capture, all, directory};
use crate::support::inspect;
use crate::support::skips::skip;
use crate::support::verify::{Decode, Interpret, Judge};
use gpumap::bytecode::{Insn, tag};
use gpumap::model::{Device, Request, Verdict};
use gpumap::observation::{Map, Program};

/// Captures whose neighbours in the effective list were not captured: only the
/// program alone can be checked.
const NEIGHBOUR_MISSING: [&str; 0] = [];

fn captures() -> Vec<Capture> {
    let captures = all(&directory());
    if captures.is_empty() {
        skip(&format!("no captures in {}", directory().display()));
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

/// Make sure that tags of this kernel and of older ones are known: those of
/// programs that the verifier left as they were. Linux 6.1 made one of them;
/// 531db05b114e9af3 is that of runc's default program in reports from old
/// kernels (opencontainers/runc, issue 4180).
#[test]
fn tags_are_known() {
    let mut checked = 0;
    for capture in captures().into_iter().filter(|capture| capture.program.calls.is_empty()) {
        if capture.name.contains("harden") {
            continue;
        }
        let insns = Insn::parse_all(&capture.program.xlated.known().expect("bytes").0).expect("whole slots");
        let mut tags = vec![capture.program.tag.clone()];
        if capture.name.contains("runc-1.1.5-default") {
            tags.push("531db05b114e9af3".to_owned());
        }
        for shown in tags {
            let number = u64::from_str_radix(&shown, 16).expect("a tag");
            assert!(tag::is_tag_of(&number.to_be_bytes(), &insns), "{}: {shown}", capture.name);
            assert!(!tag::is_tag_of(&(number ^ 1).to_be_bytes(), &insns), "{}: any tag", capture.name);
            checked += 1;
        }
    }
    assert!(checked > 35, "only {checked} tags");
}

/// Make sure that captured programs with helpers are exact where symbols are
/// hidden.
#[test]
fn captures_without_symbols() {
    let mut failures = Vec::new();
    let mut seen = 0;
    for mut capture in captures().into_iter().filter(|capture| !capture.program.calls.is_empty()) {
        inspect::hide(&mut capture.program);
        let facts = facts(vec![capture.program.clone()], capture.maps.clone());
        report(&capture.name, &differences(&facts, &capture.alone, &mut Decode), &mut failures);
        seen += 1;
    }
    assert!(seen > 0, "no capture calls helpers");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
