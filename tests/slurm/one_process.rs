//! Asks about one process of a real Slurm's job, as its user or an admin at 3 a.m.
//! does: `pid`, `check --pid` and `explain --pid`, as root, as the owner of the
//! process, and as somebody else.
//!
//! Needs what `job_cgroups` needs.

use std::process::Output;

use crate::support::slurm::job::Job;
use crate::support::slurm::spec::Spec;
use crate::support::slurm::{Cluster, with_cluster};

/// A process of another user in a job of one GPU.
const OF_NOBODY: &str =
    "mkdir -m 777 $OUT.d; exec setpriv --reuid=65534 --regid=65534 --clear-groups $actor ready $OUT.d/pid";

fn both(output: &Output) -> String {
    format!(
        "{}--\n{}rc {:?}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code()
    )
}

/// gpumap inside, as this user.
fn asked(cluster: &Cluster, uid: u32, args: &[&str]) -> Output {
    let program = cluster.work().join("gpumap");
    let mut command = cluster.command("setpriv");
    let uid = uid.to_string();
    command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]).arg(program).args(args);
    command.arg("--gpu-root").arg(cluster.inventory()).output().expect("nsenter")
}

#[test]
fn a_process_of_a_job() {
    with_cluster(&Spec::nvidia(), |cluster| {
        std::fs::copy(env!("CARGO_BIN_EXE_gpumap"), cluster.work().join("gpumap")).expect("a copy");
        let job: Job<'_> = cluster.submit(&["--gres=gpu:1"], OF_NOBODY);
        let pid = job.pid("d/pid").to_string();
        eprintln!("granted {:?}", job.granted());
        for uid in [0, 65534, 65533] {
            for args in [
                &["pid", &pid][..],
                &["check", "--pid", &pid, "nvidia0", "nvidia1", "nvidia2", "nvidia3", "/dev/nvidiactl"],
                &["explain", "--pid", &pid, "nvidia0"],
                &["explain", "--pid", &pid, "nvidia1"],
                &["pid", &pid, "999999"],
                &["check", "--pid", "999999", "nvidia0"],
                &["job", &job.id.to_string()],
                &["node"],
            ] {
                eprintln!("=== uid {uid}: {args:?}\n{}", both(&asked(cluster, uid, args)));
            }
        }
    });
}
