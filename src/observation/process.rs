//! One process: who it is, what it asks for and what it holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Answer, Environment, Text, VgpuTraces};
use crate::model::DeviceType;

/// One process, pinned by its start time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Pid in gpumap's own pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot (`/proc/PID/stat` field 22): pid
    /// and start time together name one process for ever.
    pub start_time: u64,
    /// Effective uid.
    pub uid: u32,
    /// State of its main thread, one letter (`/proc/PID/stat` field 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<char>,
    /// Number of its threads (field 20). A main thread that has ended counts while
    /// other threads run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Command name, at most 15 bytes, chosen by the process itself.
    pub comm: Text,
    /// Its cgroup2 path, relative to the cgroup root.
    pub cgroup: Text,
    /// Its cgroup in the v1 devices hierarchy, where that is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_v1: Option<Text>,
    /// Whether it is a thread of the kernel (`PF_KTHREAD`): it has no program, no
    /// environment and no descriptors of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_thread: bool,
    /// What it asks for and holds, if that was observed. Kernel threads have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

/// What one process asks for and holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Detail {
    /// The title that root's slurmstepd gives itself in `/proc/PID/cmdline`, at most
    /// 256 bytes, without trailing NULs: it contains the job's number. Empty for all
    /// other processes, whose arguments are private.
    #[serde(default, skip_serializing_if = "Text::is_empty")]
    pub title: Text,
    /// The executable, as `/proc/PID/exe` names it.
    pub exe: Answer<Text>,
    /// Bound Unix sockets named like those of slurmstepd
    /// (`NODE_JOB.STEP[.HET]`), by file name; looked at only where the title of
    /// a process in the `slurm` directory of a job does not tell its job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stepd_sockets: Vec<Text>,
    /// The environment at the last execve (`/proc/PID/environ`).
    pub at_exec: Answer<Environment>,
    /// The environment now, from the `environ` array in the process's memory.
    pub live: Answer<Environment>,
    /// Distinct character and block devices that it has open or mapped, in any of
    /// its threads. Descriptors that only name a file (`O_PATH`) do not count.
    pub devices: Answer<Vec<HeldDevice>>,
    /// Why it may hold more devices than are listed: a descriptor that cannot be
    /// resolved, or a limit that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_cut: Option<String>,
    /// What shows of HAMi-core or SoftMig, where anything does: a library or a
    /// region is mapped, or the environment at exec names limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vgpu: Option<Box<VgpuTraces>>,
}

/// The device number of a process's descriptors or mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct HeldDevice {
    /// `char` or `block`.
    #[serde(rename = "type")]
    pub kind: DeviceType,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Open descriptors.
    pub fds: u32,
    /// Whether memory of it is mapped.
    #[serde(default)]
    pub mapped: bool,
}

/// A user and the name that the node has for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// Uid.
    pub uid: u32,
    /// Name, from `/etc/passwd` or the name service.
    pub name: Text,
}

/// Processes that exist, or may exist, and cannot be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnseenProcesses {
    /// How many; null where that is not known either.
    pub count: Option<u32>,
    /// Why, a clause such as `they are outside of gpumap's pid namespace`.
    pub why: String,
}

impl UnseenProcesses {
    /// These and others together: the reasons of both, and the number if both are known.
    pub fn and(self, other: &Self) -> Self {
        let count = self.count.zip(other.count).map(|(one, more)| one.saturating_add(more));
        let why = match self.why.split("; ").any(|why| why == other.why) {
            true => self.why,
            false => format!("{}; {}", self.why, other.why),
        };
        Self { count, why }
    }

    /// Both together, of which there may be none.
    pub fn join(one: Option<Self>, other: Option<&Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or_else(|| other.cloned()),
        }
    }

    /// These in words: `2 processes`, or `processes` where nobody knows how many.
    pub fn counted(&self) -> String {
        match self.count {
            None => "processes".to_owned(),
            Some(1) => "1 process".to_owned(),
            Some(count) => format!("{count} processes"),
        }
    }
}
