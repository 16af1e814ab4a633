//! The four sets of real Slurm jobs: allocated as Slurm says, allowed as the
//! kernel does, visible as the processes ask, held as they have opened.
//!
//! Needs what `job_cgroups` needs.

use std::collections::BTreeSet;

use crate::support::slurm::answer::{self, Minors, array};
use crate::support::slurm::job::{Job, STEP_FILES, STEPS, WAIT};
use crate::support::slurm::spec::{OPENABLE, Spec};
use crate::support::slurm::{Cluster, with_cluster};
use serde_json::{Value, json};

/// The minors of the invented GPUs in PCI order, in which CUDA counts them.
const PCI_ORDER: [u32; 4] = [2, 3, 0, 1];

/// The same question from inside and from outside: both are certain, and their
/// owners' sets are equal.
fn ask_both(cluster: &Cluster, args: &[&str]) -> (Value, Value) {
    let (inside, code) = cluster.inside(args);
    assert_eq!((&inside["complete"], code), (&true.into(), 0), "{inside}");
    let (outside, code) = cluster.outside(args);
    assert_eq!((&outside["complete"], code), (&true.into(), 0), "{outside}");
    assert_eq!(inside["gpus"], outside["gpus"]);
    assert_eq!(jobs(&inside), jobs(&outside), "one truth for both sides");
    (inside, outside)
}

/// The sets of jobs and their parts. Outside there are other owners too.
fn jobs(document: &Value) -> Vec<&Value> {
    array(&document["owners"]).iter().filter(|sets| sets["owner"]["kind"] == "slurm").collect()
}

/// Checks one owner's sets.
fn check_sets(document: &Value, owner: &Value, granted: &Minors, allowed: &Minors, visible: &Minors) {
    assert_eq!(&answer::set(document, owner, "allocated"), granted, "allocated: {owner}");
    assert_eq!(owner["allocated"]["source"], "claimed", "{owner}");
    assert_eq!(&answer::set(document, owner, "allowed"), allowed, "allowed: {owner}");
    assert_eq!(&answer::set(document, owner, "visible"), visible, "visible: {owner}");
    assert_eq!(answer::set(document, owner, "held"), Minors::new(), "held: {owner}");
}

/// Make sure that `job` and `node` say of concurrent jobs what Slurm and the
/// kernel say.
#[test]
fn sets_of_jobs() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let none = cluster.submit(&[], WAIT);
        let one = cluster.submit(&["--gres=gpu:1"], WAIT);
        one.pid("pid");
        let two = cluster.submit(&["--gres=gpu:2"], WAIT);
        none.wait("pid");
        two.wait("pid");
        let (node, _) = ask_both(cluster, &["node"]);
        for job in [&one, &two] {
            let granted = job.granted();
            let kernel = answer::kernel(&node, &job.cgroup(""));
            let (document, _) = ask_both(cluster, &["job", &job.id.to_string()]);
            for document in [&document, &node] {
                let owner = answer::owner(document, job.id, None, None);
                check_sets(document, owner, &granted, &kernel, &granted);
            }
        }
        let owner = answer::owner(&node, none.id, None, None);
        assert_eq!(answer::set(&node, owner, "allowed"), Minors::new());
        let allocated = &owner["allocated"]["gpus"];
        assert!(allocated.is_null() || array(allocated).is_empty(), "{owner}");
    });
}

/// Make sure that each step and task has its own sets.
#[test]
fn sets_of_steps() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let job = cluster.submit(&["--gres=gpu:4", "-n4"], STEPS);
        job.wait_all(&STEP_FILES);
        let (document, _) = ask_both(cluster, &["job", &job.id.to_string()]);
        let kernel = |below: &str| answer::kernel(&document, &job.cgroup(below));
        for (step, environment) in [("0", "step0"), ("1", "step1")] {
            let granted = job.granted_by(environment, "SLURM_STEP_GPUS");
            let allowed = kernel(&format!("/step_{step}/user/task_0"));
            let owner = answer::owner(&document, job.id, Some(step), None);
            check_sets(&document, owner, &granted, &allowed, &allowed);
        }
        for task in ["0", "1"] {
            let allowed = kernel(&format!("/step_2/user/task_{task}"));
            let owner = answer::owner(&document, job.id, Some("2"), Some(task));
            assert_eq!(allowed.len(), 1);
            assert_eq!(answer::set(&document, owner, "allowed"), allowed);
            assert_eq!(answer::set(&document, owner, "visible"), allowed);
        }
        for step in ["batch", "extern"] {
            let owner = answer::owner(&document, job.id, Some(step), None);
            assert_eq!(answer::set(&document, owner, "allowed"), (0..4).collect());
        }
    });
}

/// Make sure that two jobs with shards of one GPU are shown to share it on
/// purpose.
#[test]
fn shards_are_shared() {
    with_cluster(&Spec::shards(), |cluster| {
        let jobs = [(); 2].map(|()| {
            let job = cluster.submit(&["--gres=shard:1"], WAIT);
            job.wait("pid");
            job
        });
        let (document, _) = ask_both(cluster, &["node"]);
        let allowed = jobs.map(|job| {
            let owner = answer::owner(&document, job.id, None, None);
            assert_eq!(owner["shares"], json!(["shard"]), "{owner}");
            let allowed = answer::set(&document, owner, "allowed");
            assert_eq!(allowed, answer::kernel(&document, &job.cgroup("")));
            assert_eq!(allowed.len(), 1);
            allowed
        });
        assert_eq!(allowed[0], allowed[1], "Slurm fills one GPU first");
    });
}

/// Make sure that `check --job` answers as the kernel does.
#[test]
fn check_of_a_job() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let job = cluster.submit(&["--gres=gpu:2"], WAIT);
        job.wait("pid");
        let (document, _) = cluster.inside(&["job", &job.id.to_string()]);
        let kernel = answer::kernel(&document, &job.cgroup(""));
        let devices = [0, 1, 2, 3].map(|minor| format!("c 195:{minor}"));
        let id = job.id.to_string();
        let mut args = vec!["check", "--job", &id];
        args.extend(devices.iter().map(String::as_str));
        for (document, code) in [cluster.inside(&args), cluster.outside(&args)] {
            let verdicts = array(&document["checks"]).iter().zip(0..);
            let allowed = verdicts.filter(|(check, _)| check["verdict"] == "allow").map(|(_, minor)| minor);
            assert_eq!((allowed.collect::<Minors>(), code), (kernel.clone(), 1), "{document}");
        }
    });
}

/// Processes that set the variable in every way there is; what each is called
/// here, its value at exec and its value now.
const CHANGES: [(&str, Option<&str>, Option<&str>); 6] = [
    ("setenv", Some("0,1"), Some("1")),
    ("putenv", Some("0,1"), Some("1")),
    ("python", Some("0,1"), Some("1")),
    ("env", Some("1"), Some("1")),
    ("unset", Some("0,1"), None),
    ("empty", Some("0,1"), Some("")),
];
const CHANGE: &str = r#"
$actor setenv CUDA_VISIBLE_DEVICES 1 ready $OUT.setenv &
$actor putenv CUDA_VISIBLE_DEVICES=1 ready $OUT.putenv &
$actor unsetenv CUDA_VISIBLE_DEVICES ready $OUT.unset &
$actor setenv CUDA_VISIBLE_DEVICES "" ready $OUT.empty &
env CUDA_VISIBLE_DEVICES=1 $actor ready $OUT.env &
/usr/bin/python3 -c '
import os, time
os.environ["CUDA_VISIBLE_DEVICES"] = "1"
path = os.environ["OUT"] + ".python"
with open(path + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(path + ".new", path)
time.sleep(600)
' &
wait
"#;

/// Make sure that a change of the environment at run time is seen, in whatever
/// way it was made, and means the GPUs that CUDA would take.
#[test]
fn changed_at_run_time() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let other = cluster.submit(&["--gres=gpu:1"], WAIT);
        other.pid("pid");
        let job = cluster.submit(&["--gres=gpu:2"], CHANGE);
        for (name, at_exec, live) in CHANGES {
            let pid = job.pid(name);
            let outside = cluster.outside_pid(pid).expect("a process");
            let granted = job.granted();
            for (pid, (document, code)) in [
                (pid, cluster.inside(&["pid", &pid.to_string()])),
                (outside, cluster.outside(&["pid", &outside.to_string()])),
            ] {
                assert_eq!((&document["complete"], code), (&true.into(), 0), "{name}: {document}");
                let visible = &answer::process(&document, pid)["visible"];
                check_asked(&document, &visible["at_exec"], at_exec, &granted, name);
                check_asked(&document, &visible["live"], live, &granted, name);
                assert_eq!(visible["changed"], at_exec != live, "{name}: {visible}");
            }
        }
    });
}

/// Checks one environment's value and the GPUs that result, in order.
fn check_asked(document: &Value, asked: &Value, raw: Option<&str>, granted: &Minors, name: &str) {
    assert_eq!(asked["raw"], json!(raw), "{name}: {asked}");
    let state = match raw {
        None => "unset",
        Some("") => "empty",
        Some(_) => "value",
    };
    assert_eq!(asked["state"], state, "{name}: {asked}");
    let counted: Vec<u32> = PCI_ORDER.into_iter().filter(|minor| granted.contains(minor)).collect();
    let expected: Vec<u32> = match raw {
        None | Some("0,1") => counted,
        Some("1") => counted[1..].to_vec(),
        _ => Vec::new(),
    };
    let gates = answer::gates(document);
    let keys = array(&asked["gpus"]).iter().map(|key| gates[key.as_str().expect("a key")].minor);
    assert_eq!(keys.collect::<Vec<u32>>(), expected, "{name}: {asked}");
}

/// Opens the devices it was granted, and makes sure that the others are refused.
const HOLD: &str = r#"
arguments=()
for number in 0 1 2 3; do
    case ",$SLURM_JOB_GPUS," in
        *,$number,*) arguments+=(open /dev/hl$number) ;;
        *) arguments+=(refused /dev/hl$number) ;;
    esac
done
"#;

/// The minors of the openable devices at these places of `gres.conf`.
fn openable(places: &BTreeSet<u32>) -> Minors {
    places.iter().map(|place| OPENABLE[*place as usize].2).collect()
}

/// Make sure that the accelerators that can be opened are treated by Slurm, the
/// kernel and gpumap as GPUs are: the ground the other tests stand on.
#[test]
fn openable_gpus() {
    with_cluster(&Spec::openable(), |cluster| {
        let job =
            cluster.submit(&["--gres=gpu:2"], &format!("{HOLD}exec $actor ${{arguments[@]}} ready $OUT.pid"));
        let pid = cluster.outside_pid(job.pid("pid")).expect("a process");
        let granted = openable(&job.granted());
        let (document, _) = cluster.inside(&["cgroup", &job.path()]);
        assert_eq!(answer::allowed(&document, &job.path()), granted);
        assert_eq!(answer::kernel(&document, &job.cgroup("")), granted);
        assert_eq!(answer::opened(pid), granted);
    });
}

/// Make sure that what processes have open is held, and nothing else.
#[test]
fn held() {
    with_cluster(&Spec::openable(), |cluster| {
        let script =
            format!("{HOLD}$actor ${{arguments[@]}} ready $OUT.holds &\n$actor ready $OUT.idle & wait");
        let one = cluster.submit(&["--gres=gpu:1"], &script);
        let two = cluster.submit(&["--gres=gpu:2"], &script);
        for job in [&one, &two] {
            let (holds, idle) = (job.pid("holds"), job.pid("idle"));
            let (document, _) = ask_both(cluster, &["job", &job.id.to_string()]);
            let granted = openable(&job.granted());
            let owner = answer::owner(&document, job.id, None, None);
            assert_eq!(answer::set(&document, owner, "held"), granted);
            let of = |pid| answer::minors(&document, &answer::process(&document, pid)["held"]);
            assert_eq!((of(holds), of(idle)), (granted, Minors::new()));
        }
    });
}

/// Three processes of a job: one that stays and holds, one that left and holds,
/// one that left and holds nothing.
const LEAVE: &str = r#"
left=/sys/fs/cgroup/left/cgroup.procs
$actor ${arguments[@]} ready $OUT.stays &
$actor ${arguments[@]} join $left ready $OUT.leaves &
$actor join $left ready $OUT.idle &
wait
"#;

/// What `leftovers` lists for a job that was granted these GPUs: pid, and why it
/// is the job's.
fn leftovers(cluster: &Cluster, job: &Job<'_>, granted: &Minors) -> BTreeSet<(u32, String)> {
    let (document, code) = cluster.inside(&["leftovers", "--job", &job.id.to_string()]);
    let list = array(&document["leftovers"]);
    assert_eq!((&document["complete"], code), (&true.into(), i32::from(!list.is_empty())), "{document}");
    let entry = |leftover: &Value| {
        assert_eq!(answer::minors(&document, &leftover["gpus"]), *granted, "{leftover}");
        let pid = leftover["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a pid");
        (pid, leftover["belongs_by"].as_str().expect("a reason").to_owned())
    };
    list.iter().map(entry).collect()
}

/// Make sure that leftovers are a job's own processes that hold its GPUs, in its
/// cgroup or out of it, and never those of the same user's other job.
#[test]
fn left_behind() {
    with_cluster(&Spec::openable(), |cluster| {
        cluster.run("mkdir", &["/sys/fs/cgroup/left"]);
        let script = format!("{HOLD}{LEAVE}");
        let job = cluster.submit(&["--gres=gpu:1"], &script);
        let other = cluster.submit(&["--gres=gpu:2"], &script);
        for job in [&job, &other] {
            job.wait_all(&["stays", "leaves", "idle"]);
        }
        let by = |job: &Job<'_>, name: &str, why: &str| (job.pid(name), why.to_owned());
        for job in [&job, &other] {
            let both = [by(job, "stays", "cgroup"), by(job, "leaves", "environment")];
            assert_eq!(leftovers(cluster, job, &openable(&job.granted())), both.into());
        }
        let granted = openable(&job.granted());
        job.cancel();
        assert_eq!(leftovers(cluster, &job, &granted), [by(&job, "leaves", "environment")].into());
        cluster.run("kill", &["-KILL", &job.pid("leaves").to_string()]);
        cluster.wait_for_end(job.pid("leaves"));
        assert_eq!(leftovers(cluster, &job, &granted), BTreeSet::new());
    });
}
