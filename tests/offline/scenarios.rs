//! The scenarios of `fixtures/scenarios`: facts shaped from documents, and what
//! gpumap must make of them. What is expected was written by hand from the
//! documents; `SNAPSHOTS=overwrite` writes the observations and screens anew,
//! never the expectations.

use crate::support::scenario;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpumap::analyse::{self, CallerAllocation};
use gpumap::model::{GpuKey, Numbers, Owner};
use gpumap::observation::Observation;
use gpumap::owner::JobName;
use gpumap::report::{Asked, Gpu, GpuSet, Leftover, NodeAnswer, OwnerSets, Process};
use serde::Deserialize;
use snapbox::data::DataFormat;
use snapbox::{Data, assert_data_eq};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/scenarios")
}

fn is_node(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_digit())
}

fn observation(name: &str) -> Observation {
    let bytes = fs::read(fixtures().join(format!("{name}.json"))).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn expected<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let text = fs::read_to_string(fixtures().join(format!("{name}.expected.json"))).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}.expected.json: {error}"))
}

/// Make sure that the files are what the code in `support/scenario` makes.
#[test]
fn observations_are_written() {
    for scene in scenario::all() {
        let path = fixtures().join(format!("{}.json", scene.name));
        assert_data_eq!(scene.text(), Data::read_from(&path, Some(DataFormat::Text)).raw());
    }
}

/// Make sure that no file of the directory is forgotten, and each row is there.
#[test]
fn every_file_is_checked() {
    let known: BTreeSet<String> = scenario::all().iter().map(|scene| scene.name.to_owned()).collect();
    let files = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().file_name());
    let files = files.map(|name| name.into_string().unwrap());
    let found: BTreeSet<String> = files
        .filter_map(|name| Some(name.strip_suffix(".json")?.to_owned()))
        .map(|name| name.trim_end_matches(".expected").to_owned())
        .collect();
    assert_eq!(found, known);
    for row in 1..=20 {
        assert!(known.iter().any(|name| name.starts_with(&format!("{row:02}-"))), "row {row}");
    }
}

/// Make sure that programs are written as Slurm itself writes them.
#[test]
fn programs_are_those_of_slurm() {
    use scenario::programs::slurm;
    for (capture, granted) in [("job_1", &[0][..]), ("job_2", &[1, 2]), ("job_3", &[])] {
        let rules: Vec<_> = (0..4).map(|minor| (195, minor, granted.contains(&minor))).collect();
        let path = fixtures().join(format!("../programs/slurm/22.05.8-{capture}.xlated"));
        assert_eq!(slurm(&rules), fs::read(path).unwrap(), "{capture}");
    }
}

/// What is expected of a node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    #[serde(rename = "note")]
    _note: String,
    owners: Vec<Rows>,
    processes: BTreeMap<u32, Asks>,
}

/// Owners with the same sets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rows {
    of: Vec<String>,
    processes: usize,
    allocated: Set,
    allowed: Set,
    visible: Set,
    held: Set,
    #[serde(default)]
    shares: Vec<String>,
}

/// A set by PCI address: a list if all of it is certain.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Set {
    Certain(BTreeSet<String>),
    Other(OtherSet),
}

/// `known` null is nothing known at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherSet {
    known: Option<BTreeSet<String>>,
    #[serde(default)]
    instances: BTreeSet<String>,
    #[serde(default)]
    unknown: BTreeSet<String>,
    #[serde(default)]
    source: Option<String>,
}

/// What a process asks for and says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asks {
    at_exec: Option<Environment>,
    /// As at exec if left out.
    live: Option<Environment>,
    held: Option<Vec<String>>,
    #[serde(default)]
    held_instances: Vec<String>,
    claim: Option<Says>,
}

/// In the order in which the process counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Environment {
    state: String,
    gpus: Option<Vec<String>>,
    #[serde(default)]
    instances: Vec<String>,
    cut: Option<String>,
    confidence: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Says {
    job: u64,
    agrees: Option<bool>,
    #[serde(default)]
    outside: bool,
}

/// PCI addresses for keys, in what gpumap answers.
struct Names(BTreeMap<String, String>);

impl Names {
    fn new(gpus: &[Gpu]) -> Self {
        let name = |gpu: &Gpu| (gpu.key.to_string(), gpu.pci.clone().unwrap());
        Self(gpus.iter().map(name).collect())
    }

    /// `KEY` or `KEY/GI/CI`.
    fn of(&self, key: &str) -> String {
        let (key, rest) = key.split_once('/').map_or((key, None), |(key, rest)| (key, Some(rest)));
        let pci = self.0.get(key).unwrap_or_else(|| panic!("no GPU has the key {key}"));
        rest.map_or_else(|| pci.clone(), |rest| format!("{pci}/{rest}"))
    }

    fn all<C: FromIterator<String>>(&self, keys: &[GpuKey]) -> C {
        keys.iter().map(|key| self.of(key)).collect()
    }

    fn set(&self, set: &GpuSet) -> OtherSet {
        OtherSet {
            known: set.gpus.as_ref().map(|gpus| self.all(gpus)),
            instances: self.all(&set.instances),
            unknown: self.all(&set.unknown),
            source: set.source.as_ref().map(ToString::to_string),
        }
    }

    fn asked(&self, asked: &Asked) -> Environment {
        Environment {
            state: asked.state.to_string(),
            gpus: asked.gpus.as_ref().map(|gpus| self.all(gpus)),
            instances: self.all(&asked.instances),
            cut: asked.cut.as_ref().map(|cut| cut.code.to_string()),
            confidence: asked.confidence.to_string(),
        }
    }
}

impl Set {
    fn full(self) -> OtherSet {
        match self {
            Self::Certain(gpus) => OtherSet { known: Some(gpus), ..OtherSet::default() },
            Self::Other(set) => set,
        }
    }
}

/// What differs, in words.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, actual: &T, expected: &T) {
        if actual != expected {
            self.0.push(format!("{what}\n    expected {expected:?}\n    answered {actual:?}"));
        }
    }
}

/// `slurm 7 step 0+1 task 0`, `unit nvidia-mps.service`.
fn label(owner: &Owner) -> String {
    let mut label = owner.kind.to_string();
    let name = owner.name.clone().or_else(|| owner.container.as_ref().map(|id| id[..12].to_owned()));
    label.extend(name.map(|name| format!(" {name}")));
    label.extend(owner.job_id.map(|job| format!(" {job}")));
    label.extend(owner.step.as_ref().map(|step| format!(" step {step}")));
    label.extend(owner.het_component.map(|component| format!("+{component}")));
    label.extend(owner.task.as_ref().map(|task| format!(" task {task}")));
    label
}

fn compare_owner(row: &OwnerSets, expected: Rows, label: &str, names: &Names, found: &mut Differences) {
    found.compare(&format!("{label}: number of processes"), &row.processes, &expected.processes);
    for (what, set, expected) in [
        ("allocated", &row.allocated, expected.allocated),
        ("allowed", &row.allowed, expected.allowed),
        ("visible", &row.visible, expected.visible),
        ("held", &row.held, expected.held),
    ] {
        found.compare(&format!("{label}: {what} (why: {:?})", set.why), &names.set(set), &expected.full());
    }
    found.compare(
        &format!("{label}: shares"),
        &row.shares.iter().map(ToString::to_string).collect(),
        &expected.shares,
    );
}

fn compare_process(process: &Process, expected: &Asks, names: &Names, found: &mut Differences) {
    let pid = process.pid;
    let visible = process.visible.as_ref();
    let at_exec = visible.map(|visible| names.asked(&visible.at_exec));
    found.compare(&format!("{pid}: visible at exec"), &at_exec, &expected.at_exec);
    let live = visible.map(|visible| names.asked(&visible.live));
    found.compare(
        &format!("{pid}: visible now"),
        &live,
        expected.live.as_ref().map_or(&expected.at_exec, |_| &expected.live),
    );
    let held = process.held.as_ref().map(|held| names.all(held));
    found.compare(&format!("{pid}: held"), &held, &expected.held);
    let instances: Vec<String> = names.all(&process.held_instances);
    found.compare(&format!("{pid}: held instances"), &instances, &expected.held_instances);
    let claim = process.claim.as_ref().map(|claim| Says {
        job: claim.job_id.unwrap_or_default(),
        agrees: claim.agrees,
        outside: claim.outside,
    });
    found.compare(&format!("{pid}: claim"), &claim, &expected.claim);
}

fn compare_node(payload: &NodeAnswer, expected: Node) -> Differences {
    let names = Names::new(&payload.gpus);
    let mut found = Differences::default();
    let owners = payload.owners.as_deref().unwrap();
    let mut rows: BTreeMap<String, &OwnerSets> = owners.iter().map(|row| (label(&row.owner), row)).collect();
    assert_eq!(rows.len(), owners.len(), "labels are unique");
    for rows_expected in expected.owners {
        for label in rows_expected.of.clone() {
            match rows.remove(&label) {
                None => found.0.push(format!("{label}: is not in the answer")),
                Some(row) => compare_owner(row, rows_expected.clone(), &label, &names, &mut found),
            }
        }
    }
    found.compare("owners that nobody expects", &rows.into_keys().collect::<Vec<_>>(), &Vec::new());
    let processes = payload.cgroups.iter().flat_map(|cgroup| &cgroup.processes);
    let mut processes: BTreeMap<u32, &Process> = processes
        .filter(|process| process.comm != "slurmstepd")
        .map(|process| (process.pid, process))
        .collect();
    for (pid, asks) in &expected.processes {
        match processes.remove(pid) {
            None => found.0.push(format!("process {pid}: is not in the answer")),
            Some(process) => compare_process(process, asks, &names, &mut found),
        }
    }
    found.compare("processes that nobody expects", &processes.into_keys().collect::<Vec<_>>(), &Vec::new());
    found
}

/// Make sure that the four sets of every owner, and what every process asks
/// for, are what the documents say.
#[test]
fn sets_are_as_documented() {
    let mut all = Vec::new();
    for scene in scenario::all().iter().filter(|scene| is_node(scene.name)) {
        let payload = analyse::node(
            &observation(scene.name),
            &CallerAllocation::default(),
            &gpumap::analyse::TimeLimit::default(),
        )
        .unwrap();
        let found = compare_node(&payload, expected(scene.name));
        all.extend(found.0.into_iter().map(|difference| format!("{}: {difference}", scene.name)));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// Make sure that what is missing is said to be missing for the right reason.
#[test]
fn reasons_are_true() {
    let why = |name: &str, wanted: &str| {
        let payload = analyse::node(
            &observation(name),
            &CallerAllocation::default(),
            &gpumap::analyse::TimeLimit::default(),
        )
        .unwrap();
        let owners = payload.owners.unwrap();
        let row = owners.iter().find(|row| label(&row.owner) == wanted).unwrap();
        (row.allocated.why.join("; "), row.visible.why.join("; "))
    };
    let task = why("15-gpus-per-task", "slurm 7 step 0 task 1").0;
    assert_eq!(task, "Slurm tells the GPUs of a job and of a step, not those of a task");
    let unit = why("18-mps", "unit nvidia-mps.service").0;
    assert_eq!(unit, "no scheduler that gpumap can ask allocates to it");
    let silent = "no environment of its processes says it (SLURM_JOB_GPUS, SLURM_STEP_GPUS)";
    assert_eq!(why("07-no-gpu", "slurm 7").0, silent);
    assert_eq!(why("20-heterogeneous", "slurm 201").0, silent);
    let unread = "what it asks for now could not be read: the executable has no symbol environ";
    assert_eq!(why("09-ray-unread", "slurm 7").1, unread);
    assert!(why("13-mig", "slurm 8").1.contains("the kernel does not tell the UUIDs of MIG instances"));
}

fn node(name: &str) -> NodeAnswer {
    analyse::node(&observation(name), &CallerAllocation::default(), &gpumap::analyse::TimeLimit::default())
        .unwrap()
}

/// Make sure that what was opened before the rules came is marked, in the
/// process and in every owner around it, and nothing else is.
#[test]
fn held_but_denied_is_marked() {
    let payload = node("11-held-but-denied");
    let names = Names::new(&payload.gpus);
    for row in payload.owners.as_deref().unwrap() {
        assert_eq!(names.all::<Vec<_>>(&row.held_denied), ["0000:af:00.0"], "{}", label(&row.owner));
    }
    for name in ["01-one-gpu", "13-mig", "17-htcondor", "18-mps"] {
        assert!(node(name).owners.unwrap().iter().all(|row| row.held_denied.is_empty()), "{name}");
    }
}

/// Make sure that the instances of a GPU have verdicts of their own.
#[test]
fn instances_have_verdicts() {
    let payload = node("13-mig");
    let cgroups = payload.cgroups;
    let task = |job: &str| {
        let cgroup =
            cgroups.iter().find(|cgroup| cgroup.path.ends_with(&format!("{job}/step_batch/user/task_0")));
        let gpu = &cgroup.unwrap().gpus[0];
        gpu.instances.iter().map(|part| part.verdict.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(task("job_7"), ["allow", "deny", "deny"]);
    assert_eq!(task("job_8"), ["deny", "allow", "deny"]);
}

/// Make sure that a rule with a major of another boot says whose it is now.
#[test]
fn majors_have_names() {
    let policies = node("19-stale-major").policies;
    let mut named = policies.values().flat_map(|policy| &policy.rules).filter(|rule| !rule.names.is_empty());
    let named_rule = named.next().unwrap();
    assert_eq!(named_rule.rule.major, Numbers::one(510));
    assert_eq!(named_rule.names, ["nvidia-caps"]);
    assert!(named.next().is_none());
}

/// Make sure that start times are told as times of day, or not at all.
#[test]
fn start_times() {
    let started = |observation: &Observation| {
        let cgroups =
            analyse::node(observation, &CallerAllocation::default(), &gpumap::analyse::TimeLimit::default())
                .unwrap()
                .cgroups;
        let mut processes = cgroups.into_iter().flat_map(|cgroup| cgroup.processes);
        processes.find(|process| process.pid == 702).unwrap().started_at
    };
    let mut observation = observation("11-held-but-denied");
    assert_eq!(started(&observation), Some("2026-11-21T06:00:05Z".into()));
    observation.host.ticks_per_second = Some(0);
    assert_eq!(started(&observation), None);
    observation.host.ticks_per_second = Some(1);
    observation.host.boot_time = Some("yesterday".into());
    assert_eq!(started(&observation), None);
}

/// What is expected of `leftovers --job 7`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Left {
    #[serde(rename = "note")]
    _note: String,
    leftovers: BTreeMap<u32, Holds>,
    exit: i32,
}

/// Why a process is listed and with which GPUs; whether anybody could see what
/// it holds.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Holds {
    by: String,
    gpus: Vec<String>,
    seen: bool,
}

/// Make sure that of all that looks like a job's, only what is its counts.
#[test]
fn leftovers_are_the_jobs() {
    for scene in scenario::all().iter().filter(|scene| !is_node(scene.name)) {
        let name = scene.name;
        let expected: Left = expected(name);
        let payload = analyse::leftovers(
            &observation(name),
            &JobName::Number(7),
            &CallerAllocation::default(),
            &gpumap::analyse::TimeLimit::default(),
        )
        .unwrap();
        let names = Names::new(&payload.gpus);
        let holds = |leftover: &Leftover| Holds {
            by: leftover.belongs_by.to_string(),
            gpus: names.all(&leftover.gpus),
            seen: leftover.process.held.is_some(),
        };
        let found = payload.leftovers.iter();
        let found: BTreeMap<u32, Holds> =
            found.map(|leftover| (leftover.process.pid, holds(leftover))).collect();
        assert_eq!(found, expected.leftovers, "{name}");
        for more in [None, Some("--porcelain")] {
            let args = ["leftovers", "--job", "7"].into_iter().chain(more).collect::<Vec<_>>();
            assert_eq!(run(name, &args).2, expected.exit, "{name} {args:?}");
        }
    }
}

fn run(name: &str, args: &[&str]) -> (String, String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_gpumap"))
        .arg("--from")
        .arg(fixtures().join(format!("{name}.json")))
        .args(args)
        .env_remove("CLICOLOR_FORCE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr), output.status.code().unwrap())
}

/// Make sure that the screens are those stored beside the observations:
/// `NAME/commands` has a command line each.
#[test]
fn screens() {
    for scene in scenario::all() {
        let dir = fixtures().join(scene.name);
        let commands = fs::read_to_string(dir.join("commands")).unwrap();
        for (number, line) in commands.lines().enumerate() {
            let args: Vec<&str> = line.split_whitespace().collect();
            let (out, err, code) = run(scene.name, &args);
            let actual = format!("$ gpumap {line}\n{out}{err}exit {code}\n");
            let path = dir.join(format!("{number:02}.txt"));
            assert_data_eq!(actual, Data::read_from(&path, Some(DataFormat::Text)).raw());
        }
    }
}
