//! Owners of cgroup paths: `fixtures/owner/paths.tsv` has every layout that
//! gpumap knows, and look-alikes. Looking for jobs needs root and a writable
//! cgroup2, and says so where it cannot run.

#![allow(unreachable_pub, dead_code, clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "support/observe_node.rs"]
mod node;

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use gpumap::model::OwnerKind;
use gpumap::observation::{Cgroup, Observation};
use gpumap::observe::{self, ObserveError, Options};
use gpumap::owner::{Directory, Ground, JobName, of_path};
use node::{Scratch, Sleeper};
use proptest::prelude::*;

const PATHS: &str = "fixtures/owner/paths.tsv";
const GROUNDS: &str = "fixtures/owner/grounds.tsv";
const SLUID: &str = "sEKNKTV3WPV500";

/// Make sure that every known layout has the owner that is written beside it.
#[test]
fn layouts() {
    let text = fs::read_to_string(PATHS).unwrap();
    let now = text.lines().map(|line| match line.split_once('\t') {
        Some((path, _)) => format!("{path}\t{}\n", serde_json::to_string(&of_path(path.as_bytes())).unwrap()),
        None => format!("{line}\n"),
    });
    let now: String = now.collect();
    if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        return fs::write(PATHS, &now).unwrap();
    }
    for (stored, now) in text.lines().zip(now.lines()) {
        assert_eq!(now, stored);
    }
}

/// Make sure that names count where root's daemons gave them, and nowhere else:
/// whose a path is for a gpumap at `own`, where some directories are users'.
#[test]
fn grounds() {
    let text = fs::read_to_string(GROUNDS).unwrap();
    let now = text.lines().map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
        [own, theirs, path, _] => {
            let theirs = theirs.split(' ').filter(|theirs| *theirs != "-");
            let cgroups =
                theirs.map(|path| Cgroup { path: path.into(), uid: Some(1000), ..Cgroup::default() });
            let own_cgroup = Some(own.into()).filter(|_| own != "-");
            let node = Observation { own_cgroup, cgroups: cgroups.collect(), ..Observation::default() };
            let owner = serde_json::to_string(&Ground::of(&node).owner(path.as_bytes())).unwrap();
            [line.rsplit_once('\t').unwrap().0, "\t", &owner, "\n"].concat()
        }
        _ => format!("{line}\n"),
    });
    let now: String = now.collect();
    if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        return fs::write(GROUNDS, &now).unwrap();
    }
    for (stored, now) in text.lines().zip(now.lines()) {
        assert_eq!(now, stored);
    }
}

/// Names that recognisers look for, to be put together in every way.
const NAMES: [&str; 30] = [
    "system.slice",
    "slurmstepd.scope",
    "n_slurmstepd.scope",
    "job_1",
    SLUID,
    "step_0+1",
    "user",
    "task_0",
    "slurm",
    "uid_7",
    "user-a",
    "job-3",
    "step-1",
    "crane",
    "overflow",
    "pbs_jobs.service",
    "jobid",
    "htcondor",
    "user@7.service",
    "user-7.slice",
    "session-1.scope",
    "kubepods",
    "lxc",
    "machine",
    "docker",
    "apptainer",
    "7",
    "lxc.payload.x",
    "machine-qemu\\x2d1\\x2dx.scope",
    "docker-b2cc9ba70977facdbc2e895700cff1879d82d58b99f58d33ae5fa28caf9c645e.scope",
];

/// Cgroups in which others than root's daemons make the names.
const BOUNDARIES: [&str; 7] = [
    "/user.slice/user-7.slice/user@7.service/",
    "/system.slice/docker-b2cc9ba70977facdbc2e895700cff1879d82d58b99f58d33ae5fa28caf9c645e.scope/",
    "/docker/b2cc9ba70977facdbc2e895700cff1879d82d58b99f58d33ae5fa28caf9c645e/",
    "/lxc.payload.x/",
    "/mycontainer/",
    "/system.slice/web.service/",
    "/machine.slice/machine-qemu\\x2d1\\x2dx.scope/",
];

fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::sample::select(&NAMES[..]).prop_map(|name| name.as_bytes().to_vec()),
        1 => prop::sample::select(&NAMES[..]).prop_flat_map(|name| {
            prop::collection::vec(any::<u8>(), 0..3).prop_map(move |more| [name.as_bytes(), &more].concat())
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    /// Make sure that every path has one answer, whatever bytes are in it.
    #[test]
    fn any_path(names in prop::collection::vec(name(), 0..12)) {
        let path = names.join(&b'/');
        let owner = of_path(&path);
        prop_assert_eq!(&owner, &of_path(&path));
        let below = of_path(&[&path[..], b"/\xff"].concat());
        // Only what is named by a parent takes another name.
        if names.last().is_some_and(|last| last.is_empty()) {
            prop_assert!(owner.is_none() || below.is_some());
        }
        let mut next = owner.as_ref();
        let text = String::from_utf8_lossy(&path).into_owned();
        while let Some(owner) = next {
            prop_assert!(!matches!(owner.kind, OwnerKind::Other(_)));
            for word in [&owner.step, &owner.task, &owner.sluid, &owner.container].into_iter().flatten() {
                prop_assert!(text.contains(word.as_str()));
            }
            for number in [owner.job_id, owner.uid.map(u64::from)].into_iter().flatten() {
                prop_assert!(text.contains(&number.to_string()));
            }
            next = owner.outer.as_deref();
        }
    }

    /// Make sure that nobody who was given a cgroup makes a job of the node's
    /// scheduler in it.
    #[test]
    fn no_forged_jobs(top in prop::sample::select(&BOUNDARIES[..]), names in prop::collection::vec(name(), 0..12)) {
        let path = [top.as_bytes().to_vec(), names.join(&b'/')].concat();
        let mut next = of_path(&path);
        while let Some(owner) = next {
            prop_assert!(owner.job_id.is_none() && owner.sluid.is_none(), "{:?}", owner);
            next = owner.outer.map(|outer| *outer);
        }
    }

    /// Make sure that names of jobs are numbers and SLUIDs alone.
    #[test]
    fn any_name(text in "\\PC{0,20}") {
        if let Some(name) = JobName::parse(&text) {
            prop_assert_eq!(JobName::parse(&name.to_string()), Some(name));
        }
    }
}

fn below(root: &Path) -> Options {
    Options { cgroup_root: Some(root.to_owned()), ..Options::default() }
}

fn look(root: &Path, job: &str) -> Result<Observation, ObserveError> {
    observe::jobs(&below(root), &[JobName::parse(job).unwrap()])
}

fn scope(observation: &Observation) -> Vec<String> {
    observation.scope.iter().map(|scope| scope.path.lossy().into_owned()).collect()
}

/// Make sure that a job is found with everything below, in all its places.
#[test]
fn finds_jobs() {
    let Some(root) = node::root() else { return };
    let top = Scratch::new(&root);
    let task = top.child("system.slice/n1_slurmstepd.scope/job_4711/step_0/user/task_0");
    top.child("crane/overflow/job_4711");
    top.child("slurm/uid_0/job_12");
    top.child("system.slice/n1_slurmstepd.scope/job_47110");
    let sleeper = Sleeper::new(&[&task]);
    let seen = look(top.path(), "4711").unwrap();
    assert_eq!(scope(&seen), ["/crane/overflow/job_4711", "/system.slice/n1_slurmstepd.scope/job_4711"]);
    assert!(seen.processes.iter().any(|process| process.pid == sleeper.pid()));
    let owners = Directory::new(&seen);
    let process = &seen.processes[0];
    assert!(JobName::Number(4711).is(owners.of(&process.cgroup).unwrap()));
    assert_eq!(scope(&look(top.path(), "12").unwrap()), ["/slurm/uid_0/job_12"]);
    let error = look(top.path(), "471").unwrap_err();
    assert!(matches!(error, ObserveError::NoSuchJob { unnamed: 0, incomplete: false, .. }), "{error}");
    assert!(error.to_string().starts_with("no cgroup of job 471 under"), "{error}");
}

/// Make sure that a job in an unusual place is found, and that a forged one is
/// not.
#[test]
fn finds_hidden_jobs() {
    let Some(root) = node::root() else { return };
    let top = Scratch::new(&root);
    top.child("a.slice/a-b.slice/a-b-c.slice/slurmstepd.scope/job_5/step_batch");
    top.child("user.slice/user-7.slice/user@7.service/slurmstepd.scope/job_6");
    top.child("container/system.slice/slurmstepd.scope/job_7");
    let scope_of_users = top.child("theirs.slice/slurmstepd.scope/job_8").parent().unwrap().to_owned();
    chown(&scope_of_users, Some(65534), None).unwrap();
    let found = scope(&look(top.path(), "5").unwrap());
    assert_eq!(found, ["/a.slice/a-b.slice/a-b-c.slice/slurmstepd.scope/job_5"]);
    for forged in ["6", "7", "8"] {
        assert!(matches!(look(top.path(), forged), Err(ObserveError::NoSuchJob { .. })), "{forged}");
    }
}

/// Make sure that a SLUID is found by itself, and by its number if root's step
/// daemon tells that.
#[test]
fn finds_sluids() {
    let Some(root) = node::root() else { return };
    let top = Scratch::new(&root);
    let daemon = top.child(format!("system.slice/slurmstepd.scope/{SLUID}/step_extern/slurm"));
    let place = format!("/system.slice/slurmstepd.scope/{SLUID}");
    assert_eq!(scope(&look(top.path(), &SLUID.to_lowercase()).unwrap()), std::slice::from_ref(&place));
    let error = look(top.path(), "3385").unwrap_err();
    assert!(matches!(error, ObserveError::NoSuchJob { unnamed: 1, .. }), "{error}");
    let _stepd = Titled::new("slurmstepd: [3385.extern]", &daemon);
    assert_eq!(scope(&look(top.path(), "3385").unwrap()), [place]);
    assert!(look(top.path(), "3386").is_err());
}

/// A process with a title, in a cgroup.
struct Titled(std::process::Child);

impl Titled {
    fn new(title: &str, cgroup: &Path) -> Self {
        use std::os::unix::process::CommandExt as _;
        let child = std::process::Command::new("sleep").arg0(title).arg("1000").spawn().unwrap();
        fs::write(cgroup.join("cgroup.procs"), child.id().to_string()).unwrap();
        // The kernel lets the parent go on a moment before it sets the title.
        let shown = || fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
        while !shown().starts_with(title.as_bytes()) {
            std::thread::yield_now();
        }
        Self(child)
    }
}

impl Drop for Titled {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
