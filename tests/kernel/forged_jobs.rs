//! Asks every command that looks for a job about cgroups whose names others than
//! root's daemons made. The cgroups are real and hold processes that have GPUs
//! open.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::cgroup::{self, Cgroup};
use crate::support::slurm::spec::write_openable;
use crate::support::{host, node};
use serde_json::Value;

/// A container's id, as Docker makes them.
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
/// Where Slurm puts job 71.
const JOB: &str = "system.slice/slurmstepd.scope/job_71/step_0/user/task_0";

/// A hierarchy with job 71 of Slurm and a job 71 that somebody else made.
struct Scene {
    top: Cgroup,
    inventory: PathBuf,
    real: Child,
    forged: Child,
    /// The cgroup of the forged one, relative to the root.
    path: String,
}

impl Scene {
    /// `boundary` is where somebody else makes the names.
    fn new(boundary: &str, uid: Option<u32>) -> Self {
        let top = Cgroup::new().expect("a scratch cgroup");
        let name = top.path().file_name().expect("a name").to_owned();
        let inventory = std::env::temp_dir().join(name);
        write_openable(&inventory);
        let path = format!("{boundary}/{JOB}");
        for path in [JOB, path.as_str()] {
            fs::create_dir_all(top.path().join(path)).expect("a cgroup");
        }
        if uid.is_some() {
            chown(top.path().join(boundary), uid, None).expect("root");
        }
        let real = holder(&top.path().join(JOB));
        let forged = holder(&top.path().join(&path));
        Self { top, inventory, real, forged, path }
    }

    fn ask(&self, arguments: &[&str]) -> (Value, i32) {
        let mut line = node::command(&["--json", "--gpu-root"]);
        line.arg(&self.inventory).arg("--cgroup-root").arg(self.top.path()).args(arguments);
        node::document(&line.output().expect("the built program"))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in [&mut self.real, &mut self.forged] {
            let _ = child.kill();
            let _ = child.wait();
        }
        cgroup::remove_below(self.top.path());
        let _ = fs::remove_dir_all(&self.inventory);
    }
}

/// A process that holds the first GPU of the inventory, `/dev/full`.
fn holder(cgroup: &Path) -> Child {
    holder_with(cgroup, &[])
}

/// One that was started with these variables.
fn holder_with(cgroup: &Path, variables: &[(&str, &str)]) -> Child {
    let mut command = Command::new("sleep");
    command.envs(variables.iter().copied());
    command.arg("600").stdin(fs::File::open("/dev/full").expect("a device")).stdout(Stdio::null());
    let child = command.spawn().expect("sleep");
    fs::write(cgroup.join("cgroup.procs"), child.id().to_string()).expect("a cgroup");
    child
}

/// Places in which others than root's daemons make the names, with the uid of
/// those to whom the directory was given.
fn boundaries() -> Vec<(String, Option<u32>)> {
    let container = format!("system.slice/docker-{ID}.scope");
    vec![
        (container, None),
        (format!("docker/{ID}"), None),
        ("mycontainer".into(), None),
        ("lxc.payload.box".into(), None),
        ("system.slice/web.service".into(), None),
        ("user.slice/user-1000.slice/user@1000.service/app.slice".into(), None),
        ("user.slice/user-1000.slice/session-7.scope".into(), None),
        ("theirs.slice".into(), Some(65534)),
        ("system.slice/slurmstepd.scope/job_70/step_0/user/task_0".into(), None),
    ]
}

/// Make sure that whatever others call their cgroups, they are not the job: for
/// `job`, `leftovers`, `check --job`, live and from a saved observation.
#[test]
fn no_name_makes_a_job() {
    let Some(_host) = host::shared() else { return };
    for (boundary, uid) in boundaries() {
        let scene = Scene::new(&boundary, uid);
        let saved = scene.inventory.join("saved.json");
        let snapshot = scene.ask(&["snapshot", "--output", saved.to_str().expect("text")]);
        assert_eq!(snapshot.1, 0, "{snapshot:?}");
        let from = ["--from", saved.to_str().expect("text")];
        for place in [&[][..], &from[..]] {
            let ask = |arguments: &[&str]| scene.ask(&[place, arguments].concat());
            let (job, code) = ask(&["job", "71"]);
            assert_eq!((code, pids(&job)), (0, vec![scene.real.id()]), "{boundary} {place:?}");
            let (left, code) = ask(&["leftovers", "--job", "71"]);
            assert_eq!((code, leftovers(&left)), (1, vec![scene.real.id()]), "{boundary} {place:?}");
            let (check, code) = ask(&["check", "--job", "71", "c 1:7 rw"]);
            assert_eq!((code, &check["checks"][0]["verdict"]), (0, &"allow".into()), "{boundary} {check}");
            let (node, _) = ask(&["node"]);
            let owner = &cgroup(&node, &format!("/{}", scene.path))["owner"];
            assert_ne!(owner["job_id"], 71, "{owner}");
            assert_eq!(
                owner["claims"].as_array().expect("claims").last().expect("one")["job_id"],
                71,
                "{owner}"
            );
        }
    }
}

/// Make sure that `audit` names the forger, and does not where the container has
/// jobs of its own.
#[test]
fn audit_tells() {
    let Some(_host) = host::shared() else { return };
    let scene = Scene::new(&format!("system.slice/docker-{ID}.scope"), None);
    let forged = |document: &Value| {
        let all = document["findings"].as_array().expect("findings").clone();
        let ids = all.into_iter().filter(|finding| finding["id"] == "forged-job-name");
        ids.map(|finding| finding["owner"]["container"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(forged(&scene.ask(&["audit"]).0), [Value::from(ID)]);
    let procs = scene.top.path().join("cgroup.procs");
    fs::write(procs, scene.real.id().to_string()).expect("the root takes it");
    cgroup::remove_below(&scene.top.path().join("system.slice/slurmstepd.scope"));
    assert_eq!(forged(&scene.ask(&["audit"]).0), Vec::<Value>::new());
}

/// Make sure that a forged job does not make a job that is not there.
#[test]
fn no_job_from_nothing() {
    let Some(_host) = host::shared() else { return };
    let scene = Scene::new("mycontainer", None);
    let procs = scene.top.path().join("cgroup.procs");
    fs::write(procs, scene.real.id().to_string()).expect("the root takes it");
    cgroup::remove_below(&scene.top.path().join("system.slice/slurmstepd.scope"));
    assert_eq!(scene.ask(&["job", "71"]).1, 2);
    assert_eq!(scene.ask(&["check", "--job", "71", "c 1:7 rw"]).1, 2);
    // What somebody else runs on this machine may be unreadable: exit 3.
    let (left, code) = scene.ask(&["leftovers", "--job", "71"]);
    assert_eq!((code == 1, leftovers(&left)), (false, Vec::new()), "{left}");
}

fn cgroup<'a>(document: &'a Value, path: &str) -> &'a Value {
    let all = document["cgroups"].as_array().expect("cgroups");
    all.iter().find(|cgroup| cgroup["path"] == path).expect("the cgroup")
}

fn pids(document: &Value) -> Vec<u32> {
    let cgroups = document["cgroups"].as_array().expect("cgroups").iter();
    let all = cgroups.flat_map(|cgroup| cgroup["processes"].as_array().cloned().unwrap_or_default());
    all.filter_map(|process| u32::try_from(process["pid"].as_u64()?).ok()).collect()
}

fn leftovers(document: &Value) -> Vec<u32> {
    let all = document["leftovers"].as_array().expect("leftovers").iter();
    all.filter_map(|it| u32::try_from(it["pid"].as_u64()?).ok()).collect()
}

/// What `audit` says of processes outside of their jobs: the pid, and the job that
/// it says is meant.
fn outside(scene: &Scene) -> Vec<(u64, Value)> {
    let (document, _) = scene.ask(&["audit"]);
    let all = document["findings"].as_array().expect("findings").iter();
    let found = all.filter(|finding| finding["id"] == "process-outside-job");
    found
        .map(|finding| {
            let pid = finding["processes"][0]["pid"].as_u64().expect("a pid");
            (pid, finding["others"][0].clone())
        })
        .collect()
}

/// Make sure that a process whose environment names job 71 inside a container that
/// runs a Slurm is a process of that Slurm's job: in its cgroup nothing is found,
/// outside of it the container's job is named, and never the node's job 71.
#[test]
fn jobs_inside_containers() {
    let Some(_host) = host::exclusive() else { return };
    let pod = "kubepods.slice/kubepods-pod4f5a1b3c_0d2e_4f60_8a1b_2c3d4e5f6071.slice";
    for boundary in [
        format!("{pod}/cri-containerd-{ID}.scope"),
        format!("docker/{ID}"),
        "lxc.payload.node1".to_owned(),
        "machine.slice/systemd-nspawn@node1.service".to_owned(),
    ] {
        let scene = Scene::new(&boundary, None);
        let mut process = holder_with(&scene.top.path().join(&scene.path), &[("SLURM_JOB_ID", "71")]);
        let inside = outside(&scene);
        let (document, _) = scene.ask(&["pid", &process.id().to_string()]);
        let claim = document["cgroups"][0]["processes"][0]["claim"].clone();
        let init = scene.top.path().join(&boundary).join("init");
        fs::create_dir(&init).expect("a cgroup");
        fs::write(init.join("cgroup.procs"), process.id().to_string()).expect("a cgroup");
        let moved = outside(&scene);
        let _ = (process.kill(), process.wait());
        assert_eq!(inside, [], "{boundary}");
        assert_eq!((&claim["agrees"], &claim["inner"]), (&true.into(), &true.into()), "{boundary}: {claim}");
        let [(pid, job)] = moved.as_slice() else { panic!("{boundary}: {moved:?}") };
        assert_eq!(
            (*pid, &job["claims"][0]["job_id"]),
            (process.id().into(), &71.into()),
            "{boundary}: {job}"
        );
        assert_ne!(job["kind"], "slurm", "{boundary}: {job}");
    }
}

/// Make sure that a user who gives names to his own cgroups stays outside of the job
/// that his environment names.
#[test]
fn names_of_users_hide_nothing() {
    let Some(_host) = host::exclusive() else { return };
    let user = "user.slice/user-1000.slice/user@1000.service/app.slice";
    for (boundary, uid) in [(user, None), ("theirs.slice", Some(65534)), ("system.slice/web.service", None)] {
        let scene = Scene::new(boundary, uid);
        let mut process = holder_with(&scene.top.path().join(&scene.path), &[("SLURM_JOB_ID", "71")]);
        let found = outside(&scene);
        let _ = (process.kill(), process.wait());
        let [(pid, job)] = found.as_slice() else { panic!("{boundary}: {found:?}") };
        assert_eq!((*pid, &job["kind"]), (process.id().into(), &"slurm".into()), "{boundary}: {job}");
    }
}
