//! Checks that a cluster leaves nothing behind.

use std::fs;
use std::path::PathBuf;

use super::Cluster;

/// Everything that has to be gone after the cluster.
#[derive(Debug)]
pub struct Traces {
    work: PathBuf,
    cgroup: PathBuf,
    /// Pid and start time, which name a process for ever.
    processes: Vec<(u32, String)>,
}

impl Cluster {
    /// What is there of it now.
    pub fn traces(&self) -> Traces {
        let mut processes = self.processes();
        processes.push(self.keeper.id());
        let started = processes.into_iter().filter_map(|pid| Some((pid, start_time(pid)?)));
        Traces {
            work: self.work.clone(),
            cgroup: self.scratch.path().to_owned(),
            processes: started.collect(),
        }
    }
}

impl Traces {
    /// What is left, in words.
    pub fn left(&self) -> Vec<String> {
        let paths = [&self.work, &self.cgroup].into_iter().filter(|path| path.exists());
        let mut left: Vec<String> = paths.map(|path| path.display().to_string()).collect();
        let name = self.work.to_str().expect("a plain path");
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        left.extend(mounts.lines().filter(|line| line.contains(name)).map(str::to_owned));
        let alive = self.processes.iter().filter(|(pid, start)| start_time(*pid).as_ref() == Some(start));
        left.extend(alive.map(|(pid, _)| format!("process {pid}")));
        left
    }
}

/// Field 22 of `/proc/PID/stat`.
fn start_time(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19).map(str::to_owned)
}
