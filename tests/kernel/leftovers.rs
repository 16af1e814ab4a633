//! Tests what `leftovers` finds of a job, wherever it is, and what `--kill` ends of
//! it: real processes in real cgroups of this kernel.
//!
//! Needs setpriv.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::cgroup::{self, Cgroup};
use crate::support::slurm::spec::write_openable;
use crate::support::{host, node};
use serde_json::Value;

/// The user that the job is of.
const USER: u32 = 65534;

/// A hierarchy, and an inventory in which `/dev/full` is the first GPU.
struct Scene {
    top: Cgroup,
    inventory: PathBuf,
    /// The job; each test has its own, since all processes of the node are
    /// looked at.
    id: u32,
    children: Vec<Child>,
}

impl Scene {
    fn new(id: u32) -> Self {
        let top = Cgroup::new().expect("a scratch cgroup");
        let inventory = std::env::temp_dir().join(top.path().file_name().expect("a name"));
        write_openable(&inventory);
        Self { top, inventory, id, children: Vec::new() }
    }

    /// A process in a cgroup that holds the GPU; `job` is what its environment
    /// names.
    fn holder(&mut self, cgroup: &Path, uid: u32, job: Option<&str>) -> u32 {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={uid}"), "--clear-groups", "sleep", "600"]).env_clear();
        command.env("PATH", "/usr/bin:/bin").envs(job.map(|job| ("SLURM_JOB_ID", job)));
        command.stdin(fs::File::open("/dev/full").expect("a device")).stdout(Stdio::null());
        let child = command.spawn().expect("setpriv");
        let pid = child.id();
        self.children.push(child);
        fs::create_dir_all(cgroup).expect("a cgroup");
        fs::write(cgroup.join("cgroup.procs"), pid.to_string()).expect("a cgroup");
        let comm = || fs::read_to_string(format!("/proc/{pid}/comm")).expect("a process");
        while comm() != "sleep\n" {
            std::thread::yield_now();
        }
        pid
    }

    fn job(&self) -> PathBuf {
        self.top.path().join(format!("system.slice/slurmstepd.scope/job_{}/step_0/user/task_0", self.id))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut line = node::command(&["--gpu-root"]);
        line.arg(&self.inventory).arg("--cgroup-root").arg(self.top.path()).arg("leftovers").args(arguments);
        line
    }

    /// What is left of the job.
    fn left(&self, arguments: &[&str]) -> (Value, i32) {
        let job = self.id.to_string();
        let line = self
            .command(&[&["--job", &job], arguments].concat())
            .arg("--json")
            .output()
            .expect("the built program");
        node::document(&line)
    }

    /// Those of the scene's own processes that are told. One of another test, of which
    /// nothing can be read any more while it ends, is told too.
    fn told<'a>(&self, document: &'a Value) -> Vec<(u32, &'a Value)> {
        let all = document["leftovers"].as_array().expect("leftovers").iter();
        let with_pid = all.filter_map(|it| Some((u32::try_from(it["pid"].as_u64()?).ok()?, it)));
        with_pid.filter(|(pid, _)| self.children.iter().any(|child| child.id() == *pid)).collect()
    }

    fn pids(&self, document: &Value) -> Vec<u32> {
        self.told(document).into_iter().map(|(pid, _)| pid).collect()
    }

    fn lives(&mut self, pid: u32) -> bool {
        let child = self.children.iter_mut().find(|child| child.id() == pid).expect("a child");
        // What was killed may take a moment to end.
        for _ in 0..200 {
            if child.try_wait().expect("a child").is_some() {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        true
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        cgroup::remove_below(self.top.path());
        let _ = fs::remove_dir_all(&self.inventory);
    }
}

/// Make sure that a process is found wherever it is: in the root of the
/// hierarchy, in a cgroup nobody knows, outside of the root that was given; and
/// that one which is in another job is not.
#[test]
fn anywhere() {
    let Some(_host) = host::shared() else { return };
    let mut scene = Scene::new(7101);
    let root = scene.top.path().to_owned();
    let outside = cgroup::mount().expect("cgroup2");
    let mut expected = vec![
        scene.holder(&root, 0, Some("7101")),
        scene.holder(&root.join("some/where"), 0, Some("7101")),
        scene.holder(&outside, 0, Some("7101")),
        scene.holder(
            &root.join("user.slice/user-7.slice/user@7.service/slurmstepd.scope/job_72"),
            0,
            Some("7101"),
        ),
    ];
    scene.holder(&root.join("system.slice/slurmstepd.scope/job_72"), 0, Some("7101"));
    scene.holder(&root, 0, Some("72"));
    scene.holder(&root, 0, None);
    let (left, code) = scene.left(&[]);
    expected.sort_unstable();
    let mut found = scene.pids(&left);
    found.sort_unstable();
    assert_eq!((code, found), (1, expected), "{left}");
    // What nobody can see is said each time, and is no failure.
    assert_eq!(left["notes"][0]["code"], "not-visible");
    assert!(left["notes"][0]["text"].as_str().expect("text").contains("io_uring"));
}

/// Make sure that without a hook only what is in the job's cgroup is ended, and
/// nothing of root's.
#[test]
fn kills_by_cgroup() {
    let Some(_host) = host::shared() else { return };
    let mut scene = Scene::new(7102);
    let (job, root) = (scene.job(), scene.top.path().to_owned());
    let mine = scene.holder(&job, USER, Some("7102"));
    let silent = scene.holder(&job, USER, None);
    let roots = scene.holder(&job, 0, Some("7102"));
    let escaped = scene.holder(&root, USER, Some("7102"));
    let daemon = root.join("system.slice/slurmstepd.scope/job_7102/step_0/slurm");
    let daemons = scene.holder(&daemon, USER, Some("7102"));
    let (plan, _) = scene.left(&[]);
    assert!(plan["leftovers"].as_array().expect("leftovers").iter().all(|it| it["killed"].is_null()));
    let (left, code) = scene.left(&["--kill"]);
    assert_eq!((code, scene.pids(&left).len()), (1, 5), "{left}");
    for (pid, it) in scene.told(&left) {
        let is_mine = [mine, silent].contains(&pid);
        assert_eq!((&it["killed"], it["spared"].is_null()), (&is_mine.into(), is_mine), "{it}");
    }
    assert!(!scene.lives(mine) && !scene.lives(silent));
    assert!(scene.lives(roots) && scene.lives(escaped) && scene.lives(daemons));
}

/// Make sure that with a hook, what left the job is ended if user, GPU and time
/// are the job's, and not if one of them is not.
#[test]
fn kills_by_hook() {
    let Some(_host) = host::shared() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    // Whether the job began before the process, the uid, the device of the job.
    let cases = [(now - 60, USER, "0", true), (now + 60, USER, "0", false), (now - 60, USER, "1", false)];
    for (began, uid, gpu, ends) in cases {
        let mut scene = Scene::new(7103);
        let top = scene.top.path().to_owned();
        let escaped = scene.holder(&top, USER, Some("7103"));
        let others = scene.holder(&scene.job(), 65533, None);
        let mut line = scene.command(&["--from-env", "--kill=term", "--porcelain"]);
        line.env("SLURM_JOB_ID", "7103").env("SLURM_JOB_UID", uid.to_string()).env("SLURM_JOB_GPUS", gpu);
        line.env("SLURM_JOB_START_TIME", began.to_string()).env("SLURM_SCRIPT_CONTEXT", "epilog_slurmd");
        let gres = scene.inventory.join("gres.conf");
        fs::write(&gres, "Name=gpu File=/dev/hl[0-3]\n").expect("a file");
        line.arg("--gres-conf").arg(&gres);
        let text = String::from_utf8(line.output().expect("the built program").stdout).expect("text");
        assert_eq!(text.contains(&format!("{escaped}\t")), gpu == "0", "{text}");
        assert_eq!(text.contains("\tkilled\n"), ends, "{text}");
        assert_eq!(scene.lives(escaped), !ends, "{began} {gpu} {text}");
        assert!(scene.lives(others), "{text}");
    }
}

/// Make sure that nothing is ended by what is saved or shown elsewhere.
#[test]
fn refused() {
    for arguments in [["--from", "fixtures/scenarios/leftovers.json"], ["--proc", "/tmp"]] {
        let arguments = [&arguments[..], &["leftovers", "--job", "7", "--kill"]].concat();
        let output = node::command(&arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let output = output.expect("the built program");
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("of this node only"), "{output:?}");
    }
}

/// Make sure that processes which cannot be read make the answer incomplete only
/// if they could be the job's: not those that are older than the job. Those that
/// could are named.
#[test]
fn processes_that_cannot_be_read() {
    let Some(_host) = host::shared() else { return };
    let mut scene = Scene::new(990_017);
    let place = scene.top.path().join("elsewhere");
    let own = scene.holder(&place, USER, Some("990017"));
    // Without the right to look into other users' processes.
    let without = |scene: &Scene, how: &[&str], began: u64| {
        let mut line = Command::new("setpriv");
        line.args(["--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace", "--"]);
        line.arg(env!("CARGO_BIN_EXE_gpumap")).args(["--json", "--gpu-root"]).arg(&scene.inventory);
        line.arg("--cgroup-root").arg(scene.top.path()).arg("leftovers").args(how);
        line.env("SLURM_JOB_ID", "990017").env("SLURM_JOB_UID", USER.to_string());
        line.env("SLURM_JOB_START_TIME", began.to_string());
        node::document(&line.output().expect("setpriv"))
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
    let (document, code) = without(&scene, &["--from-env"], now - 60);
    assert_eq!((code, &document["complete"]), (3, &Value::Bool(false)), "{document:#}");
    let errors = document["errors"].as_array().expect("errors");
    let named = format!("process {own} (sleep)");
    assert!(errors.iter().any(|error| error["what"] == named.as_str()), "{document:#}");
    assert_eq!(document["job"], "990017");
    // The clocks of nodes may differ by minutes, not by an hour.
    let (document, code) = without(&scene, &["--job", "990017"], now + 3600);
    assert_eq!((code, &document["complete"]), (0, &Value::Bool(true)), "{document:#}");
    let (document, code) = without(&scene, &["--from-env"], now + 3600);
    assert_eq!((code, &document["complete"]), (0, &Value::Bool(true)), "{document:#}");
    let notes = document["notes"].as_array().expect("notes");
    let remark = notes.iter().find(|note| note["text"].as_str().is_some_and(|text| text.starts_with(&named)));
    let text = remark.and_then(|note| note["text"].as_str()).expect("a note about it");
    assert!(text.contains("it is older"), "{text}");
}

/// Make sure that a process which runs with another effective uid is the job's
/// user's all the same: a set-user-ID program that the job started.
#[test]
fn with_another_effective_uid() {
    let Some(_host) = host::shared() else { return };
    let mut scene = Scene::new(990_018);
    let cgroup = scene.top.path().join("elsewhere");
    fs::create_dir_all(&cgroup).expect("a cgroup");
    let mut command = Command::new("setpriv");
    command.args([&format!("--ruid={USER}"), "--euid=12345", "--clear-groups", "sleep", "600"]).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("SLURM_JOB_ID", "990018");
    command.stdin(fs::File::open("/dev/full").expect("a device")).stdout(Stdio::null());
    let child = command.spawn().expect("setpriv");
    let pid = child.id();
    scene.children.push(child);
    let comm = || fs::read_to_string(format!("/proc/{pid}/comm")).expect("a process");
    while comm() != "sleep\n" {
        std::thread::yield_now();
    }
    let mut line = scene.command(&["--from-env", "--json"]);
    line.env("SLURM_JOB_ID", "990018").env("SLURM_JOB_UID", USER.to_string());
    let (document, code) = node::document(&line.output().expect("the built program"));
    assert_eq!((scene.pids(&document), code), (vec![pid], 1), "{document:#}");
    // Another user's job is not concerned.
    let mut line = scene.command(&["--from-env", "--json"]);
    line.env("SLURM_JOB_ID", "990018").env("SLURM_JOB_UID", "54321");
    let (document, code) = node::document(&line.output().expect("the built program"));
    assert!(scene.pids(&document).is_empty() && code != 1, "{document:#}");
}
