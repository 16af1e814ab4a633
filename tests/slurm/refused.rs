//! A real Slurm job that tries its neighbour's GPU: what the kernel answers, which program and
//! instruction gpumap says decide, and, where the kernel has the hooks, the refusal as it is
//! reported and as an audit finds it later.
//!
//! Needs what `job_cgroups` needs; the hooks are fexit or kprobes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use gpumap::model::{EventKind, Time};
use serde_json::{Value, json};

use crate::support::slurm::answer::array;
use crate::support::slurm::job::{Job, WAIT};
use crate::support::slurm::spec::{OPENABLE, Spec};
use crate::support::slurm::{Cluster, with_cluster};
use crate::support::wait::eventually;
use crate::support::watching::Watch;
use crate::support::{kernel, node, skips};

/// How often the job tries it.
const TRIES: u64 = 3;

/// A device of `OPENABLE`: its name, and its numbers.
type Device = (&'static str, u32, u32);

/// Make sure that a job is refused its neighbour's GPU by its own program, at an instruction
/// that is named, and that an audit finds it.
#[test]
fn neighbours_gpu() {
    with_cluster(&Spec::openable(), |cluster| {
        let first = cluster.submit(&["--gres=gpu:1"], WAIT);
        first.pid("pid");
        let (go, state) = (cluster.work().join("out/go"), cluster.work().join("out/denials.json"));
        let script = format!(
            "say_env env; while [ ! -e {} ]; do sleep 0.05; done; exec $actor $(cat {0}) ready $OUT.pid",
            go.display()
        );
        let job = cluster.submit(&["--gres=gpu:1"], &script);
        job.wait("env");
        let device = |job: &Job<'_>| OPENABLE[*job.granted().first().expect("a GPU") as usize];
        let (own, neighbours) = (device(&job), device(&first));
        let proof = decides(cluster, &job, own, neighbours);
        let watch = watch(cluster, &job, &state);
        let tries = format!("refused {} ", neighbours.0).repeat(usize::try_from(TRIES).expect("a number"));
        fs::write(go.with_extension("new"), tries).expect("a file");
        fs::rename(go.with_extension("new"), &go).expect("a file");
        let pid = cluster.outside_pid(job.pid("pid")).expect("the job's process");
        match watch {
            Some(watch) => reported(&watch, (pid, neighbours), &job, &proof, &state),
            None => invented(cluster, &job, (pid, neighbours), &state),
        }
        found(cluster, (&first, &job), (pid, neighbours), &state);
    });
}

/// What `explain` says of both GPUs: the proof of the one that is denied.
fn decides(cluster: &Cluster, job: &Job<'_>, own: Device, neighbours: Device) -> Value {
    let path = format!("{}/step_batch/user/task_0", job.path());
    let explain = |device: Device| {
        let name = format!("c {}:{}", device.1, device.2);
        let (document, code) = cluster.outside(&["explain", "--cgroup", &path, &name]);
        assert!(document["proof"].is_object(), "{document}");
        (document["proof"].clone(), code)
    };
    let ((allowed, zero), (denied, one)) = (explain(own), explain(neighbours));
    assert_eq!((&allowed["verdict"], zero, &denied["verdict"], one), (&json!("allow"), 0, &json!("deny"), 1));
    let programs = array(&denied["programs"]);
    assert_eq!((programs.len(), &programs[0]["attached_at"]), (1, &json!(job.path())), "{denied}");
    assert!(programs[0]["decided_at"].is_u64(), "{denied}");
    programs[0].clone()
}

/// `gpumap denials --state` of the job; `None`, with the reason, on a kernel without hooks.
fn watch(cluster: &Cluster, job: &Job<'_>, state: &Path) -> Option<Watch> {
    let tried = node::gpumap(&["denials", "--for", "1ms"]);
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        assert!(!kernel::has_kprobes(), "{why}");
        skips::too_old(&format!("refusals need fexit or kprobes, which this kernel lacks: {why}"));
        return None;
    }
    let text = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let arguments = [
        ["--cgroup-root".to_owned(), text(cluster.cgroup_root())],
        ["--gpu-root".to_owned(), text(cluster.inventory())],
        ["--cgroup".to_owned(), text(&job.cgroup(""))],
        ["--state".to_owned(), text(state)],
    ];
    let arguments: Vec<&str> = arguments.iter().flatten().map(String::as_str).collect();
    Some(Watch::of("denials", None, &arguments).0)
}

/// The event is the job's, and its program is the one that `explain` names.
fn reported(watch: &Watch, (pid, device): (u32, Device), job: &Job<'_>, proof: &Value, state: &Path) {
    let mut count = 0;
    watch.each(|event| {
        if event.event == EventKind::Denied {
            let denied = event.denied.as_ref().expect("a refusal");
            let (process, devices) = (event.process.expect("a process"), event.devices.expect("a device"));
            assert_eq!((process.pid, process.comm.as_str()), (pid, "actor"));
            assert_eq!((devices.numbers[0].major, devices.numbers[0].minor), (device.1, device.2));
            assert_eq!(event.owner.expect("an owner").job_id, Some(job.id));
            let program = denied.program.as_ref().unwrap_or_else(|| panic!("{:?}", event.why));
            assert_eq!(
                (json!(program.id), &json!(program.attached_at)),
                (proof["id"].clone(), &proof["attached_at"])
            );
            let instruction = program.instruction.as_ref().expect("an instruction");
            assert_eq!(json!(instruction.pc), proof["decided_at"]);
            count += denied.count;
        }
        count == TRIES
    });
    eventually("the state file has them", || {
        let kept: Value = serde_json::from_slice(&fs::read(state).expect("a file")).expect("JSON");
        array(&kept["refusals"]["refused"]).iter().filter_map(|one| one["count"].as_u64()).sum::<u64>()
            == TRIES
    });
}

/// The state file that `gpumap denials` would have kept.
fn invented(cluster: &Cluster, job: &Job<'_>, (pid, device): (u32, Device), state: &Path) {
    let shown = cluster.outside(&["pid", &pid.to_string()]).0;
    let directory = job.cgroup("/step_batch/user/task_0").metadata().expect("a cgroup");
    let now = Time::now();
    let refused = json!({
        "pid": pid, "start_time": shown["cgroups"][0]["processes"][0]["start_time"], "uid": 0, "comm": "actor",
        "cgroup": directory.ino(), "kind": "char", "major": device.1, "minor": device.2,
        "count": TRIES, "first": now, "last": now,
    });
    let document = json!({
        "schema": "gpumap.observation/1", "version": "0", "taken_at": now, "host": shown["host"],
        "refusals": { "at": now, "since": now, "refused": [refused], "lost": 0 },
    });
    fs::write(state, document.to_string()).expect("a file");
}

/// The audit says whose GPU the job tries.
fn found(cluster: &Cluster, (first, job): (&Job<'_>, &Job<'_>), (pid, _): (u32, Device), state: &Path) {
    let file = state.to_str().expect("a plain path");
    let (audit, _) = cluster.outside(&["audit", "--config", "/dev/null", "--denials", file]);
    assert!(audit["findings"].is_array(), "{audit}");
    let findings = array(&audit["findings"]);
    let finding = findings.iter().find(|finding| finding["id"] == "foreign-gpu-tried");
    let finding = finding.unwrap_or_else(|| panic!("{audit:#}"));
    assert_eq!(
        (&finding["owner"]["job_id"], &finding["others"][0]["job_id"]),
        (&json!(job.id), &json!(first.id))
    );
    assert_eq!((&finding["processes"][0]["pid"], &finding["severity"]), (&json!(pid), &json!("note")));
    assert!(finding["evidence"][0].as_str().is_some_and(|text| text.contains("3 times")), "{finding}");
}
