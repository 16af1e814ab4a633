//! The rows of `fixtures/scenarios/README.md`, in its order.

use gpumap::observation::Answer;

use super::programs;
use super::slurm::{BY_FILE, USER, UVM, batch, job, opened, rules, with};
use super::{CTL, Proc, Scene};

const A_3B: &str = "GPU-33333333-2222-3333-4444-555555555555";
const A_86: &str = "GPU-11111111-2222-3333-4444-555555555555";
const A_AF: &str = "GPU-22222222-2222-3333-4444-555555555555";

const NOTE: &str = "Shaped from documented facts (gres.conf(5), Slurm's cgroup/v2 and gres plugins, CUDA \
                    Programming Guide), not captured; fixtures/scenarios/README.md has the sources.";

pub fn all() -> Vec<Scene> {
    vec![
        one_gpu(),
        two_gpus("02-two-gpus", "0,1"),
        two_gpus("03-half-used", "1"),
        two_gpus("04-ordinal-too-large", "2"),
        two_gpus("05-foreign-uuid", A_3B),
        unconstrained(),
        mismatch(),
        no_gpu("07-no-gpu", BY_FILE, 4),
        no_gpu("08-unmanaged-gpu", "Name=gpu File=/dev/nvidia[0-2]\n", 3),
        ray("09-ray-unread", Answer::Missing("the executable has no symbol environ".to_owned())),
        ray("09-ray-read", Answer::Known(with(batch("7", "0-3", "0,1,2,3"), "CUDA_VISIBLE_DEVICES", "2"))),
        dask(),
        held_but_denied(),
        shard(),
        mig(),
        mig_hole(),
        adopted(),
        tasks(),
        stale(),
        htcondor(),
        mps(),
        stale_major(),
        heterogeneous(),
    ]
}

/// A node with the GPUs whose minors are not in PCI order, by file.
fn skewed(name: &'static str) -> Scene {
    let mut scene = Scene::new(name, "skewed", NOTE);
    scene.gres_conf(BY_FILE);
    scene
}

fn python<'a>(pid: u32, env: Vec<(&'a str, &'a str)>, open: &[u32]) -> Proc<'a> {
    let open = if open.is_empty() { Vec::new() } else { opened(open) };
    Proc { pid, comm: "python", env, open, ..Proc::default() }
}

fn one_gpu() -> Scene {
    let mut scene = skewed("01-one-gpu");
    scene.batch_job(7, Some(&rules(4, &[0])), python(702, batch("7", "0", "0"), &[0]));
    scene
}

fn two_gpus(name: &'static str, visible: &'static str) -> Scene {
    let mut scene = skewed(name);
    let env = with(batch("7", "0,3", "0,1"), "CUDA_VISIBLE_DEVICES", visible);
    let open: &[u32] = match visible {
        "0,1" => &[0, 3],
        "1" => &[0],
        _ => &[],
    };
    scene.batch_job(7, Some(&rules(4, &[0, 3])), python(702, env, open));
    scene
}

fn unconstrained() -> Scene {
    let mut scene = skewed("06-unconstrained");
    scene.batch_job(7, None, python(702, batch("7", "1,3", "1,3"), &[1, 3]));
    scene.batch_job(8, None, python(802, batch("8", "0,2", "0,2"), &[0, 2]));
    scene
}

fn mismatch() -> Scene {
    let mut scene = skewed("06-unconstrained-mismatch");
    scene.batch_job(7, None, python(702, batch("7", "0,1", "0,1"), &[2, 3]));
    scene
}

fn no_gpu(name: &'static str, gres_conf: &str, managed: u32) -> Scene {
    let mut scene = skewed(name);
    scene.gres_conf(gres_conf);
    scene.batch_job(7, Some(&rules(managed, &[])), python(702, batch("7", "", ""), &[]));
    scene
}

fn ray(name: &'static str, live: Answer<Vec<(&'static str, &'static str)>>) -> Scene {
    let mut scene = skewed(name);
    let worker =
        Proc { comm: "ray::Trainer", live: Some(live), ..python(702, batch("7", "0-3", "0,1,2,3"), &[0]) };
    scene.batch_job(7, Some(&rules(4, &[0, 1, 2, 3])), worker);
    scene
}

fn dask() -> Scene {
    let mut scene = skewed("10-dask-cuda");
    let env = |visible| with(batch("7", "0-3", "0,1,2,3"), "CUDA_VISIBLE_DEVICES", visible);
    scene.batch_job(7, Some(&rules(4, &[0, 1, 2, 3])), python(702, env("0,1,2,3"), &[2]));
    scene.task(7, "batch", "0", python(703, env("2,3,0,1"), &[0]));
    scene
}

fn held_but_denied() -> Scene {
    let mut scene = skewed("11-held-but-denied");
    let worker = Proc { old: true, ..python(702, batch("7", "0", "0"), &[0, 1]) };
    scene.batch_job(7, Some(&rules(4, &[0])), worker);
    scene
}

fn shard() -> Scene {
    let mut scene = skewed("12-shard");
    scene.gres_conf("Name=gpu File=/dev/nvidia[0-3]\nName=shard Count=8 File=/dev/nvidia0\n");
    for (id, name, pid) in [(7, "7", 702), (8, "8", 802)] {
        let env = with(batch(name, "", ""), "CUDA_VISIBLE_DEVICES", "0");
        let env = with(env, "SLURM_SHARDS_ON_NODE", "4");
        scene.batch_job(id, Some(&rules(4, &[0])), python(pid, env, &[0]));
    }
    scene
}

/// What opening an instance with these capabilities of GPU 0 leaves open.
fn instance(caps: [u32; 2]) -> Vec<(u32, u32)> {
    vec![CTL, (510, 0), (195, 0), (235, caps[0]), (235, caps[1])]
}

/// `gres.conf` with these MIG instances and no other.
fn instances(slots: &[(u32, &[u32])]) -> String {
    let line = |(gpu, caps): &(u32, &[u32])| {
        let caps: String = caps.iter().map(|cap| format!(",/dev/nvidia-caps/nvidia-cap{cap}")).collect();
        format!("Name=gpu MultipleFiles=/dev/nvidia{gpu}{caps}\n")
    };
    slots.iter().map(line).collect()
}

/// The rules for GPUs 0 and 2 and these capabilities of GPU 0.
fn capabilities(caps: &[u32], granted: [u32; 2]) -> Vec<programs::Rule> {
    let own = caps.iter().map(|cap| (235, *cap, granted.contains(cap)));
    [(195, 0, true)].into_iter().chain(own).chain([(195, 2, false), (235, 336, false)]).collect()
}

const NAMED: &str = "MIG-GPU-11111111-2222-3333-4444-555555555555/1/0";
const BY_ID: &str = "MIG-77777777-2222-3333-4444-555555555555";

fn mig() -> Scene {
    let mut scene = Scene::new("13-mig", "mig", NOTE);
    scene.gres_conf(&instances(&[(0, &[12, 13]), (0, &[21, 22]), (0, &[21, 23]), (2, &[336])]));
    let caps = [12, 13, 21, 22, 23];
    let proc = Proc { open: instance([12, 13]), ..python(702, batch("7", "0", NAMED), &[]) };
    scene.batch_job(7, Some(&capabilities(&caps, [12, 13])), proc);
    let proc = Proc { open: instance([21, 22]), ..python(802, batch("8", "1", BY_ID), &[]) };
    scene.batch_job(8, Some(&capabilities(&caps, [21, 22])), proc);
    scene
}

/// `gres.conf` does not list the capabilities of the first instance.
fn mig_hole() -> Scene {
    let mut scene = Scene::new("13-mig-open-capability", "mig", NOTE);
    scene.gres_conf(&instances(&[(0, &[21, 22]), (0, &[21, 23]), (2, &[336])]));
    let proc = Proc { open: instance([21, 22]), ..python(802, batch("8", "0", BY_ID), &[]) };
    scene.batch_job(8, Some(&capabilities(&[21, 22, 23], [21, 22])), proc);
    scene
}

fn adopted() -> Scene {
    let mut scene = skewed("14-adopted");
    scene.job(7, Some(&rules(4, &[0, 3])));
    scene.step(7, "extern", 701, None);
    let sleep = Proc { pid: 702, comm: "sleep", env: batch("7", "", ""), ..Proc::default() };
    scene.task(7, "extern", "0", sleep);
    let shell = Proc { pid: 703, comm: "bash", ..Proc::default() };
    scene.task(7, "extern", "special", shell);
    scene.step(7, "batch", 704, None);
    scene.task(7, "batch", "0", python(705, batch("7", "0,3", "0,1"), &[0, 3]));
    scene
}

fn tasks() -> Scene {
    let mut scene = skewed("15-gpus-per-task");
    scene.job(7, Some(&rules(4, &[0, 3])));
    scene.step(7, "0", 701, Some(&rules(4, &[0, 3])));
    for (task, minor, pid) in [("0", 0, 702), ("1", 3, 703)] {
        let env = with(batch("7", "0,3", "0"), "SLURM_STEP_ID", "0");
        let env = with(with(env, "SLURM_STEP_GPUS", "0,3"), "SLURM_PROCID", task);
        let path = format!("{}/step_0/user/task_{task}", job(7));
        scene.attach(&path, "Slurm_Cgroup_v2", programs::slurm(&rules(4, &[minor])), 0);
        scene.task(7, "0", task, python(pid, env, &[minor]));
    }
    scene
}

fn stale() -> Scene {
    let mut scene = skewed("16-stale-cgroup");
    scene.job(7, Some(&rules(4, &[0])));
    scene
}

fn htcondor() -> Scene {
    let note = "Shaped from documented facts (HTCondor's starter.cpp and proc_family_direct_cgroup_v2.cpp), \
                not captured; fixtures/scenarios/README.md has the sources.";
    let mut scene = Scene::new("17-htcondor", "skewed", note);
    let slot = "condor_var_lib_condor_execute_slot1_1";
    let path = format!("/system.slice/condor.service/htcondor/{slot}.slice/{slot}.scope");
    scene.attach(&path, "", programs::htcondor(&[(195, 0), (195, 3)]), 0);
    let list: &'static str =
        "GPU-22222222-2222-3333-4444-555555555555,GPU-33333333-2222-3333-4444-555555555555";
    assert_eq!(list, format!("{A_AF},{A_3B}"));
    let env = vec![("CUDA_VISIBLE_DEVICES", list), ("NVIDIA_VISIBLE_DEVICES", list)];
    scene.process(&path, Proc { uid: USER, ..python(702, env, &[1, 2]) });
    scene
}

fn mps() -> Scene {
    let mut scene = skewed("18-mps");
    scene.gres_conf("Name=gpu File=/dev/nvidia[0-3]\nName=mps Count=200 File=/dev/nvidia0\n");
    let env = with(batch("7", "", ""), "CUDA_VISIBLE_DEVICES", "0");
    let env = with(env, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50");
    let client = Proc { open: vec![CTL, UVM], ..python(702, env, &[]) };
    scene.batch_job(7, Some(&rules(4, &[0])), client);
    let server = Proc {
        pid: 802,
        uid: USER,
        comm: "nvidia-cuda-mps",
        env: vec![("CUDA_VISIBLE_DEVICES", A_86)],
        open: opened(&[0]),
        ..Proc::default()
    };
    scene.process("/system.slice/nvidia-mps.service", server);
    scene
}

fn stale_major() -> Scene {
    let note = "Shaped from documented facts (runc's device program, /proc/devices of another boot), not \
                captured; the program's bytes are those of fixtures/programs/runc/1.1.5-docker-gpu.";
    let mut scene = Scene::new("19-stale-major", "skewed", note);
    let bytes = std::fs::read("fixtures/programs/runc/1.1.5-docker-gpu.xlated").unwrap();
    let path = format!("/system.slice/docker-{}.scope", "3f".repeat(32));
    scene.attach(&path, "", bytes, 2);
    let env = vec![("NVIDIA_VISIBLE_DEVICES", A_AF)];
    scene.process(&path, Proc { pid: 702, comm: "python", env, ..Proc::default() });
    scene
}

fn heterogeneous() -> Scene {
    let mut scene = skewed("20-heterogeneous");
    for (id, minor, pid, leader) in [(101, 0, 702, true), (201, 1, 802, false)] {
        scene.job(id, Some(&rules(4, &[minor])));
        let step = if leader { "0+1" } else { "0" };
        scene.step(id, step, pid - 1, Some(&rules(4, &[minor])));
        let env = with(with(batch("100", "0", "0"), "SLURM_STEP_ID", "0"), "SLURM_STEP_GPUS", "0");
        let env = if leader { with(env, "SLURM_HET_SIZE", "2") } else { env };
        scene.task(id, step, "0", python(pid, env, &[minor]));
    }
    scene
}
