//! Jobs of a real Slurm.

use std::fs;

use gpumap::model::EventKind;
use gpumap::model::Owner;
use gpumap::report::{Event, PolicyEvent};
use serde_json::json;

use super::{CUDA, is_of, of};
use crate::support::slurm::job::Job;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, answer, with_cluster};
use crate::support::watching::{Watch, changes};

/// A job that begins a step with half of its GPUs when it is told to, which says
/// its pid and changes its variable when it is told to.
const SCRIPT: &str = r#"
until_there() { while [ ! -e $OUT.$1 ]; do sleep 0.2; done; }
export -f until_there
say_env env
until_there begin
srun --exact -n1 -c1 --gres=gpu:1 bash -c 'say_env step; until_there change; exec /usr/bin/python3 -c "
import os, time
os.environ[\"CUDA_VISIBLE_DEVICES\"] = \"9\"
out = os.environ[\"OUT\"]
with open(out + \".new\", \"w\") as file:
    file.write(str(os.getpid()))
os.rename(out + \".new\", out + \".pid\")
time.sleep(600)
"'
"#;

fn tell(cluster: &Cluster, job: &Job<'_>, what: &str) {
    fs::write(cluster.work().join(format!("out/{}.{what}", job.id)), "").unwrap();
}

/// What was said of the programs of this cgroup first, and whose it is.
fn policy<'e>(events: &'e [Event], path: &str) -> (&'e Owner, &'e PolicyEvent) {
    let mut own = events.iter().filter(|event| event.cgroup.as_deref() == Some(path));
    own.find_map(|event| Some((event.owner.as_ref()?, event.policy.as_ref()?))).unwrap()
}

/// Make sure that a watch of a job tells what its steps do, whose they are, and
/// what their programs take away, and nothing of another job.
#[test]
fn one_job() {
    with_cluster(&Spec::nvidia(), |cluster| {
        let (job, other) =
            (cluster.submit(&["--gres=gpu:2"], SCRIPT), cluster.submit(&["--gres=gpu:2"], SCRIPT));
        job.wait("env");
        other.wait("env");
        let id = job.id.to_string();
        let (root, inventory) =
            (cluster.cgroup_root().to_str().unwrap(), cluster.inventory().to_str().unwrap());
        let watch = Watch::start(&["--job", &id, "--cgroup-root", root, "--gpu-root", inventory]);
        for job in [&other, &job] {
            tell(cluster, job, "begin");
            job.wait("step");
        }
        // Slurm confines the step's user part and, again, each task.
        let path = format!("{}/step_0/user", job.path());
        let task = format!("{path}/task_0");
        let mut events =
            watch.until(|event| event.event == EventKind::Policy && event.cgroup.as_ref() == Some(&task));
        for job in [&other, &job] {
            tell(cluster, job, "change");
            job.wait("pid");
        }
        let pid = cluster.outside_pid(job.pid("pid")).unwrap();
        let runs = (pid, "python3");
        events.extend(watch.until(|event| is_of(event, runs) && event.event == EventKind::Visible));

        let own = of(&events, runs);
        assert_eq!(changes(&own), [("setenv".to_owned(), CUDA.to_owned(), "9".to_owned())]);
        let change = own.last().unwrap();
        let owner = change.owner.as_ref().unwrap();
        assert_eq!(
            (owner.kind.is_slurm(), owner.job_id, owner.step.as_deref()),
            (true, Some(job.id), Some("0"))
        );
        assert_eq!(change.old.as_ref().unwrap().raw, job.variable("step", CUDA));
        assert!(change.cgroup.as_ref().unwrap().starts_with(&path), "{change:?}");
        // Nothing that the job owns has this number.
        assert_eq!(change.asked.as_ref().unwrap().gpus.as_deref(), Some(&[][..]));

        let (document, _) = cluster.outside(&["job", &id]);
        let kernel = |below: &str| answer::kernel(&document, &job.cgroup(below));
        let taken = &kernel("") - &kernel("/step_0/user/task_0");
        assert_eq!(taken.len(), 1);
        for (path, number) in [(&path, None), (&task, Some("0"))] {
            let (owner, policy) = policy(&events, path);
            assert_eq!((owner.step.as_deref(), owner.task.as_deref()), (Some("0"), number));
            assert_eq!(answer::minors(&document, &json!(policy.lost)), taken);
            assert!(policy.gained.is_empty() && !policy.attached.is_empty());
        }

        let stranger =
            |event: &&Event| event.owner.as_ref().is_some_and(|owner| owner.job_id == Some(other.id));
        assert_eq!(events.iter().find(stranger), None);
        drop(watch);
    });
}
