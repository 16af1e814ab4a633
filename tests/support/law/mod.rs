//! The law of views: whatever gpumap says about a cgroup's devices, in every view, as
//! text and as JSON, is what `check` says, and what `check` says is what the kernel does.

mod command;
mod rules;
mod texts;

use std::path::{Path, PathBuf};

use gpumap::model::{Device, DeviceType, Request, RequestSet, Verdict};
use gpumap::observation::Observation;
use gpumap::report::{Diff, GpuVerdict, Policy};
use serde_json::Value;

pub use command::snapshot;
use command::{Gpumap, question};

/// Questions that are explained.
const EXPLAINED: usize = 2;

/// What was asked, and the kernel's answers.
pub struct Asked {
    /// What gpumap saved before the first question.
    pub snapshot: PathBuf,
    pub cgroup: String,
    pub devices: Vec<Device>,
    pub allowed: Vec<RequestSet>,
}

impl Asked {
    fn questions(&self) -> Vec<(Device, Request)> {
        let of = |device: &Device| Request::ALL.map(|request| (*device, request));
        self.devices.iter().flat_map(of).collect()
    }
}

/// What `check` says of one question.
struct Said {
    device: Device,
    request: Request,
    verdict: Verdict,
}

/// Where views differ, in words.
type Differ = Result<(), String>;

fn must(holds: bool, difference: impl FnOnce() -> String) -> Differ {
    if holds { Ok(()) } else { Err(difference()) }
}

/// How many views are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Views {
    /// The JSON of `cgroup`, `prog`, `explain` and `diff` beside the lines of `check`.
    Most,
    /// Every text as well, and `diff` from both sides and beside itself: three times the
    /// work.
    All,
}

impl Views {
    /// All views of every fourth program, and of all with `GPUMAP_VIEWS=1`.
    pub fn of(number: u64) -> Self {
        let is_asked = std::env::var("GPUMAP_VIEWS").is_ok_and(|every| every == "1");
        if is_asked || number.is_multiple_of(4) { Self::All } else { Self::Most }
    }
}

/// Compares views with the kernel and with each other.
pub fn agree(asked: &Asked, views: Views) -> Differ {
    let gpumap = Gpumap { from: &asked.snapshot, all: views == Views::All };
    let said = checked(asked, &gpumap)?;
    explained(asked, &gpumap, &said)?;
    let policy = cgroup(asked, &gpumap, &said)?;
    program(asked, &gpumap, &said)?;
    differences(asked, &gpumap, &said, &policy)
}

/// `check`, as lines and as JSON, beside the kernel.
fn checked(asked: &Asked, gpumap: &Gpumap<'_>) -> Result<Vec<Said>, String> {
    let questions = asked.questions();
    let lines = gpumap.check(&asked.cgroup, &questions)?;
    if gpumap.all {
        let document = gpumap.check_json(&asked.cgroup, &questions)?;
        must(lines == document, || "check says other things as JSON".to_owned())?;
    }
    let said: Vec<Said> = questions
        .into_iter()
        .zip(lines)
        .map(|((device, request), verdict)| Said { device, request, verdict })
        .collect();
    let allowed = asked.allowed.iter().flat_map(|set| Request::ALL.map(|request| set.contains(request)));
    for (Said { device, request, verdict }, allowed) in said.iter().zip(allowed) {
        let kernel = if allowed { Verdict::Allow } else { Verdict::Deny };
        must([Verdict::Unknown, kernel].contains(verdict), || {
            format!("check: {verdict} for {}, {kernel} by the kernel", question(*device, *request))
        })?;
    }
    Ok(said)
}

fn explained(asked: &Asked, gpumap: &Gpumap<'_>, said: &[Said]) -> Differ {
    for Said { device, request, verdict } in said.iter().skip(5).step_by(37).take(EXPLAINED) {
        let question = question(*device, *request);
        let answer = gpumap.json(&["explain", "--cgroup", &asked.cgroup, &question])?;
        let found: Verdict = field(&answer["proof"]["verdict"])?;
        must(found == *verdict, || format!("explain says {found} and check {verdict} about {question}"))?;
        let programs = answer["proof"]["programs"].as_array().ok_or("no programs")?;
        let is_too_complex = programs.iter().any(|one| one["why"].to_string().contains("too complex"));
        must(!is_too_complex || *verdict == Verdict::Unknown, || {
            format!("explain finds {question} too complex, which is {verdict}: {programs:?}")
        })?;
        if gpumap.all {
            let text = gpumap.text(&["explain", "--cgroup", &asked.cgroup, &question])?;
            let says = text.contains(&format!("\nVerdict: {verdict}"));
            must(says, || format!("explain of {question}, which is {verdict}: {text}"))?;
        }
    }
    Ok(())
}

/// The rules and the GPUs of `cgroup`, alone and in the summary of a subtree.
fn cgroup(asked: &Asked, gpumap: &Gpumap<'_>, said: &[Said]) -> Result<Policy, String> {
    let mut answer = gpumap.json(&["cgroup", &asked.cgroup])?;
    let policy = policy_of(&mut answer)?;
    as_checked("cgroup", &policy, said, false)?;
    let gpus: Vec<GpuVerdict> = field(&answer["cgroups"][0]["gpus"])?;
    gpus.iter().try_for_each(|gpu| gpu_as_checked(gpu, said))?;
    if !gpumap.all {
        return Ok(policy);
    }
    let text = gpumap.text(&["cgroup", &asked.cgroup])?;
    texts::rules(&text, &policy).map_err(|why| format!("cgroup: {why}"))?;
    gpus.iter().try_for_each(|gpu| texts::gpu(&text, gpu))?;
    let mut summary = gpumap.json(&["cgroup", "-r", &asked.cgroup])?;
    let summed: Vec<GpuVerdict> = field(&summary["cgroups"][0]["gpus"])?;
    must(policy_of(&mut summary)? == policy && summed == gpus, || {
        "cgroup -r differs from cgroup".to_owned()
    })?;
    Ok(policy)
}

/// A policy of an answer: that of its first cgroup.
fn policy_of(answer: &mut Value) -> Result<Policy, String> {
    let id = answer["cgroups"][0]["policy"].as_str().ok_or("no policy")?.to_owned();
    let policy: Policy = field(&answer["policies"][&id])?;
    must(policy.id == id, || format!("the policy {} stands under {id}", policy.id))?;
    Ok(policy)
}

/// Rules beside `check`, which may know more if the rules are of a program `alone`.
fn as_checked(view: &str, policy: &Policy, said: &[Said], alone: bool) -> Differ {
    for Said { device, request, verdict } in said {
        let Some(found) = rules::verdict(policy, *device, *request) else { continue };
        let fits = found == *verdict || alone && found == Verdict::Unknown;
        must(fits, || {
            format!("{view}: {found} by the rules for {}, check: {verdict}", question(*device, *request))
        })?;
    }
    Ok(())
}

/// A row about a GPU beside what `check` says of its node.
fn gpu_as_checked(gpu: &GpuVerdict, said: &[Said]) -> Differ {
    let is_its = |one: &&Said| {
        one.device.kind == DeviceType::Char
            && (Some(one.device.major), Some(one.device.minor)) == (gpu.major, gpu.minor)
    };
    let its: Vec<&Said> = said.iter().filter(is_its).collect();
    let opened = its.iter().find(|one| one.request == Request::ReadWrite);
    let allowed = its.iter().filter(|one| one.verdict == Verdict::Allow).map(|one| one.request);
    let allowed: RequestSet = allowed.collect();
    let fits = opened
        .is_none_or(|opened| opened.verdict == gpu.verdict && allowed == rules::requests(&gpu.requests));
    must(fits, || {
        format!("the GPU {gpu:?}, check: {:?} for rw, {allowed} allowed", opened.map(|one| one.verdict))
    })
}

/// `prog`, if there is one program: it alone makes the policy, but for what depends on
/// the cgroup.
fn program(asked: &Asked, gpumap: &Gpumap<'_>, said: &[Said]) -> Differ {
    let text = std::fs::read_to_string(&asked.snapshot).map_err(|error| error.to_string())?;
    let observation: Observation = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let its = |cgroup: &&gpumap::observation::Cgroup| asked.cgroup.ends_with(cgroup.path.lossy().as_ref());
    let cgroup = observation.cgroups.iter().find(its).ok_or("the cgroup is not saved")?;
    let Some([id]) = cgroup.effective.known().map(Vec::as_slice) else { return Ok(()) };
    let id = id.to_string();
    let mut answer = gpumap.json(&["prog", &id])?;
    let policy: Policy = {
        let policy = answer["programs"][&id]["policy"].as_str().ok_or("no policy")?.to_owned();
        field(&answer["policies"][&policy].take())?
    };
    as_checked("prog", &policy, said, true)?;
    if !gpumap.all {
        return Ok(());
    }
    texts::rules(&gpumap.text(&["prog", &id])?, &policy).map_err(|why| format!("prog: {why}"))?;
    let diff = diff(gpumap, &id, &asked.cgroup)?;
    must(diff.changes.iter().all(|change| change.from == Verdict::Unknown), || {
        format!("diff of the program and its cgroup: {:?}", diff.changes)
    })
}

/// `diff` beside a cgroup without programs, both ways, and beside itself.
fn differences(asked: &Asked, gpumap: &Gpumap<'_>, said: &[Said], policy: &Policy) -> Differ {
    let there = diff(gpumap, "/", &asked.cgroup)?;
    let mut back = None;
    if gpumap.all {
        let own = diff(gpumap, &asked.cgroup, &asked.cgroup)?;
        let is_empty = own.changes.is_empty() && own.gpus.is_empty() && own.omitted.is_none();
        must(is_empty && own.equal != own.unknown, || format!("diff of a cgroup and itself: {own:?}"))?;
        must(!policy.exact || own.equal, || "an exact policy is not equal to itself".to_owned())?;
        back = Some(diff(gpumap, &asked.cgroup, "/")?);
    }
    for Said { device, request, verdict } in said {
        let about = |diff: &Diff| {
            let mut changes =
                diff.changes.iter().filter(|change| rules::covers(&change.rule.rule, *device, *request));
            let found = changes.next().map(|change| (change.from, change.to));
            (found, changes.next().is_some())
        };
        let (change, twice) = about(&there);
        let fits = match change {
            Some(change) => change == (Verdict::Allow, *verdict) && *verdict != Verdict::Allow && !twice,
            None => *verdict == Verdict::Allow || there.omitted.is_some(),
        };
        let mirror = change.map(|(from, to)| (to, from));
        let mirrored = back.as_ref().is_none_or(|back| about(back).0 == mirror);
        must(fits && mirrored, || {
            format!("diff: {change:?} for {}, check: {verdict}", question(*device, *request))
        })?;
    }
    Ok(())
}

/// `diff` as JSON, compared with its text.
fn diff(gpumap: &Gpumap<'_>, a: &str, b: &str) -> Result<Diff, String> {
    let diff: Diff = field(&gpumap.json(&["diff", a, b])?["diff"])?;
    if gpumap.all {
        let text = gpumap.text(&["diff", a, b])?;
        texts::changes(&text, &diff).map_err(|why| format!("diff {a} {b}: {why}"))?;
    }
    Ok(diff)
}

fn field<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|error| format!("{error}: {value}"))
}

/// A directory for what is saved, that goes with the value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("gpumap-law-{}-{number}", std::process::id()));
        std::fs::create_dir(&dir).expect("a scratch directory");
        Self(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
