//! Processes that come and go faster than they can be looked at, and those of which the
//! environment is gone: what they hold is found, or it is said that it is not known.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::attacker::{Attacker, build, run};
use crate::support::cgroup::{self, Cgroup};
use crate::support::slurm::spec::write_openable;
use crate::support::victim::Scratch;
use crate::support::wait::within;
use crate::support::{host, node};

/// The user that the job is of, and the first GPU.
const USER: u32 = 65534;
const GPU: &str = "/dev/full";
/// How long a process holds the GPU, in microseconds, before the next one takes it over.
const PERIODS: [&str; 4] = ["0", "300", "1000", "5000"];

/// A hierarchy, an inventory, and processes of a job.
struct Scene {
    top: Cgroup,
    scratch: Scratch,
    program: PathBuf,
    /// Each test has its own, since all processes of the node are looked at.
    job: u32,
}

impl Scene {
    fn new(job: u32) -> Self {
        let (top, scratch) = (Cgroup::new().unwrap(), Scratch::new());
        write_openable(scratch.path());
        let program = build(&scratch, "fleeting");
        Self { top, scratch, program, job }
    }

    /// The cgroup of the job's task, and one that is no job's.
    fn places(&self) -> [PathBuf; 2] {
        let task = format!("system.slice/slurmstepd.scope/job_{}/step_0/user/task_0", self.job);
        [self.top.path().join(task), self.top.path().join("elsewhere")]
    }

    /// Starts a process of the job's in a cgroup.
    fn start(&self, cgroup: &Path, words: &[&str]) -> Attacker {
        fs::create_dir_all(cgroup).unwrap();
        let (procs, job) = (cgroup.join("cgroup.procs"), self.job);
        let script = format!(
            "echo $$ > {}; export SLURM_JOB_ID={job}; exec setpriv --reuid={USER} --clear-groups \"$@\"",
            procs.display()
        );
        Attacker::start(Command::new("/bin/sh").args(["-c", &script, "sh"]).arg(&self.program).args(words))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut line = node::command(&["--json", "--gpu-root"]);
        line.arg(self.scratch.path()).arg("--cgroup-root").arg(self.top.path()).args(words);
        line
    }

    fn ask(&self, words: &[&str]) -> (Value, i32) {
        let (code, text) = run(&mut self.command(words));
        (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")), code)
    }

    fn left(&self, words: &[&str]) -> (Value, i32) {
        self.ask(&[&["leftovers", "--job", &self.job.to_string()], words].concat())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for place in self.places().iter().filter(|place| place.exists()) {
            let _ = fs::write(place.join("cgroup.kill"), "1");
            wait_until(|| is_empty(place));
        }
        cgroup::remove_below(self.top.path());
    }
}

fn is_empty(cgroup: &Path) -> bool {
    fs::read_to_string(cgroup.join("cgroup.procs")).unwrap().is_empty()
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + within(20);
    while !is_so() {
        assert!(Instant::now() < end, "it did not come to pass");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether an answer says that processes came and went, and is incomplete.
fn is_told(answer: &Value, code: i32) -> bool {
    let errors = answer["errors"].as_array().unwrap();
    let told = errors.iter().any(|error| error["code"] == "short-lived");
    told && code == 3 && answer["complete"] == false
}

fn is_left(answer: &Value, code: i32) -> bool {
    code == 1 && !answer["leftovers"].as_array().unwrap().is_empty()
}

fn holds(answer: &Value) -> bool {
    let owners = answer["owners"].as_array().unwrap().iter();
    owners.flat_map(|owner| owner["held"]["gpus"].as_array()).any(|gpus| !gpus.is_empty())
}

fn pids(document: &Value) -> Vec<u64> {
    let all = document["leftovers"].as_array().unwrap().iter();
    all.filter_map(|it| it["pid"].as_u64()).collect()
}

/// Make sure that nobody holds a GPU unseen by handing it on, in the job's cgroup or out of
/// it: each look finds a holder or says that it could not.
#[test]
fn relays_are_found_or_told() {
    let Some(_host) = host::exclusive() else { return };
    let scene = Scene::new(990_101);
    for place in scene.places() {
        for period in PERIODS {
            let relay = scene.start(&place, &["relay", GPU, period]);
            for _ in 0..3 {
                let (answer, code) = scene.left(&[]);
                assert!(is_left(&answer, code) || is_told(&answer, code), "{period}: {code} {answer:#}");
                let (answer, code) = scene.ask(&["node"]);
                assert!(holds(&answer) || is_told(&answer, code), "{period}: {code} {answer:#}");
            }
            drop(relay);
            wait_until(|| is_empty(&place));
        }
    }
}

/// Make sure that `--kill` ends a relay in the job's own cgroup, that others in that cgroup
/// live and go on, and that nothing is frozen afterwards.
#[test]
fn relays_are_killed() {
    let Some(_host) = host::exclusive() else { return };
    let scene = Scene::new(990_102);
    let [task, _] = scene.places();
    for (period, with_root) in [("0", false), ("300", false), ("300", true), ("5000", true)] {
        let relay = scene.start(&task, &["relay", GPU, period]);
        let mut root = Command::new("sleep").arg("600").stdin(fs::File::open(GPU).unwrap()).spawn().unwrap();
        if with_root {
            fs::write(task.join("cgroup.procs"), root.id().to_string()).unwrap();
        }
        let (answer, code) = scene.left(&["--kill"]);
        let spared = if with_root { format!("{}\n", root.id()) } else { String::new() };
        wait_until(|| fs::read_to_string(task.join("cgroup.procs")).unwrap() == spared);
        assert_eq!(code, 1, "{period}: {answer:#}");
        assert_eq!(fs::read_to_string(task.join("cgroup.freeze")).unwrap(), "0\n");
        assert!(root.try_wait().unwrap().is_none(), "{answer:#}");
        root.kill().unwrap();
        root.wait().unwrap();
        drop(relay);
    }
}

/// Make sure that another user's process in the job's cgroup is never ended with a relay,
/// and that a relay outside of the job's cgroups is left alone.
#[test]
fn others_are_spared() {
    let Some(_host) = host::exclusive() else { return };
    let scene = Scene::new(990_103);
    let [task, elsewhere] = scene.places();
    let _relays = [&task, &elsewhere].map(|place| scene.start(place, &["relay", GPU, "300"]));
    let other = Command::new("setpriv")
        .args(["--reuid=65533", "--clear-groups", "sleep", "600"])
        .stdin(fs::File::open(GPU).unwrap())
        .spawn();
    let mut other = other.unwrap();
    fs::write(task.join("cgroup.procs"), other.id().to_string()).unwrap();
    let mut line = scene.command(&["leftovers", "--from-env", "--kill"]);
    line.env("SLURM_JOB_ID", scene.job.to_string()).env("SLURM_JOB_UID", USER.to_string());
    let (code, text) = run(&mut line);
    wait_until(|| fs::read_to_string(task.join("cgroup.procs")).unwrap() == format!("{}\n", other.id()));
    assert!(code == 1 && other.try_wait().unwrap().is_none(), "{code} {text}");
    assert!(!is_empty(&elsewhere), "{text}");
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Make sure that ordinary processes that come and go, as those of a build do, keep few looks
/// from being complete.
#[test]
fn builds_disturb_nobody() {
    let Some(_host) = host::exclusive() else { return };
    let scene = Scene::new(990_104);
    let [task, _] = scene.places();
    // One in a thousandth of a second, by the clock of an emulated machine.
    let period = (within(1) / 1000).as_micros().to_string();
    let _build = scene.start(&task, &["short", &period]);
    let told = (0..20).filter(|_| {
        let (answer, code) = scene.ask(&["node"]);
        is_told(&answer, code)
    });
    let told = told.count();
    assert!(told < 10, "{told} of 20 looks could not finish");
}

/// Make sure that a device which threads hand on, each in a table of descriptors of its own,
/// is found, or not known to be all.
#[test]
fn relays_of_threads() {
    let Some(_host) = host::shared() else { return };
    let scene = Scene::new(990_105);
    let [task, _] = scene.places();
    for period in PERIODS {
        let _relay = scene.start(&task, &["threads", GPU, period]);
        for _ in 0..3 {
            let (answer, code) = scene.ask(&["node"]);
            assert!(holds(&answer) || code == 3, "{period}: {code} {answer:#}");
            let (answer, code) = scene.left(&[]);
            assert!(is_left(&answer, code) || code == 3, "{period}: {code} {answer:#}");
        }
    }
}

/// Make sure that a process that executes itself again and again is found or told.
#[test]
fn always_executing() {
    let Some(_host) = host::exclusive() else { return };
    let scene = Scene::new(990_106);
    for place in scene.places() {
        for period in PERIODS {
            let _one = scene.start(&place, &["exec", GPU, period]);
            for _ in 0..3 {
                let (answer, code) = scene.left(&[]);
                assert!(is_left(&answer, code) || code == 3, "{period}: {code} {answer:#}");
            }
        }
    }
}

/// Make sure that a process that has written a title over its environment is found by the
/// environment that it has now, and that one that has none is listed as unknown.
#[test]
fn titles() {
    let Some(_host) = host::shared() else { return };
    let scene = Scene::new(990_107);
    let [task, elsewhere] = scene.places();
    fs::create_dir_all(task).unwrap();
    let title = scene.start(&elsewhere, &["title", GPU]);
    let (answer, code) = scene.left(&[]);
    assert_eq!((code, pids(&answer)), (1, vec![u64::from(title.pid())]), "{answer:#}");
    assert_eq!(answer["leftovers"][0]["belongs_by"], "environment", "{answer:#}");
    drop(title);
    let lost = scene.start(&elsewhere, &["lost", GPU]);
    let (answer, code) = scene.left(&["--kill"]);
    assert_eq!((code, pids(&answer)), (3, vec![u64::from(lost.pid())]), "{answer:#}");
    let one = &answer["leftovers"][0];
    assert_eq!((&one["belongs_by"], &one["killed"]), (&"unknown".into(), &false.into()), "{answer:#}");
    // One of another user's is not the job's, whatever its environment was.
    let mut line = scene.command(&["leftovers", "--from-env"]);
    line.env("SLURM_JOB_ID", scene.job.to_string()).env("SLURM_JOB_UID", "54321");
    let (_, text) = run(&mut line);
    assert!(!text.contains(&format!("\"pid\":{},", lost.pid())), "{text}");
}

/// Make sure that where descriptors run out there is no clean answer.
#[test]
fn without_descriptors() {
    let Some(_host) = host::shared() else { return };
    let scene = Scene::new(990_108);
    let [_, elsewhere] = scene.places();
    let _left = scene.start(&elsewhere, &["title", GPU]);
    for limit in 4..=69_u32 {
        let mut line = Command::new("prlimit");
        let inner = scene.command(&["leftovers", "--job", &scene.job.to_string()]);
        line.arg(format!("--nofile={limit}:{limit}")).arg(inner.get_program()).args(inner.get_args());
        let (code, text) = run(&mut line);
        assert_ne!(code, 0, "with {limit} descriptors: {text}");
    }
}
