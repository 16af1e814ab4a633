//! bench
#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr)]
mod support;
use support::slurm::{Cluster, spec::Spec};
#[test]
fn smoke() {
    let began = std::time::Instant::now();
    let cluster = Cluster::start(&Spec::nvidia()).unwrap_or_else(|log| panic!("{log}"));
    eprintln!("started {:?}", began.elapsed());
    let job = cluster.submit(&["--gres=gpu:2", "-n1"], "env >$OUT.e; mv $OUT.e $OUT.env; srun --gres=gpu:1 $actor ready $OUT.pid");
    let pid = job.pid("pid");
    eprintln!("{:?} pid {pid} out {:?}", began.elapsed(), cluster.outside_pid(pid));
    eprintln!("{:?} {:?}", job.granted(), job.variable("env", "SLURM_JOB_GPUS"));
    eprintln!("{}", cluster.run("find", &["/sys/fs/cgroup/", "-type", "d"]));
    eprintln!("{}", cluster.inside(&["cgroup", "-r", &Cluster::scope()]).0);
    eprintln!("{}", cluster.outside(&["cgroup", "-r", &Cluster::scope()]).0);
    let began = std::time::Instant::now();
    drop(job);
    eprintln!("cancel {:?}", began.elapsed());
    drop(cluster);
    eprintln!("down {:?}", began.elapsed());
}
