//! Asks about one process of a real Slurm's job, as its user or an admin at 3 a.m.
//! does: `pid`, `check --pid` and `explain --pid`, as root, as the owner of the
//! process, and as somebody else.
//!
//! Needs what `job_cgroups` needs.

use std::process::Output;

use gpumap::model::{Device, DeviceType, Request};

use crate::support::slurm::answer;
use crate::support::slurm::job::Job;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, with_cluster};

/// A process of another user in a job of one GPU.
const OF_NOBODY: &str =
    "mkdir -m 777 $OUT.d; exec setpriv --reuid=65534 --regid=65534 --clear-groups $actor ready $OUT.d/pid";

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// gpumap inside, as this user.
fn asked(cluster: &Cluster, uid: u32, args: &[&str]) -> Output {
    let program = cluster.work().join("gpumap");
    let mut command = cluster.command("setpriv");
    let uid = uid.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]).arg(program).args(args);
    command.arg("--gpu-root").arg(cluster.inventory()).output().expect("nsenter")
}

/// Make sure that root is told what Slurm granted and the kernel allows, and that
/// others are told what they may see, with one line that says what to do, and
/// nothing that is not so.
#[test]
fn a_process_of_a_job() {
    with_cluster(&Spec::nvidia(), |cluster| {
        std::fs::copy(env!("CARGO_BIN_EXE_gpumap"), cluster.work().join("gpumap")).expect("a copy");
        let job = cluster.submit(&["--gres=gpu:1"], OF_NOBODY);
        let pid = job.pid("d/pid").to_string();
        as_root(cluster, &job, &pid);
        as_owner(&asked(cluster, 65534, &["pid", &pid]));
        as_other(&asked(cluster, 65533, &["pid", &pid]));
        for uid in [65534, 65533] {
            without_rights(cluster, uid, &pid);
        }
        for uid in [0, 65534] {
            let ended = asked(cluster, uid, &["check", "--pid", "999999", "nvidia0"]);
            assert_eq!((out(&ended).as_str(), ended.status.code()), ("", Some(2)));
            assert!(err(&ended).contains("no process 999999"), "{}", err(&ended));
        }
    });
}

fn as_root(cluster: &Cluster, job: &Job<'_>, pid: &str) {
    let granted = job.granted();
    let devices: Vec<Device> =
        (0..4).map(|minor| Device { kind: DeviceType::Char, major: 195, minor }).collect();
    let kernel = answer::kernel_requests(&job.cgroup("/step_batch/user/task_0"), &devices);
    for (minor, kernel) in (0..4).zip(kernel) {
        let name = format!("nvidia{minor}");
        let (verdict, code) = if granted.contains(&minor) { ("allow", 0) } else { ("deny", 1) };
        assert_eq!(kernel.contains(Request::ReadWrite), verdict == "allow", "{name}");
        let check = asked(cluster, 0, &["check", "--pid", pid, &name]);
        assert_eq!((out(&check), check.status.code()), (format!("{verdict}\t{name}\n"), Some(code)));
        let explain = asked(cluster, 0, &["explain", "--pid", pid, &name]);
        let proof = out(&explain);
        assert!(proof.ends_with(&format!("Verdict: {verdict}\n")), "{proof}");
        assert_eq!(explain.status.code(), Some(code), "{proof}");
        assert!(proof.contains("Slurm_Cgroup_v2") && proof.contains(&format!("/job_{} (override)", job.id)));
    }
    let shown = asked(cluster, 0, &["pid", pid]);
    let (text, only) = (out(&shown), granted.first().expect("a GPU"));
    assert_eq!((err(&shown).as_str(), shown.status.code()), ("", Some(0)), "{text}");
    for line in [
        format!("owner    slurm job {}, step batch, task 0", job.id),
        format!("claims   job {}; so does its cgroup", job.id),
        format!("  allocated  ~nvidia{only}\n  allowed    nvidia{only}\n  asks for   nvidia{only}\n"),
        "Holds: no GPU".to_owned(),
        "GPUs: 1 of 4 allowed".to_owned(),
    ] {
        assert!(text.contains(&line), "{line:?} is missing:\n{text}");
    }
}

/// The owner of the process may read its environment, and not the programs.
fn as_owner(output: &Output) {
    let text = out(output);
    for line in [
        "CUDA_VISIBLE_DEVICES  0        0",
        "  allowed    nvidia0-3?\n  asks for   ?\n  holds      -\n",
        "Holds: no GPU",
    ] {
        assert!(text.contains(line), "{line:?} is missing:\n{text}");
    }
}

/// Anybody else may read neither.
fn as_other(output: &Output) {
    let text = out(output);
    for line in [
        "  allowed    nvidia0-3?\n  asks for   ?\n  holds      ?\n",
        "Environment: could not be read",
        "Holds: not known",
    ] {
        assert!(text.contains(line), "{line:?} is missing:\n{text}");
    }
}

fn without_rights(cluster: &Cluster, uid: u32, pid: &str) {
    let all = ["nvidia0", "nvidia1", "nvidia2", "nvidia3", "/dev/nvidiactl"];
    let check = asked(cluster, uid, &[&["check", "--pid", pid][..], &all].concat());
    assert_eq!(out(&check), all.map(|name| format!("unknown\t{name}\n")).concat());
    let explain = asked(cluster, uid, &["explain", "--pid", pid, "nvidia0"]);
    assert!(out(&explain).contains("Verdict: unknown, because"), "{}", out(&explain));
    let shown = asked(cluster, uid, &["pid", pid]);
    let text = out(&shown);
    for word in ["documented", "No device program", "of 4 allowed", "allow ", "deny "] {
        assert!(!text.contains(word), "{word:?}:\n{text}");
    }
    assert!(text.contains("GPUs: unknown which of 4 are allowed"), "{text}");
    for output in [&check, &explain, &shown] {
        assert_eq!(output.status.code(), Some(3), "{}", out(output));
        let advice = err(output).lines().filter(|line| line.contains("run as root")).count();
        assert_eq!(advice, 1, "{}", err(output));
    }
}
