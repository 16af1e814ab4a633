//! A job that has ended, and what is left of it and of others.

use super::slurm::{BY_FILE, batch, opened, rules};
use super::{Proc, Scene};

const NOTE: &str = "Shaped from documented facts (Slurm's cgroup/v2 plugin, prolog_epilog guide), not captured; \
                    fixtures/scenarios/README.md has the sources.";
const SESSION: &str = "/user.slice/user-1001.slice/session-4.scope";

pub fn all() -> Vec<Scene> {
    let mut epilog = left("leftovers-epilog");
    epilog.hook(&[
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_UID", "1001"),
        ("SLURM_JOB_GPUS", "0,3"),
        ("CUDA_VISIBLE_DEVICES", "0,3"),
        ("SLURMD_NODENAME", "gpu01"),
        ("SLURM_SCRIPT_CONTEXT", "epilog_slurmd"),
    ]);
    vec![left("leftovers"), epilog, sealed(), unread()]
}

/// Job 7 has ended, 8 of the same user runs.
fn left(name: &'static str) -> Scene {
    let mut scene = Scene::new(name, "skewed", NOTE);
    scene.gres_conf(BY_FILE);
    let holds =
        |pid, comm, env, minors: &[u32]| Proc { pid, comm, env, open: opened(minors), ..Proc::default() };
    scene.job(7, Some(&rules(4, &[0, 3])));
    scene.task(7, "batch", "0", holds(711, "stays", batch("7", "0,3", "0,1"), &[0]));
    scene.task(
        7,
        "batch",
        "0",
        Proc { pid: 712, comm: "idle", env: batch("7", "0,3", "0,1"), ..Proc::default() },
    );
    scene.task(7, "batch", "0", Proc { pid: 713, comm: "sealed", sealed: true, ..Proc::default() });
    scene.batch_job(8, Some(&rules(4, &[1])), holds(811, "other", batch("8", "1", "0"), &[1]));
    // Started by job 7, moved by its user into job 8: job 8's now.
    scene.task(8, "batch", "0", holds(812, "moved", batch("7", "0,3", "0,1"), &[1]));
    let outside =
        |scene: &mut Scene, path: &str, uid, proc: Proc<'_>| scene.process(path, Proc { uid, ..proc });
    outside(&mut scene, SESSION, 1001, holds(721, "escaped", batch("7", "0,3", "0,1"), &[3]));
    outside(&mut scene, SESSION, 1001, holds(722, "elsewhere", batch("7", "0,3", "0,1"), &[2]));
    outside(&mut scene, SESSION, 1001, holds(723, "nameless", Vec::new(), &[0]));
    let other = "/user.slice/user-1002.slice/session-5.scope";
    outside(&mut scene, other, 1002, holds(731, "forged", batch("7", "0,3", "0,1"), &[0]));
    scene
}

/// Nothing of the job but a process that nobody may look into.
fn sealed() -> Scene {
    let mut scene = Scene::new("leftovers-sealed", "skewed", NOTE);
    scene.job(7, Some(&rules(4, &[0, 3])));
    scene.task(7, "batch", "0", Proc { pid: 713, comm: "sealed", sealed: true, ..Proc::default() });
    scene
}

/// The same as older versions of gpumap saved it: nobody looked into any
/// process.
fn unread() -> Scene {
    let mut scene = left("leftovers-unread");
    scene.observation.processes.iter_mut().for_each(|process| process.detail = None);
    scene
}
