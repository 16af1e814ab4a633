//! Audits of a node with a real Slurm: each way in which isolation fails is
//! brought about, and has to be found, with nothing beside it; a node where all
//! is well is silent.
//!
//! Needs what `job_cgroups` needs.

use crate::support::host;
use std::collections::BTreeSet;
use std::fs;
use std::mem::ManuallyDrop;

use crate::support::cgroup::Cgroup;
use crate::support::container::Bundle;
use crate::support::slurm::answer::{self, Minors, array};
use crate::support::slurm::job::{Job, STEP_FILES, STEPS, WAIT};
use crate::support::slurm::spec::{OPENABLE, Spec};
use crate::support::slurm::{Cluster, with_cluster};
use crate::support::{bpf, inspect, node};
use serde_json::{Value, json};

/// A node whose inventory has real device nodes, to ask the kernel about.
fn verifiable(spec: Spec) -> Spec {
    spec.with_hooks("")
}

/// The document of an audit that saw everything, from inside.
fn audit(cluster: &Cluster, args: &[&str]) -> Value {
    let (document, code) = cluster.inside(&[&["audit"], args].concat());
    let severe = array(&document["findings"]).iter().any(|finding| finding["severity"] != "note");
    assert_eq!((&document["complete"], code), (&true.into(), i32::from(severe)), "{document}");
    document
}

/// Makes sure that nothing is found, with the kernel's own word and without,
/// from inside and from outside.
fn assert_silent(cluster: &Cluster) {
    for args in [&[][..], &["--verify"]] {
        let document = audit(cluster, args);
        assert_eq!(document["findings"], json!([]), "{args:?}");
    }
    let (document, _) = cluster.outside(&["audit"]);
    assert_eq!(document["findings"], json!([]), "outside");
}

/// The one finding with this id, where these are all there are.
fn among<'a>(document: &'a Value, id: &str, all: &[&str]) -> &'a Value {
    let findings = array(&document["findings"]);
    assert_eq!(findings.iter().map(|finding| &finding["id"]).collect::<Vec<_>>(), all, "{document}");
    findings.iter().find(|finding| finding["id"] == id).expect("it is in the list")
}

/// The findings with an id; there are no others.
fn only<'a>(document: &'a Value, id: &str) -> &'a [Value] {
    let all = array(&document["findings"]);
    assert!(!all.is_empty() && all.iter().all(|finding| finding["id"] == id), "not only {id}: {document}");
    all
}

/// The one finding.
fn one<'a>(document: &'a Value, id: &str) -> &'a Value {
    let [finding] = only(document, id) else { panic!("not one {id}: {document}") };
    finding
}

fn numbers(finding: &Value, list: &str, name: &str) -> BTreeSet<u64> {
    array(&finding[list]).iter().map(|entry| entry[name].as_u64().expect("a number")).collect()
}

/// The devices of a finding by minor.
fn minors(finding: &Value) -> Minors {
    let number = |device: &Value| {
        let number = device["number"].as_str().expect("a number");
        number.rsplit_once(':').and_then(|(_, minor)| minor.parse().ok()).expect("a minor")
    };
    array(&finding["devices"]).iter().map(number).collect()
}

/// The programs of a finding with what they return.
fn programs<'a>(finding: &'a Value) -> Vec<(u64, &'a str)> {
    let program = |it: &'a Value| Some((it["id"].as_u64()?, it["returns"].as_str()?));
    array(&finding["programs"]).iter().map(|it| program(it).expect("a program")).collect()
}

/// A cgroup of a job, not ours to remove.
fn cgroup(job: &Job<'_>, below: &str) -> ManuallyDrop<Cgroup> {
    ManuallyDrop::new(Cgroup::open(job.cgroup(below)).expect("a cgroup"))
}

/// Lets a job's cgroup open everything, as a runtime does in place of Slurm;
/// returns the program's id.
fn open_all(job: &Job<'_>, below: &str) -> u64 {
    let program = node::allow_all();
    bpf::attach(cgroup(job, below).dir(), &program, bpf::OVERRIDE, None).expect("attached");
    inspect::program(&program).expect("info").id.into()
}

/// Make sure that jobs with no, one and two GPUs, steps and tasks are silent.
#[test]
fn clean() {
    with_cluster(&verifiable(Spec::nvidia()), |cluster| {
        assert_silent(cluster);
        let jobs = [&[][..], &["--gres=gpu:1"], &["--gres=gpu:2"], &["--gres=gpu:1"]]
            .map(|options| cluster.submit(options, WAIT));
        jobs.iter().for_each(|job| drop(job.wait("pid")));
        assert_silent(cluster);
        jobs.iter().for_each(Job::cancel);
        assert_silent(cluster);
        let job = cluster.submit(&["--gres=gpu:4", "-n4"], STEPS);
        job.wait_all(&STEP_FILES);
        assert_silent(cluster);
    });
}

/// Make sure that processes which hold what they were granted are silent.
#[test]
fn clean_holders() {
    with_cluster(&verifiable(Spec::openable()), |cluster| {
        let script = format!("{OPEN}$actor ${{arguments[@]}} ready $OUT.pid & wait");
        for options in [["--gres=gpu:1"], ["--gres=gpu:2"]] {
            cluster.submit(&options, &script).pid("pid");
        }
        assert_silent(cluster);
    });
}

/// Make sure that jobs which Slurm does not confine are found.
#[test]
fn no_program() {
    with_cluster(&Spec { constrain: false, ..verifiable(Spec::nvidia()) }, |cluster| {
        let job = cluster.submit(&["--gres=gpu:1"], WAIT);
        let pid = job.pid("pid");
        let document = audit(cluster, &[]);
        let finding = among(&document, "no-device-program", &["no-device-program", "env-index-space"]);
        assert_eq!((&finding["owner"]["job_id"], &finding["severity"]), (&job.id.into(), &"critical".into()));
        assert!(finding["cgroup"].as_str().is_some_and(|path| path.starts_with(&job.path())), "{finding}");
        assert!(numbers(finding, "processes", "pid").contains(&pid.into()), "{finding}");
        assert_eq!((minors(finding), programs(finding)), ((0..4).collect(), vec![]));
        // CUDA counts in PCI order, and nothing hides the GPUs that Slurm did not count.
        let finding = &document["findings"][1];
        assert_eq!(numbers(finding, "processes", "pid"), [pid.into()].into());
        assert_eq!(minors(finding), [2].into());
    });
}

/// Make sure that a container whose program took the place of Slurm's is found.
#[test]
fn dropped_denials() {
    if !host::is_installed("runc") {
        return host::skip("runc is not installed");
    }
    with_cluster(&verifiable(Spec::nvidia()), |cluster| {
        let mut bundle = Bundle::sleeping(&json!([{ "allow": true, "access": "rwm" }]));
        let job = cluster.submit(&["--gres=gpu:1"], "say_env env; while [ ! -e $OUT.go ]; do sleep 0.05; done\nrunc --root $WORK/runc run -d --bundle $WORK/bundle box </dev/null >$OUT.runc 2>&1\ntouch $OUT.started\nexec sleep 600");
        job.wait("env");
        assert_silent(cluster);
        bundle.cgroup = format!("{}/box", job.path());
        bundle.write(&cluster.work().join("bundle"));
        fs::write(cluster.work().join(format!("out/{}.go", job.id)), "").expect("a file");
        job.wait("started");
        let document = audit(cluster, &["--verify"]);
        let finding = among(&document, "dropped-denials", &["dropped-denials", "grant-without-alloc"]);
        assert_eq!((&finding["cgroup"], &finding["severity"]), (&json!(bundle.cgroup), &"critical".into()));
        let others: Minors = (0..4).filter(|minor| !job.granted().contains(minor)).collect();
        assert_eq!(minors(finding), others);
        let members = fs::read_to_string(job.cgroup("/box").join("cgroup.procs")).expect("members");
        let inside: BTreeSet<u64> = members.lines().map(pid_on_node).collect();
        assert!(!inside.is_empty());
        for finding in array(&document["findings"]) {
            assert_eq!(numbers(finding, "processes", "pid"), inside);
            assert_eq!(finding["cgroup"], json!(bundle.cgroup));
            assert_eq!(minors(finding), others);
        }
        let [(id, "allow")] = programs(finding)[..] else { panic!("{finding}") };
        let attached = bpf::effective(cgroup(&job, "/box").dir()).expect("programs");
        assert_eq!(attached.into_iter().map(u64::from).collect::<Vec<_>>(), [id]);
    });
}

/// The pid on the cluster's node of a process that is in a namespace below.
fn pid_on_node(outside: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{outside}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).expect("pids");
    line.split_whitespace().nth(1).and_then(|pid| pid.parse().ok()).expect("a pid")
}

/// Make sure that a UUID of a GPU that is another job's is found.
#[test]
fn foreign_uuid() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let other = cluster.submit(&["--gres=gpu:1"], WAIT);
        other.pid("pid");
        let (document, _) = cluster.inside(&["node"]);
        let gates = answer::gates(&document);
        let theirs = other.granted();
        let uuid = gates.iter().find(|(_, gate)| theirs.contains(&gate.minor)).expect("a GPU").0;
        let job = cluster
            .submit(&["--gres=gpu:1"], &format!("CUDA_VISIBLE_DEVICES={uuid} exec $actor ready $OUT.pid"));
        let pid = job.pid("pid");
        let document = audit(cluster, &[]);
        let finding = one(&document, "env-foreign-uuid");
        assert_eq!(finding["owner"]["job_id"], job.id);
        assert_eq!(numbers(finding, "processes", "pid"), [pid.into()].into());
        assert_eq!(minors(finding), theirs);
    });
}

/// Opens what the job was granted.
const OPEN: &str = r#"
arguments=()
for number in ${SLURM_JOB_GPUS//,/ }; do arguments+=(open /dev/hl$number); done
"#;

/// Make sure that processes which left their job's cgroup are found, the one
/// that holds a GPU as critical.
#[test]
fn escaped() {
    with_cluster(&Spec::openable(), |cluster| {
        cluster.run("mkdir", &["/sys/fs/cgroup/left", "/sys/fs/cgroup/away"]);
        let script = format!(
            "{OPEN}$actor ${{arguments[@]}} join /sys/fs/cgroup/left/cgroup.procs ready $OUT.holds &\n\
             $actor join /sys/fs/cgroup/away/cgroup.procs ready $OUT.idle &\nwait"
        );
        let job = cluster.submit(&["--gres=gpu:1"], &script);
        let (holds, idle) = (job.pid("holds"), job.pid("idle"));
        let granted: Minors = job.granted().iter().map(|place| OPENABLE[*place as usize].2).collect();
        let document = audit(cluster, &[]);
        let findings = only(&document, "process-outside-job");
        let expected = [("critical", "/left", holds, granted), ("warning", "/away", idle, Minors::new())];
        assert_eq!(findings.len(), expected.len(), "{document}");
        for (finding, (severity, path, pid, devices)) in findings.iter().zip(expected) {
            assert_eq!((&finding["severity"], &finding["cgroup"]), (&severity.into(), &path.into()));
            assert_eq!(numbers(finding, "processes", "pid"), [pid.into()].into());
            assert_eq!(finding["others"][0]["job_id"], job.id);
            assert_eq!(minors(finding), devices);
        }
    });
}

/// Make sure that a job whose own cgroup got another program, which opens the
/// GPU of another job, is found with that program.
#[test]
fn shared() {
    with_cluster(&verifiable(Spec::nvidia()), |cluster| {
        let job = cluster.submit(&["--gres=gpu:2"], WAIT);
        let other = cluster.submit(&["--gres=gpu:2"], WAIT);
        let (pid, theirs) = (job.pid("pid"), other.pid("pid"));
        let (first, second) = (job.granted(), other.granted());
        assert!(first.is_disjoint(&second));
        // In place of Slurm's, which is attached so that one below can replace it.
        let id = open_all(&job, "/step_batch/user/task_0");
        let document = audit(cluster, &["--verify"]);
        let ids = ["double-grant", "dropped-denials"];
        let dropped = among(&document, "dropped-denials", &ids);
        assert_eq!((minors(dropped), programs(dropped)), (second.clone(), vec![(id, "allow")]));
        let finding = among(&document, "double-grant", &ids);
        assert_eq!((&finding["severity"], &finding["confidence"]), (&"critical".into(), &"certain".into()));
        let owners = (&finding["owner"]["job_id"], &finding["others"][0]["job_id"]);
        assert_eq!(owners, (&job.id.into(), &other.id.into()));
        assert_eq!(numbers(finding, "processes", "pid"), [pid.into(), theirs.into()].into());
        // Slurm's decides of each GPU at another instruction.
        let slurms: u64 = bpf::effective(cgroup(&other, "").dir()).expect("programs")[0].into();
        let expected = BTreeSet::from([(id, "allow"), (slurms, "allow")]);
        assert_eq!(BTreeSet::from_iter(programs(finding)), expected);
        assert_eq!(minors(finding), second);
        let (document, _) = cluster.inside(&["audit", &other.path()]);
        assert_eq!(array(&document["findings"]).len(), 1, "the one that concerns the other job");
    });
}
