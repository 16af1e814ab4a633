//! Compares every view of the command on the same programs: they must say the same.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use gpumap::model::{Device, DeviceType, Request, RequestSet, RuleType};
use gpumap::report::{Change, Mask, Policy, Rule};
use serde_json::Value;

use super::Asked;

/// Questions that are explained.
const EXPLAINED: usize = 3;

fn gpumap() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gpumap"))
}

/// Saves what gpumap sees of a cgroup.
pub fn snapshot(cgroup: &Path, to: &Path) {
    let status = gpumap().arg("snapshot").arg(cgroup).arg("-o").arg(to).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.code().is_some()), "gpumap snapshot");
}

/// Compares `check`, `explain`, rules, `diff` and JSON of the saved node and of the
/// live one with the kernel and with each other.
pub fn agree(asked: &Asked) -> Result<(), String> {
    let from = ["--from".to_owned(), asked.snapshot.to_string_lossy().into_owned()];
    let saved = check(asked, &from)?;
    let (rules, changes) = (rules(asked, &from)?, changes(asked, &from)?);
    let mut explained = 0;
    for (at, (device, request)) in questions(asked).into_iter().enumerate() {
        let verdict = &saved[at];
        let kernel = if asked.allowed[at / Request::ALL.len()].contains(request) { "allow" } else { "deny" };
        if verdict != kernel && verdict != "unknown" {
            return Err(format!(
                "check: {verdict} for {}, {kernel} by the kernel",
                question(device, request)
            ));
        }
        let said = verdict_by(&rules, device, request);
        if said.as_ref().is_some_and(|said| said != verdict) {
            return Err(format!("{said:?} by the rules for {}, check: {verdict}", question(device, request)));
        }
        let change = changes.iter().find(|change| covers(&change.rule, device, request));
        if change.is_some_and(|change| change.to.to_string() != *verdict) {
            return Err(format!("{change:?} by diff for {}, check: {verdict}", question(device, request)));
        }
        if explained < EXPLAINED && at % 37 == 5 {
            explained += 1;
            explain(asked, &from, &question(device, request), verdict)?;
        }
    }
    Ok(())
}

fn questions(asked: &Asked) -> Vec<(Device, Request)> {
    asked.devices.iter().flat_map(|device| Request::ALL.map(|request| (*device, request))).collect()
}

fn question(device: Device, request: Request) -> String {
    format!("{device} {}", request.letters())
}

/// What `check` says, question by question.
fn check(asked: &Asked, from: &[String]) -> Result<Vec<String>, String> {
    let lines: String =
        questions(asked).into_iter().map(|(device, request)| question(device, request) + "\n").collect();
    let mut child = gpumap()
        .args(["check", "--cgroup", &asked.cgroup, "-"])
        .args(from)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut input = child.stdin.take().ok_or("no pipe")?;
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    writer.join().map_err(|_| "the writer")?.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let verdicts: Vec<String> =
        text.lines().filter_map(|line| Some(line.split_once('\t')?.0.to_owned())).collect();
    match verdicts.len() == questions(asked).len() {
        true => Ok(verdicts),
        false => Err(format!("check answers {} questions: {:?}", verdicts.len(), output.status)),
    }
}

fn json(arguments: &[&str], from: &[String]) -> Result<Value, String> {
    let output =
        gpumap().args(arguments).args(from).arg("--json").output().map_err(|error| error.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{arguments:?}: {error}"))
}

/// What `diff --json` says beside a cgroup without programs.
fn changes(asked: &Asked, from: &[String]) -> Result<Vec<Change>, String> {
    let mut answer = json(&["diff", "/", &asked.cgroup], from)?;
    serde_json::from_value(answer["diff"]["changes"].take()).map_err(|error| format!("diff: {error}"))
}

/// The policy that `cgroup --json` shows.
fn rules(asked: &Asked, from: &[String]) -> Result<Policy, String> {
    let mut answer = json(&["cgroup", &asked.cgroup], from)?;
    let id = answer["cgroups"][0]["policy"].as_str().ok_or("no policy")?.to_owned();
    serde_json::from_value(answer["policies"][id].take()).map_err(|error| error.to_string())
}

/// What the rules say; `None` where they leave it to `check`, which they never do for
/// the usual numbers of GPUs.
fn verdict_by(policy: &Policy, device: Device, request: Request) -> Option<String> {
    let is_listed = device.kind == DeviceType::Char && device.major == 195 && device.minor < 16;
    match policy.rules.iter().find(|rule| covers(rule, device, request)) {
        Some(rule) => (is_listed || !rule.not_drawn).then(|| rule.verdict.to_string()),
        None => (is_listed || policy.omitted.is_none()).then(|| policy.default.to_string()),
    }
}

fn covers(rule: &Rule, device: Device, request: Request) -> bool {
    let within = |[first, last]: [u32; 2], mask: Option<Mask>, value: u32| {
        (first..=last).contains(&value) && mask.is_none_or(|mask| value & mask.mask == mask.value)
    };
    let kind = RuleType::from(Some(device.kind));
    [kind, RuleType::Any].contains(&rule.kind)
        && within(rule.major, rule.major_mask, device.major)
        && within(rule.minor, rule.minor_mask, device.minor)
        && requests(&rule.requests).contains(request)
}

/// The requests that are spelled so.
fn requests(spelled: &str) -> RequestSet {
    let all = (0..1 << Request::ALL.len()).map(|bits: u32| {
        Request::ALL
            .into_iter()
            .enumerate()
            .filter(move |(place, _)| bits >> place & 1 == 1)
            .map(|(_, one)| one)
    });
    let mut sets = all.map(Iterator::collect::<RequestSet>);
    sets.find(|set| set.to_string() == spelled).expect("requests as gpumap spells them")
}

fn explain(asked: &Asked, from: &[String], question: &str, verdict: &str) -> Result<(), String> {
    let answer = json(&["explain", "--cgroup", &asked.cgroup, question], from)?;
    let said = answer["proof"]["verdict"].as_str().unwrap_or_default();
    if said != verdict {
        return Err(format!("explain says {said} and check {verdict} about {question}"));
    }
    Ok(())
}
