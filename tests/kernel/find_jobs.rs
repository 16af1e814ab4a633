//! Finds jobs by the names of their cgroups, wherever root's daemons made them, and
//! nowhere else.

use crate::support::host;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use gpumap::observation::Observation;
use gpumap::observe::{self, ObserveError, Options};
use gpumap::owner::{Directory, JobName};

use crate::support::cgroup::Tree;
use crate::support::node::{self, Sleeper};

const SLUID: &str = "sEKNKTV3WPV500";

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
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
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
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
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
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let daemon = top.child(format!("system.slice/slurmstepd.scope/{SLUID}/step_extern/slurm"));
    let place = format!("/system.slice/slurmstepd.scope/{SLUID}");
    assert_eq!(scope(&look(top.path(), &SLUID.to_lowercase()).unwrap()), std::slice::from_ref(&place));
    let error = look(top.path(), "3385").unwrap_err();
    assert!(matches!(error, ObserveError::NoSuchJob { unnamed: 1, .. }), "{error}");
    let _stepd = Titled::new("slurmstepd: [3385.extern]", &daemon);
    assert_eq!(scope(&look(top.path(), "3385").unwrap()), [place]);
    assert!(look(top.path(), "3386").is_err());
}

/// Make sure that gpumap finds the job of an array task where no other process than itself
/// says its number, as in a step that runs nothing else.
#[test]
fn finds_the_array_task_that_it_is_in() {
    let Some(root) = host::shared() else { return };
    let top = Tree::new(&root);
    let task = top.child("system.slice/slurmstepd.scope/job_4713/step_0/user/task_0");
    let mut line = std::process::Command::new("sh");
    line.args(["-c", r#"echo $$ > "$1/cgroup.procs"; shift; exec "$@""#, "sh"]).arg(&task);
    let gpumap = [env!("CARGO_BIN_EXE_gpumap"), "--json", "--cgroup-root"];
    line.args(gpumap).arg(top.path()).args(["job", "4711_3"]);
    line.env("SLURM_ARRAY_JOB_ID", "4711").env("SLURM_ARRAY_TASK_ID", "3");
    let (document, _) = node::document(&line.output().unwrap());
    assert_eq!(document["owners"][0]["owner"]["job_id"], 4713, "{document:#}");
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
