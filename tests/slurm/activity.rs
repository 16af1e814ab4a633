//! What jobs of a real Slurm do with their GPUs, as `gpumap activity` and `job` tell
//! it: whose calls they are, and which of the job's GPUs each is about.
//!
//! Needs what `job_cgroups` needs. The driver is the stand-in of `support/c/cuda`, which
//! says itself what was called.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::support::node;
use crate::support::slurm::job::Job;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, PATIENCE, answer, text, with_cluster};

/// A job that uses the driver before anybody counts, then in its batch script on two
/// devices, and in a step on the one that the step has.
const USES: &str = r#"
mkfifo $OUT.go.batch $OUT.go.step
export TRUTH=$OUT.truth
$WORK/client sleep:600000 &
say_env env
while [ ! -e $OUT.go ]; do sleep 0.05; done
$WORK/client -t 2 device:0 launch:5 memory:4096 device:1 launch:6 stop <>$OUT.go.batch &
batch=$!
srun --exact -n1 -c1 --gres=gpu:1 bash -c 'say_env step; exec $WORK/client device:0 launch:7 copies:100 stop <>$OUT.go.step'
wait $batch
say_env over
while :; do sleep 1; done
"#;

/// A job of somebody else, with GPUs of its own.
const OTHER: &str = r#"
say_env env
while [ ! -e $OUT.go ]; do sleep 0.05; done
$WORK/client device:0 launch:9 sleep:600000
"#;

/// A resident `gpumap activity` with a state file, ended with the value.
struct Resident(Child);

impl Resident {
    fn of(cluster: &Cluster, job: &Job<'_>) -> Self {
        let id = job.id.to_string();
        let mut command = node::command(&["--json", "activity", "--every", "200ms", "--job", &id]);
        command.arg("--cgroup-root").arg(cluster.cgroup_root()).arg("--gpu-root").arg(cluster.inventory());
        command.arg("--state").arg(state(cluster)).env("SLURM_CONF", cluster.work().join("etc/slurm.conf"));
        Self(command.stdout(Stdio::null()).spawn().expect("the built program"))
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn state(cluster: &Cluster) -> std::path::PathBuf {
    cluster.work().join("activity.json")
}

fn build(cluster: &Cluster) {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/c/cuda/");
    let library = cluster.work().join("libcuda.so.1");
    let gcc = |words: &[&str], source: &str, to: &str| {
        let mut command = Command::new("gcc");
        command.args(["-O1", "-w", "-pthread"]).arg(format!("{sources}{source}"));
        command.arg("-o").arg(cluster.work().join(to)).args(words);
        let output = command.output().expect("gcc");
        assert!(output.status.success(), "{}", text(&output));
    };
    gcc(&["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"], "driver.c", "libcuda.so.1");
    let here = format!("-Wl,-rpath,{}", cluster.work().display());
    gcc(&[library.to_str().expect("a plain path"), &here], "client.c", "client");
}

/// What `job` says with the counts of the state file, once it is what is waited for.
fn until(cluster: &Cluster, job: &Job<'_>, is_it: impl Fn(&Value) -> bool) -> Value {
    let (id, state) = (job.id.to_string(), state(cluster));
    let began = Instant::now();
    while !state.exists() {
        assert!(began.elapsed() < PATIENCE, "nothing is counted");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    loop {
        let (document, _) = cluster.outside(&["job", &id, "--state", state.to_str().expect("a plain path")]);
        if is_it(&document["activity"]) {
            return document;
        }
        assert!(began.elapsed() < 2 * PATIENCE, "{:#}", document["activity"]);
    }
}

/// What a process did with one GPU: the number it calls it by, launches, the minor.
type Use = (u64, u64, u32);

/// The processes that launched something: the step of each, and what it did.
fn uses(document: &Value) -> Vec<(String, Vec<Use>)> {
    let gates = answer::gates(document);
    let of = |process: &Value| {
        let uses = answer::array(&process["gpus"]).iter().map(|gpu| {
            let minor = gates[gpu["gpu"].as_str().unwrap_or_else(|| panic!("not known: {process:#}"))].minor;
            (
                gpu["ordinal"].as_u64().expect("known"),
                gpu["counts"]["launches"].as_u64().expect("a sum"),
                minor,
            )
        });
        let mut uses: Vec<_> = uses.collect();
        uses.sort_unstable();
        (process["owner"]["step"].as_str().expect("a step").to_owned(), uses)
    };
    let mut all: Vec<_> = answer::array(&document["activity"]["processes"]).iter().map(of).collect();
    all.sort();
    all
}

/// Make sure that the calls of a job's script and of its step are told with their owner
/// and with the GPUs that Slurm gave them, that another job's calls are not among them,
/// and that the sums are the driver's.
#[test]
fn a_job_that_uses_its_gpus() {
    with_cluster(&Spec::nvidia(), |cluster| {
        build(cluster);
        let other = cluster.submit(&["--gres=gpu:1"], OTHER);
        other.wait("env");
        let job = cluster.submit(&["--gres=gpu:2"], USES);
        job.wait("env");
        let _resident = Resident::of(cluster, &job);
        until(cluster, &job, |activity| activity["libraries"].as_array().is_some_and(|all| all.len() == 1));
        for one in [&other, &job] {
            fs::write(cluster.work().join(format!("out/{}.go", one.id)), "").expect("a file");
        }
        let launched = |activity: &Value| {
            let all = answer::array(&activity["processes"]);
            let sums = all.iter().flat_map(|process| answer::array(&process["gpus"]));
            sums.filter_map(|gpu| gpu["counts"]["launches"].as_u64()).sum::<u64>() >= 2 * 11 + 7
        };
        let document = until(cluster, &job, launched);

        // The driver counts in the order of PCI addresses, which is not that of the minors.
        let granted = job.granted();
        let mut gpus: Vec<_> =
            answer::array(&document["gpus"]).iter().map(|gpu| (gpu["pci"].as_str(), &gpu["minor"])).collect();
        gpus.sort_unstable_by_key(|(pci, _)| *pci);
        let minors = gpus.into_iter().filter_map(|(_, minor)| u32::try_from(minor.as_u64()?).ok());
        let granted: Vec<u32> = minors.filter(|minor| granted.contains(minor)).collect();
        let of_step = answer::kernel(&document, &job.cgroup("/step_0/user/task_0"));
        let [first, second] = granted[..] else { panic!("{granted:?}") };
        let step = *of_step.first().expect("a GPU");
        assert!(of_step.len() == 1 && granted.contains(&step));
        let found = uses(&document);
        let batch = vec![(0, 10, first), (1, 12, second)];
        assert_eq!(found, [("0".to_owned(), vec![(0, 7, step)]), ("batch".to_owned(), batch)]);
        for process in answer::array(&document["activity"]["processes"]) {
            assert_eq!((&process["owner"]["job_id"], &process["partial"]), (&job.id.into(), &false.into()));
            for gpu in answer::array(&process["gpus"]) {
                assert_eq!((&gpu["allocated"], &gpu["allowed"]), (&true.into(), &true.into()), "{gpu:#}");
            }
        }
        let sets = answer::owner(&document, job.id, None, None);
        assert_eq!(answer::set(&document, sets, "used"), answer::set(&document, sets, "allocated"));

        for name in ["batch", "step"] {
            fs::write(cluster.work().join(format!("out/{}.go.{name}", job.id)), "\n\n").expect("a pipe");
        }
        job.wait("over");
        let truth = job.wait("truth");
        let streams = truth.lines().filter(|line| line.starts_with("stream "));
        let launches: u64 = streams
            .map(|line| line.split(' ').nth(3).expect("a sum").parse::<u64>().expect("a number"))
            .sum();
        assert_eq!(launches, 2 * 11 + 7);
    });
}
