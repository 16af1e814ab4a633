//! One Slurm job, and what Slurm itself says about it. It ends with the cluster
//! at the latest.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{Cluster, PATIENCE, text};

/// What every job's script begins with.
const PROLOGUE: &str = r#"#!/bin/bash
set -eu
export OUT=$WORK/out/$SLURM_JOB_ID
actor=$WORK/actor
say_env() { env >"$OUT.$1.new"; mv "$OUT.$1.new" "$OUT.$1"; }
export -f say_env
"#;
/// A script that says its environment in `env`, its pid in `pid`, and waits.
pub const WAIT: &str = "say_env env; exec $actor ready $OUT.pid";
/// Steps that run at the same time inside a job of four GPUs: two with one GPU
/// each, one with two tasks that have one GPU each.
pub const STEPS: &str = r#"
export actor
srun --exact -n1 -c1 --gres=gpu:1 bash -c 'say_env step0; exec $actor ready $OUT.pid0' &
while [ ! -e $OUT.pid0 ]; do sleep 0.05; done
srun --exact -n1 -c1 --gres=gpu:1 bash -c 'say_env step1; exec $actor ready $OUT.pid1' &
while [ ! -e $OUT.pid1 ]; do sleep 0.05; done
srun --exact -n2 -c1 --gpus-per-task=1 bash -c 'say_env task$SLURM_LOCALID; exec $actor ready $OUT.pid2$SLURM_LOCALID' &
say_env env
wait
"#;
/// Where the processes of [`STEPS`] say their pids.
pub const STEP_FILES: [&str; 4] = ["pid0", "pid1", "pid20", "pid21"];

/// A job.
#[derive(Debug)]
pub struct Job<'a> {
    cluster: &'a Cluster,
    pub id: u64,
    /// The name of its cgroup.
    name: OnceCell<String>,
}

impl Cluster {
    /// Submits a batch script. In it, `$OUT.NAME` is a file that [`Job::wait`]
    /// waits for, `say_env NAME` writes the environment to one, and `$actor`
    /// runs `c/actor.c`.
    pub fn submit(&self, options: &[&str], script: &str) -> Job<'_> {
        let mut command = self.command("sbatch");
        let log = self.work().join("out/%j.log");
        command.args(["--parsable", "--chdir=/", "--output"]).arg(log).args(options);
        command.env("WORK", self.work()).stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("sbatch");
        let mut pipe = child.stdin.take().expect("a pipe");
        pipe.write_all(format!("{PROLOGUE}{script}\n").as_bytes()).expect("a reader");
        drop(pipe);
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success(), "sbatch {options:?}: {}", text(&output));
        let id = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
        Job { cluster: self, id, name: OnceCell::new() }
    }
}

impl<'a> Job<'a> {
    /// The same job, which began anew: its cgroup may have another SLUID now.
    pub fn again(&self) -> Job<'a> {
        Job { cluster: self.cluster, id: self.id, name: OnceCell::new() }
    }

    /// The text of `$OUT.NAME`, as soon as it is there.
    pub fn wait(&self, name: &str) -> String {
        let path = self.file(name);
        let began = Instant::now();
        while !path.exists() {
            assert!(began.elapsed() < PATIENCE, "no {name} of job {}: {}", self.id, self.state());
            std::thread::sleep(Duration::from_millis(10));
        }
        fs::read_to_string(path).expect("a file")
    }

    /// The pid inside that `actor … ready $OUT.NAME` wrote.
    pub fn pid(&self, name: &str) -> u32 {
        self.wait(name).trim().parse().expect("a pid")
    }

    /// Waits for several processes.
    pub fn wait_all(&self, names: &[&str]) {
        names.iter().for_each(|name| drop(self.wait(name)));
    }

    /// A variable of the environment that `say_env NAME` wrote.
    pub fn variable(&self, name: &str, variable: &str) -> Option<String> {
        let all = self.wait(name);
        let mut lines = all.lines().filter_map(|line| line.split_once('='));
        lines.find(|(name, _)| *name == variable).map(|(_, value)| value.to_owned())
    }

    /// Slurm's own word in the job's environment: `SLURM_JOB_GPUS` or the step's.
    pub fn granted_by(&self, file: &str, variable: &str) -> BTreeSet<u32> {
        self.variable(file, variable).map(|list| ranges(&list)).unwrap_or_default().into_iter().collect()
    }

    /// Ends it and waits until its cgroup is gone.
    pub fn cancel(&self) {
        self.cluster.run("scancel", &["--full", "--signal=KILL", &self.id.to_string()]);
        let began = Instant::now();
        while self.cgroup("").exists() {
            assert!(began.elapsed() < PATIENCE, "job {} stays: {}", self.id, self.state());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until it has ended, hooks included.
    pub fn wait_for_end(&self) {
        let began = Instant::now();
        let id = self.id.to_string();
        while !self.cluster.run("squeue", &["-h", "-j", &id]).is_empty() {
            assert!(began.elapsed() < PATIENCE, "job {id} does not end: {}", self.state());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What it printed.
    pub fn output(&self) -> String {
        let path = self.cluster.work().join(format!("out/{}.log", self.id));
        fs::read_to_string(path).unwrap_or_default()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.cluster.work().join(format!("out/{}.{name}", self.id))
    }

    /// The job's cgroup, relative to the cluster's root.
    pub fn path(&self) -> String {
        format!("{}/{}", Cluster::scope(), self.name.get_or_init(|| self.name()))
    }

    /// Its SLUID, where Slurm has those (since 26.05), else `job_N`.
    fn name(&self) -> String {
        let shown = self.cluster.run("scontrol", &["-d", "show", "job", &self.id.to_string()]);
        let sluid = shown.split_whitespace().find_map(|word| word.strip_prefix("SLUID="));
        sluid.map_or_else(|| format!("job_{}", self.id), str::to_owned)
    }

    /// One of its cgroups as a directory outside; `below` such as `/step_0`.
    pub fn cgroup(&self, below: &str) -> PathBuf {
        self.cluster.cgroup_root().join(format!("{}{below}", self.path().trim_start_matches('/')))
    }

    /// Places in `gres.conf` of the devices that Slurm says the job has:
    /// `GRES=gpu:2(IDX:0-1)` of `scontrol show job -d`.
    pub fn granted(&self) -> BTreeSet<u32> {
        let shown = self.cluster.run("scontrol", &["-d", "show", "job", &self.id.to_string()]);
        let parts = shown.split("(IDX:").skip(1).filter_map(|rest| rest.split(')').next());
        parts.flat_map(ranges).collect()
    }

    /// What is known about the job, for messages.
    fn state(&self) -> String {
        let shown = self.cluster.run("scontrol", &["-d", "show", "job", &self.id.to_string()]);
        let log = fs::read_to_string(self.file("log")).unwrap_or_default();
        format!("{shown}\n{log}\n{}", self.cluster.log())
    }
}

/// The numbers of `0-1,3`.
fn ranges(text: &str) -> Vec<u32> {
    let numbers = text.split(',').flat_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("no number: {text}"));
        number(first)..=number(last)
    });
    numbers.collect()
}
