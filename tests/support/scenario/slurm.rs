//! Slurm's part of a scene: cgroups as its cgroup/v2 plugin makes them, and
//! what it puts into environments.

use super::programs::{self, Rule};
use super::{CTL, Proc, Scene};

/// The scope below which all jobs are.
pub const SCOPE: &str = "/system.slice/slurmstepd.scope";
/// The user of the jobs.
pub const USER: u32 = 1001;
/// `gres.conf` with every GPU of a node with four, in the order of file names.
pub const BY_FILE: &str = "Name=gpu File=/dev/nvidia[0-3]\n";
/// `BPF_F_ALLOW_OVERRIDE`.
const OVERRIDE: u32 = 1;
/// `nvidia-uvm` in the tree `skewed`.
pub const UVM: (u32, u32) = (235, 0);

/// A job's directory.
pub fn job(id: u64) -> String {
    format!("{SCOPE}/job_{id}")
}

/// The rules for GPUs `0..count` of which those listed are granted.
pub fn rules(count: u32, granted: &[u32]) -> Vec<Rule> {
    (0..count).map(|minor| (195, minor, granted.contains(&minor))).collect()
}

/// What a CUDA program with these GPUs has open.
pub fn opened(minors: &[u32]) -> Vec<(u32, u32)> {
    let mut open = vec![CTL, UVM];
    open.extend(minors.iter().map(|minor| (195, *minor)));
    open
}

/// The variables of a batch script on a single node with these GPUs; without
/// `AutoDetect` or `Flags` Slurm sets the variables of every vendor.
pub fn batch<'a>(job: &'a str, gpus: &'a str, visible: &'a str) -> Vec<(&'a str, &'a str)> {
    let mut env = vec![
        ("SLURM_JOB_ID", job),
        ("SLURM_JOB_UID", "1001"),
        ("SLURMD_NODENAME", "gpu01"),
        ("SLURM_JOB_NUM_NODES", "1"),
    ];
    if !gpus.is_empty() {
        env.extend([
            ("SLURM_JOB_GPUS", gpus),
            ("CUDA_VISIBLE_DEVICES", visible),
            ("ROCR_VISIBLE_DEVICES", visible),
            ("ZE_AFFINITY_MASK", visible),
            ("GPU_DEVICE_ORDINAL", visible),
        ]);
    }
    env
}

/// An environment in which the user has set one of the variables.
pub fn with<'a>(
    mut env: Vec<(&'a str, &'a str)>,
    name: &'static str,
    value: &'a str,
) -> Vec<(&'a str, &'a str)> {
    match env.iter_mut().find(|(known, _)| *known == name) {
        Some(variable) => variable.1 = value,
        None => env.push((name, value)),
    }
    env
}

impl Scene {
    /// A job with a device program, or without one (`ConstrainDevices=no`).
    pub fn job(&mut self, id: u64, rules: Option<&[Rule]>) {
        match rules {
            Some(rules) => self.attach(&job(id), "Slurm_Cgroup_v2", programs::slurm(rules), OVERRIDE),
            None => self.dir(&job(id)),
        }
    }

    /// A step with its slurmstepd. A numbered step has a program of its own if
    /// the job has.
    pub fn step(&mut self, id: u64, step: &str, stepd: u32, rules: Option<&[Rule]>) {
        let dir = format!("{}/step_{step}", job(id));
        let title = format!("slurmstepd: [{id}.{step}]");
        let daemon = Proc { pid: stepd, comm: "slurmstepd", title: &title, ..Proc::default() };
        self.process(&format!("{dir}/slurm"), daemon);
        let user = format!("{dir}/user");
        match rules {
            Some(rules) => self.attach(&user, "Slurm_Cgroup_v2", programs::slurm(rules), OVERRIDE),
            None => self.dir(&user),
        }
    }

    /// A process of a task.
    pub fn task(&mut self, id: u64, step: &str, task: &str, proc: Proc<'_>) {
        let uid = if proc.uid == 0 { USER } else { proc.uid };
        self.process(&format!("{}/step_{step}/user/task_{task}", job(id)), Proc { uid, ..proc });
    }

    /// A job of which only the batch script's only process is left to see.
    pub fn batch_job(&mut self, id: u64, rules: Option<&[Rule]>, proc: Proc<'_>) {
        self.job(id, rules);
        self.step(id, "batch", proc.pid - 1, None);
        self.task(id, "batch", "0", proc);
    }
}
