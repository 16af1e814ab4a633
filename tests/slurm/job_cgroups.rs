//! gpumap against a real Slurm: what it says of jobs, steps and tasks must be
//! what the kernel allows, what Slurm grants and what processes do.
//!
//! Needs root, a cgroup2 mount, bpf(2), Slurm, munge, gcc, busybox and Python;
//! without them the tests say so and pass, unless `GPUMAP_REQUIRE_ROOT=1`.

use std::fs;

use crate::support::container::Bundle;
use crate::support::host;
use crate::support::slurm::answer::{self, Minors, array};
use crate::support::slurm::job::{Job, STEP_FILES, STEPS, WAIT};
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, with_cluster};
use gpumap::model::{Device, DeviceType, Request};
use serde_json::json;

/// Compares every cgroup of a job, seen from inside and from outside, with the
/// kernel; returns what the job's own cgroup allows.
pub(super) fn check_cgroups(cluster: &Cluster, job: &Job<'_>) -> Minors {
    let path = job.path();
    let (inside, code) = cluster.inside(&["cgroup", "-r", &path]);
    assert_eq!((&inside["complete"], code), (&true.into(), 0), "{inside}");
    let (outside, code) = cluster.outside(&["cgroup", "-r", &path]);
    assert_eq!((&outside["complete"], code), (&true.into(), 0), "{outside}");
    assert_eq!(inside["gpus"], outside["gpus"]);
    assert!(array(&inside["cgroups"]).len() >= 8, "a job, its steps batch and extern, their parts: {inside}");
    for cgroup in array(&inside["cgroups"]) {
        let path = cgroup["path"].as_str().expect("a path");
        let below = path.strip_prefix(&job.path()).expect("below the job");
        let kernel = answer::kernel(&inside, &job.cgroup(below));
        assert_eq!(answer::allowed(&inside, path), kernel, "{path} from inside");
        assert_eq!(answer::allowed(&outside, path), kernel, "{path} from outside");
    }
    answer::allowed(&inside, &path)
}

/// Make sure that jobs with no, one, two and all GPUs, at the same time where
/// they fit, may open what Slurm says they have.
#[test]
fn jobs() {
    with_cluster(&Spec::nvidia(), check_jobs);
}

/// The same with any Slurm.
pub(super) fn check_jobs(cluster: &Cluster) {
    let none = cluster.submit(&[], WAIT);
    let one = cluster.submit(&["--gres=gpu:1"], WAIT);
    one.pid("pid");
    let two = cluster.submit(&["--gpus=2"], WAIT);
    let mut seen = Minors::new();
    for (job, count) in [(&none, 0), (&one, 1), (&two, 2)] {
        job.pid("pid");
        let allowed = check_cgroups(cluster, job);
        assert_eq!(allowed.len(), count);
        assert_eq!(allowed, job.granted(), "scontrol");
        assert_eq!(allowed, job.granted_by("env", "SLURM_JOB_GPUS"));
        assert!(seen.is_disjoint(&allowed), "GPUs of another job: {allowed:?}");
        seen.extend(allowed);
    }
    one.cancel();
    two.cancel();
    let all = cluster.submit(&["--gres=gpu:4"], WAIT);
    all.pid("pid");
    assert_eq!(check_cgroups(cluster, &all), (0..4).collect());
    assert_eq!(check_cgroups(cluster, &none), Minors::new());
}

/// Make sure that steps and tasks are narrower than their job, and batch and
/// extern are not.
#[test]
fn steps() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let job = cluster.submit(&["--gres=gpu:4", "-n4"], STEPS);
        job.wait_all(&STEP_FILES);
        let all: Minors = (0..4).collect();
        assert_eq!(check_cgroups(cluster, &job), all);
        let (document, _) = cluster.inside(&["cgroup", "-r", &job.path()]);
        let allowed = |below: &str| answer::allowed(&document, &format!("{}{below}", job.path()));
        assert_eq!(allowed("/step_batch/user/task_0"), all);
        assert_eq!(allowed("/step_extern/user/task_special"), all);
        let first = allowed("/step_0/user/task_0");
        assert_eq!(first, job.granted_by("step0", "SLURM_STEP_GPUS"));
        let second = allowed("/step_1/user/task_0");
        assert_eq!(second, job.granted_by("step1", "SLURM_STEP_GPUS"));
        let third = allowed("/step_2/user");
        assert_eq!((first.len(), second.len(), third.len()), (1, 1, 2));
        assert!(first.is_disjoint(&second) && first.is_disjoint(&third) && second.is_disjoint(&third));
        let tasks = (allowed("/step_2/user/task_0"), allowed("/step_2/user/task_1"));
        assert_eq!((tasks.0.len(), tasks.1.len()), (1, 1));
        assert_eq!(tasks.0.union(&tasks.1).copied().collect::<Minors>(), third);
        // Both say 0 and mean different GPUs.
        for task in ["task0", "task1"] {
            assert_eq!(job.variable(task, "CUDA_VISIBLE_DEVICES").as_deref(), Some("0"));
        }
    });
}

/// Make sure that MIG instances of one GPU are told apart by their capabilities,
/// in `check` as in the kernel.
#[test]
fn mig_instances() {
    with_cluster(&Spec::mig(), check_mig);
}

/// The same with any Slurm.
pub(super) fn check_mig(cluster: &Cluster) {
    let jobs = ["--gres=gpu:1g:1", "--gres=gpu:1g:1", "--gres=gpu:whole:1"].map(|option| {
        let job = cluster.submit(&[option], WAIT);
        job.pid("pid");
        job
    });
    let device = |major, minor| Device { kind: DeviceType::Char, major, minor };
    let mut devices = vec![device(195, 0), device(195, 2)];
    devices.extend([12, 13, 21, 22, 23].map(|minor| device(235, minor)));
    let mut answers = Vec::new();
    for job in &jobs {
        let kernel = answer::kernel_requests(&job.cgroup(""), &devices);
        let path = job.path();
        let mut args = vec!["check".to_owned(), "--cgroup".to_owned(), path];
        args.extend(devices.iter().map(|device| format!("{device} r")));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (document, code) = cluster.inside(&args);
        assert_eq!(code, 1, "{document}");
        let checks = array(&document["checks"]).iter().map(|check| check["verdict"] == "allow");
        let shown: Vec<bool> = checks.collect();
        let truth: Vec<bool> = kernel.iter().map(|requests| requests.contains(Request::Read)).collect();
        assert_eq!(shown, truth, "{devices:?}");
        assert_eq!(
            check_cgroups(cluster, job),
            answer::kernel(&cluster.inside(&["cgroup", &job.path()]).0, &job.cgroup(""))
        );
        answers.push(shown);
    }
    let instances = jobs.each_ref().map(|job| {
        let (document, _) = cluster.inside(&["job", &job.id.to_string()]);
        answer::owner(&document, job.id, None, None)["allowed"]["instances"].clone()
    });
    let first = |instance: &str| format!("GPU-11111111-2222-3333-4444-555555555555/{instance}");
    // 23 is the second compute instance where 21 is the GPU instance.
    assert_eq!(instances[0], json!([first("1/0")]));
    assert_eq!(instances[1], json!([first("2/0"), first("2/1")]));
    assert_eq!(instances[2], json!(["GPU-22222222-2222-3333-4444-555555555555/7"]));
    // 23 is in no gres.conf line: open to everyone.
    assert_eq!(answers[0], [true, false, true, true, false, false, true]);
    assert_eq!(answers[1], [true, false, false, false, true, true, true]);
    assert_eq!(answers[2], [false, true, false, false, false, false, true]);
}

/// Make sure that a container started in a job is seen with its own program:
/// runc's takes the place of Slurm's.
#[test]
fn container_in_job() {
    if !host::is_installed("runc") {
        return;
    }
    with_cluster(&Spec::nvidia(), |cluster| {
        let rule = json!([{ "allow": true, "access": "rwm" }]);
        let mut bundle = Bundle::sleeping(&rule);
        let job = cluster.submit(&["--gres=gpu:1"], "say_env env; while [ ! -e $OUT.go ]; do sleep 0.05; done\nrunc --root $WORK/runc run -d --bundle $WORK/bundle box </dev/null >$OUT.runc 2>&1\ntouch $OUT.started\nexec sleep 600");
        job.wait("env");
        bundle.cgroup = format!("{}/box", job.path());
        bundle.write(&cluster.work().join("bundle"));
        fs::write(cluster.work().join(format!("out/{}.go", job.id)), "").expect("a file");
        job.wait("started");
        assert_eq!(check_cgroups(cluster, &job), job.granted());
        let (document, _) = cluster.inside(&["cgroup", &bundle.cgroup]);
        assert_eq!(answer::allowed(&document, &bundle.cgroup), (0..4).collect(), "runc allows all");
        let [process] = array(&answer::cgroup(&document, &bundle.cgroup)["processes"]) else {
            panic!("{document}")
        };
        assert_eq!(process["comm"], "sleep");
    });
}
