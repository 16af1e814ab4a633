//! Other Slurms than the machine's: Debian's stable (24.11) and newest (26.05 and
//! later, whose jobs have SLUIDs for names), from trees that the tests make.
//!
//! A tree is made once, by mmdebstrap, below cargo's directory for tests. Needs
//! mmdebstrap and a mirror of Debian besides.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::job_cgroups::{check_cgroups, check_jobs, check_mig};
use crate::support::host;
use crate::support::slurm::answer::{self, Minors};
use crate::support::slurm::job::{Job, WAIT};
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, text, with_cluster};
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// Debian's releases: 24.11 is in the first.
const SUITES: [&str; 2] = ["trixie", "sid"];
const PACKAGES: &str = "slurmd,slurmctld,slurm-client,munge,busybox,procps,mount,hostname";

/// The tree of a release, made if it is not there; an error says what the mirror or
/// mmdebstrap said.
fn tree(suite: &str) -> Result<PathBuf, String> {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(all).map_err(|error| error.to_string())?;
    // Tests beside this one, and other runs, wait for it.
    let lock = File::create(all.join(format!("slurm-{suite}.lock"))).map_err(|error| error.to_string())?;
    let _turn = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, error)| error.to_string())?;
    let done = all.join(format!("slurm-{suite}"));
    if done.exists() {
        return Ok(done);
    }
    let new = all.join(format!("slurm-{suite}.new"));
    let _ = fs::remove_dir_all(&new);
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=apt", "--dpkgopt=force-unsafe-io"]);
    command.args(["--aptopt=Acquire::Check-Valid-Until \"false\"", "--aptopt=Acquire::Retries \"3\""]);
    command.arg(format!("--include={PACKAGES}")).arg(suite).arg(&new);
    let output = command.output().map_err(|error| format!("mmdebstrap: {error}"))?;
    if !output.status.success() {
        return Err(format!("mmdebstrap {suite}: {}", text(&output)));
    }
    fs::rename(&new, &done).map_err(|error| error.to_string())?;
    Ok(done)
}

/// Runs a test with the Slurm of each release, whose name it is told.
pub(super) fn with_each(spec: &Spec, test: impl Fn(&Cluster, &str)) {
    for suite in SUITES {
        with_one(suite, spec, |cluster| test(cluster, suite));
    }
}

fn with_one(suite: &str, spec: &Spec, test: impl FnOnce(&Cluster)) {
    match tree(suite) {
        Ok(tree) => with_cluster(&Spec { tree: Some(tree), ..spec.clone() }, test),
        Err(why) => host::skip(&format!("there is no Slurm of Debian {suite}: {why}")),
    }
}

/// Make sure that jobs may open what Slurm says they have, by the kernel too.
#[test]
fn jobs() {
    with_each(&Spec::nvidia(), |cluster, _| check_jobs(cluster));
}

/// Make sure that MIG instances are told apart.
#[test]
fn mig_instances() {
    with_each(&Spec::mig(), |cluster, _| check_mig(cluster));
}

/// Directories that are each job's own, in a mount namespace of its own; the tests speak
/// with their jobs through /tmp.
const OWN_DIRECTORIES: &str = "AutoBasePath=true\nBasePath=@WORK@/containers\nDirs=/var/tmp,/dev/shm\n";
/// The plugin that makes them, by the names that it has in [`SUITES`].
const OWN_NAMESPACES: [&str; 2] =
    ["JobContainerType=job_container/tmpfs\n", "NamespaceType=namespace/tmpfs\n"];

/// Keeps this thread, and all processes that it starts, on one processor.
///
/// Slurm mounts the file of each job's namespace, which a kernel refuses unless that has
/// a higher number than the namespace it is mounted in. Linux 6.18 gives numbers in
/// batches by processor, so that a newer namespace can have the lower number.
fn stay_on_one_processor() {
    let myself = Pid::from_raw(0);
    let allowed = sched_getaffinity(myself).expect("processors");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::count()).find(|&number| allowed.is_set(number) == Ok(true)).expect("one"))
        .expect("a set");
    sched_setaffinity(myself, &one).expect("a processor");
}

/// Make sure that jobs in mount namespaces of their own have the same answers.
#[test]
fn job_containers() {
    stay_on_one_processor();
    for (suite, more) in SUITES.into_iter().zip(OWN_NAMESPACES) {
        let spec = Spec { more, containers: OWN_DIRECTORIES, ..Spec::nvidia() };
        with_one(suite, &spec, |cluster| {
            let jobs = ["--gres=gpu:1", "--gpus=2"].map(|option| {
                let job = cluster.submit(&[option], WAIT);
                let pid = cluster.outside_pid(job.pid("pid")).expect("its process");
                let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).expect("a namespace");
                assert_ne!(namespace(pid), namespace(cluster.init), "{suite}: it has none of its own");
                job
            });
            for job in jobs {
                assert_eq!(check_cgroups(cluster, &job), job.granted(), "{suite}");
                let (document, code) = cluster.inside(&["job", &job.id.to_string()]);
                assert_eq!((&document["complete"], code), (&true.into(), 0), "{suite}: {document}");
                let row = answer::owner(&document, job.id, None, None);
                let visible = answer::minors(&document, &row["visible"]["gpus"]);
                assert_eq!(visible, job.granted(), "{suite}: {row}");
            }
            assert_eq!(cluster.inside(&["audit"]).0["findings"], json!([]), "{suite}");
        });
    }
}

/// Make sure that steps and tasks, an array's task, a step that overlaps, and a job
/// that is suspended have their numbers and their GPUs, with numbers
/// and with SLUIDs in their paths, and that nothing is found amiss.
#[test]
fn kinds_of_jobs() {
    with_each(&Spec::nvidia(), |cluster, suite| {
        let array_of_one = cluster.submit(&["--gres=gpu:1", "--array=7"], WAIT);
        array_of_one.pid("pid");
        let (document, code) = cluster.inside(&["job", &format!("{}_7", array_of_one.id)]);
        assert_eq!(
            (answer::owner(&document, array_of_one.id, None, None)["owner"]["job_id"].as_u64(), code),
            (Some(array_of_one.id), 0)
        );
        let job = cluster.submit(&["--gres=gpu:3", "-n3"], OVERLAP);
        job.wait_all(&["pid0", "pid1"]);
        assert_eq!(check_cgroups(cluster, &job), job.granted(), "{suite}");
        let (document, code) = cluster.inside(&["job", &job.id.to_string()]);
        assert_eq!((&document["complete"], code), (&true.into(), 0), "{suite}: {document}");
        let owner = |step, task| answer::owner(&document, job.id, step, task);
        let source = &owner(None, None)["owner"]["job_id_source"];
        let expected = if job.path().contains("/job_") { "path" } else { "stepd-title" };
        assert_eq!(source, expected, "{suite}");
        for (step, file) in [("0", "step0"), ("1", "step1")] {
            let allowed = answer::minors(&document, &owner(Some(step), Some("0"))["allowed"]["gpus"]);
            assert_eq!(allowed, job.granted_by(file, "SLURM_STEP_GPUS"), "{suite}: step {step}");
        }
        let id = job.id.to_string();
        cluster.run("scontrol", &["suspend", &id]);
        assert_eq!(check_cgroups(cluster, &job).len(), 3, "{suite}: suspended");
        cluster.run("scontrol", &["resume", &id]);
        assert_eq!(cluster.inside(&["audit"]).0["findings"], json!([]), "{suite}");
    });
}

/// Make sure that a requeued job is the one that runs now, and that it has the GPUs that
/// it has now.
#[test]
fn requeued() {
    with_each(&Spec::nvidia(), check_requeued);
}

/// The same with the machine's Slurm.
#[test]
fn requeued_by_this_one() {
    with_cluster(&Spec::nvidia(), |cluster| check_requeued(cluster, "this machine"));
}

fn check_requeued(cluster: &Cluster, slurm: &str) {
    let before = cluster.submit(&["--requeue", "--gres=gpu:1"], RESTARTS);
    let old = before.pid("pid0");
    let id = before.id.to_string();
    cluster.run("scontrol", &["requeue", &id]);
    // Slurm waits two minutes else, for credentials to expire.
    cluster.wait_until("pending again", || cluster.run("squeue", &["-h", "-o%t", "-j", &id]).trim() == "PD");
    // A credential of the second in which the old one was revoked counts as revoked, too.
    let revoked = Instant::now();
    cluster.wait_until("a later second", || revoked.elapsed() > Duration::from_secs(2));
    cluster.run("scontrol", &["update", &format!("JobId={id}"), "StartTime=now"]);
    let new = before.pid("pid1");
    let after = before.again();
    let (document, code) = cluster.inside(&["job", &id]);
    assert_eq!((&document["complete"], code), (&true.into(), 0), "{slurm}: {document}");
    assert_eq!(
        answer::set(&document, answer::owner(&document, after.id, None, None), "allowed"),
        after.granted()
    );
    let of = |cgroup: &Value| answer::array(&cgroup["processes"]).to_vec();
    let processes: Vec<Value> = answer::array(&document["cgroups"]).iter().flat_map(of).collect();
    let has = |pid: u32| processes.iter().any(|process| process["pid"] == pid);
    assert!(has(new) && !has(old), "{slurm}: {new}, not {old}: {document}");
    assert_eq!(allowed_by_the_kernel(cluster, &after), after.granted(), "{slurm}");
    assert_eq!(cluster.inside(&["audit"]).0["findings"], json!([]), "{slurm}");
}

fn allowed_by_the_kernel(cluster: &Cluster, job: &Job<'_>) -> Minors {
    let (document, _) = cluster.inside(&["cgroup", &job.path()]);
    answer::kernel(&document, &job.cgroup(""))
}

/// Says its pid, after it was requeued in another file.
const RESTARTS: &str = "exec $actor ready $OUT.pid${SLURM_RESTART_COUNT:-0}";

/// Two steps of which one has one GPU and the other overlaps it with all.
const OVERLAP: &str = r#"
export actor
srun --exact -n1 -c1 --gres=gpu:1 bash -c 'say_env step0; exec $actor ready $OUT.pid0' &
while [ ! -e $OUT.pid0 ]; do sleep 0.05; done
srun --overlap -n1 --gres=gpu:3 bash -c 'say_env step1; exec $actor ready $OUT.pid1' &
wait
"#;
