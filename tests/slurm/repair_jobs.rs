//! Jobs of a real Slurm lose their GPUs because somebody puts a program of his own into
//! their cgroups; `gpumap repair` knows what Slurm allocated, gives exactly that back,
//! and takes it back again.
//!
//! Needs what `job_cgroups` needs.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use gpumap::analyse;
use gpumap::model::{Device, DeviceType, Request};
use gpumap::policy::Decoder;
use serde_json::{Value, json};

use crate::support::bpf::{self, OVERRIDE};
use crate::support::slurm::answer::{self, Minors, array};
use crate::support::slurm::job::{Job, WAIT};
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, with_cluster};

/// An agent's program: processes run, and no GPU opens.
const CLOSED: &str = "deny a *:* rwm\nallow c 1:3-9 rwm\nallow c 5:0 rw\nallow c 136:* rw";

fn program(rules: &str) -> OwnedFd {
    let decoder = &mut Decoder::new();
    let policy = decoder.policy_of_text(rules).expect("rules");
    let compiled = analyse::compiled(decoder, policy).expect("a program");
    bpf::load_bytes("agent", &compiled.xlated.known().expect("code").0, true, true).expect("loaded")
}

/// Puts a program in the place of the only one of a cgroup.
fn attach(cgroup: &Path, program: &OwnedFd) {
    bpf::attach(&File::open(cgroup).expect("a cgroup"), program, OVERRIDE, None).expect("attached");
}

/// The GPUs that the kernel opens in a cgroup.
fn opens(cgroup: &Path) -> Minors {
    let gpus = [0, 1, 2, 3].map(|minor| Device { kind: DeviceType::Char, major: 195, minor });
    let answers = answer::kernel_requests(cgroup, &gpus);
    let opened = gpus.iter().zip(answers).filter(|(_, allowed)| allowed.contains(Request::ReadWrite));
    opened.map(|(gpu, _)| gpu.minor).collect()
}

/// Journals and old programs of the cluster's gpumap are the cluster's own.
fn rooms(cluster: &Cluster) {
    let run = cluster.work().join("run");
    cluster.run("mount", &["--bind", run.to_str().expect("a plain path"), "/run"]);
    cluster.run("mount", &["-t", "bpf", "-o", "mode=0700", "bpf", "/sys/fs/bpf"]);
}

fn repair(cluster: &Cluster, args: &[&str]) -> (Value, i32) {
    let (document, status) = cluster.inside(&[&["repair"], args].concat());
    (document["repair"].clone(), status)
}

fn missing(plan: &Value) -> Minors {
    let minor = |number: &Value| u32::try_from(number.as_u64().expect("a number")).expect("a minor");
    let rules = array(&plan["missing"]).iter();
    rules
        .flat_map(|rule| {
            assert_eq!((&rule["major"], &rule["requests"]), (&json!([195, 195]), &json!("rwm")), "{plan:#}");
            minor(&rule["minor"][0])..=minor(&rule["minor"][1])
        })
        .collect()
}

/// Two jobs with two GPUs and one.
fn jobs(cluster: &Cluster) -> [Job<'_>; 2] {
    rooms(cluster);
    let jobs = [["--gres=gpu:2"], ["--gres=gpu:1"]].map(|options| cluster.submit(&options, WAIT));
    for job in &jobs {
        job.wait("pid");
    }
    jobs
}

/// Make sure that where an agent narrowed a batch step, Slurm's program of the job says
/// what the step was given, and exactly that comes back and goes again.
#[test]
fn an_agent_narrows_a_step() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let [job, other] = jobs(cluster);
        let (granted, others) = (job.granted(), opens(&other.cgroup("")));
        let step = job.cgroup("/step_batch");
        let path = format!("{}/step_batch", job.path());
        let (whole, status) = repair(cluster, &["--cgroup", &path]);
        assert_eq!((&whole["state"], status), (&json!("nothing-missing"), 0), "{whole:#}");
        let agents = program(CLOSED);
        attach(&step, &agents);
        assert_eq!((opens(&step), opens(&step.join("user/task_0"))), (Minors::new(), Minors::new()));

        let (plan, status) = repair(cluster, &["--cgroup", &path]);
        assert_eq!((&plan["state"], status), (&json!("missing"), 1), "{plan:#}");
        assert_eq!(plan["intention"]["source"], "slurm-allocation", "{plan:#}");
        let what = plan["intention"]["what"].as_str().expect("a text");
        assert!(what.contains("(Slurm) of job") && what.contains("gres.conf"), "{what}");
        assert!(plan["intention"]["as_of"].is_string(), "{plan:#}");
        assert_eq!(missing(&plan), granted, "{plan:#}");
        assert!(plan["refusals"].to_string().contains("a new step gets programs of Slurm's own"), "{plan:#}");
        // The step's daemon is below the same program, and is not meant.
        let task = format!("{path}/user/task_0");
        let (refused, _) = repair(cluster, &["--cgroup", &task, "--direct", "--apply"]);
        assert!(refused["refusals"].to_string().contains("step_batch/slurm"), "{refused:#}");
        assert_eq!(opens(&step), Minors::new());

        let (done, status) = repair(cluster, &["--cgroup", &path, "--direct", "--apply"]);
        assert_eq!((&done["state"], status), (&json!("nothing-missing"), 0), "{done:#}");
        assert_eq!((opens(&step), opens(&step.join("user/task_0"))), (granted.clone(), granted));
        assert_eq!(opens(&other.cgroup("")), others, "another job was touched");
        let journal = done["applied"]["journal"].as_str().expect("a journal");
        let (undone, status) = cluster.inside(&["repair", "--undo", journal]);
        assert_eq!((status, opens(&step)), (0, Minors::new()), "{undone:#}");
    });
}

/// Make sure that where the job's own program is gone, nothing is guessed; that the
/// allocation can be repeated as Slurm prints it, but no other job's GPU; and that the
/// next step makes Slurm attach its own again.
#[test]
fn an_agent_narrows_a_job() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let [job, other] = jobs(cluster);
        let (granted, others) = (job.granted(), other.granted());
        let (top, id) = (job.cgroup(""), job.id.to_string());
        let agents = program(CLOSED);
        attach(&top, &agents);
        assert_eq!(opens(&top), Minors::new());

        let (plan, status) = repair(cluster, &["--job", &id]);
        assert_eq!((&plan["state"], status), (&json!("unknown"), 3), "{plan:#}");
        let why = plan["refusals"].to_string();
        assert!(why.contains("--allocated") && why.contains(&format!("scontrol -d show job {id}")), "{why}");

        let list = |minors: &Minors| minors.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let too_much = list(&granted.union(&others).copied().collect());
        let (refused, _) = repair(cluster, &["--job", &id, "--allocated", &too_much, "--direct", "--apply"]);
        assert!(refused["refusals"].to_string().contains("another owner's alone"), "{refused:#}");
        assert_eq!(opens(&top), Minors::new());

        let mine = list(&granted);
        let args = ["--job", &id, "--allocated", &mine];
        let (plan, status) = repair(cluster, &args);
        assert_eq!((missing(&plan), status), (granted.clone(), 1), "{plan:#}");
        let (done, status) = repair(cluster, &[&args[..], &["--direct", "--apply"]].concat());
        assert_eq!((&done["state"], status), (&json!("nothing-missing"), 0), "{done:#}");
        assert_eq!((opens(&top), opens(&other.cgroup(""))), (granted.clone(), others));

        cluster.run("srun", &["--jobid", &id, "--overlap", "-n1", "true"]);
        let (list, status) = cluster.inside(&["repair", "--list"]);
        assert_eq!(status, 0, "{list:#}");
        assert_eq!(list["journals"][0]["state"], "not-in-force", "{list:#}");
        assert_eq!(opens(&top), granted);
        let (after, status) = repair(cluster, &["--job", &id]);
        assert_eq!((&after["state"], status), (&json!("nothing-missing"), 0), "{after:#}");
    });
}
