//! Owners of cgroup paths: `fixtures/owner/paths.tsv` has every layout that
//! gpumap knows, and look-alikes.

use std::fs;

use gpumap::model::OwnerKind;
use gpumap::observation::{Cgroup, Observation};
use gpumap::owner::{JobName, TrustedNames, of_path};
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
            let owner = serde_json::to_string(&TrustedNames::of(&node).owner(path.as_bytes())).unwrap();
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
const NAMES: [&str; 44] = [
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
    "jobs",
    "pbspro.slice",
    "pbspro-8.slice",
    "lsf",
    "job.9.1.2",
    "ocs1.slice",
    "ocs1-jobs.slice",
    "ocs1.9.2.scope",
    "ocs1-jobs-9.slice",
    "nomad.slice",
    "share.slice",
    "5a1e9d0c-7d55-1b7e-9f4e-1c2f3a4b5c6d.t.scope",
    "ecstasks-529630467358463ab6bbba4e73afe704.slice",
    "systemd-nspawn@x.service",
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
