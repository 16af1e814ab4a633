//! Processes: what they ask for and what they hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GpuSet, Vgpu};
use crate::model::{
    ApiName, Certainty, CutCode, GpuKey, JobEvidence, Owner, ProcessState, SharedRole, Time, ValueState,
};

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot; with the pid it names the process
    /// for ever.
    pub start_time: u64,
    /// The same as a time of day, RFC 3339 to the second; null if the observation
    /// does not say when the node was booted.
    #[serde(default)]
    pub started_at: Option<Time>,
    /// How many seconds before the observation that was; left out if `started_at` is
    /// not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// Effective uid.
    pub uid: u32,
    /// Name of that user, as the node has it; left out where it has none or was
    /// not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Hex of the name if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_hex: Option<String>,
    /// `running`, `sleeping`, `uninterruptible` (waits in the kernel and cannot be
    /// killed until that ends), `stopped`, `traced` (a debugger holds it), `zombie`
    /// (has ended and waits for its parent), `main-thread-ended` (its other threads
    /// run), `dead`, `idle` (a waiting kernel thread) or `other`; left out if that
    /// was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProcessState>,
    /// Whether it is a thread of the kernel. Such a thread has no program, no
    /// environment and no descriptors, asks for no GPU and holds none. Left out for
    /// all other processes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_thread: bool,
    /// Command name.
    pub comm: String,
    /// Hex of the command name if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_hex: Option<String>,
    /// Its cgroup.
    pub cgroup: String,
    /// Which GPUs it asks for; left out where that was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible: Option<Visible>,
    /// GPUs that it has open or mapped, by key; null where that could not be
    /// seen.
    #[serde(default)]
    pub held: Option<Vec<GpuKey>>,
    /// MIG instances whose capabilities it has open, `KEY/GI/CI`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_instances: Vec<GpuKey>,
    /// Which of `held` and `held_instances` its rules deny now. The kernel checks
    /// rules only when a device is opened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_denied: Vec<GpuKey>,
    /// Nodes that all GPUs share and that it has open (`nvidiactl`,
    /// `nvidia-uvm`, `kfd`): the last two are a hint that it computes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_shared: Vec<SharedRole>,
    /// Why `held` is null, or why the process may hold more than it lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_unknown: Option<String>,
    /// The GPUs that it handed work to since its calls are counted; left out where
    /// they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<GpuSet>,
    /// How many seconds ago its last call was; left out where no call was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u64>,
    /// The job that its environment names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Its limits under HAMi-core's libvgpu.so or SoftMig, where it has or was
    /// meant to have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vgpu: Option<Box<Vgpu>>,
}

impl Process {
    /// Whether it has ended with all its threads: it asks for nothing and holds
    /// nothing.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.as_ref().is_some_and(ProcessState::has_ended)
    }
}

/// The devices that a process asks its driver's libraries for, at several moments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Visible {
    /// In the environment of its last execve.
    pub at_exec: Asked,
    /// In the environment it has in memory now.
    pub live: Asked,
    /// In the last change seen while `gpumap watch` ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_set: Option<Asked>,
    /// When that was, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_set_at: Option<Time>,
    /// Whether the environment in memory asks for something else than that of
    /// execve; null where one of them is not known.
    #[serde(default)]
    pub changed: Option<bool>,
}

/// The devices that one environment asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Asked {
    /// Value of the deciding variable.
    pub raw: Option<String>,
    /// Hex of the value if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_hex: Option<String>,
    /// Why the value could not be read, where `gpus` is known whatever it is (`why` says why).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_unknown: Option<String>,
    /// Whether the variable is set.
    pub state: ValueState,
    /// GPUs that result inside the allowed set, in the order in which the
    /// process counts them; null where that is unknown. On a node with GPUs of
    /// several vendors, those of each vendor's interface, one after the other.
    pub gpus: Option<Vec<GpuKey>>,
    /// MIG instances among them, `KEY/GI/CI`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<GpuKey>,
    /// Tiles of Intel's GPUs among them, `KEY/TILE`, where not all of a GPU is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<GpuKey>,
    /// How certain `gpus` is: `documented`, `modelled` (no document settles it,
    /// independent models of the driver agree) or `unknown`; the least certain of
    /// the interfaces.
    pub confidence: Certainty,
    /// Where and why the list ends early.
    pub cut: Option<Cut>,
    /// Why it is unknown, or what else there is to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The same for each interface that this node has GPUs for; the fields above are
    /// those of the first interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apis: Vec<Api>,
    /// Every variable that was looked at and is set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<RawVariable>,
}

/// The meaning of an environment for one programming interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Api {
    /// `cuda`, `hip`, `rocr`, `opencl`, `level-zero`.
    pub api: ApiName,
    /// The variable that decides: the first of those the interface reads that
    /// is set, else its main one.
    pub variable: String,
    /// Its value.
    pub raw: Option<String>,
    /// Hex of the value if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_hex: Option<String>,
    /// Whether the variable is set.
    pub state: ValueState,
    /// As in [`Asked::gpus`].
    pub gpus: Option<Vec<GpuKey>>,
    /// Whether the order of `gpus`, in which the process counts them, is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub order_unknown: bool,
    /// As in [`Asked::instances`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<GpuKey>,
    /// As in [`Asked::tiles`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiles: Vec<GpuKey>,
    /// As in [`Asked::confidence`].
    pub confidence: Certainty,
    /// As in [`Asked::cut`].
    pub cut: Option<Cut>,
    /// As in [`Asked::why`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Where a list of devices ends before its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cut {
    /// The entry that ends it, lossily, at most 80 characters of it.
    pub entry: String,
    /// Its position, from 0.
    pub position: usize,
    /// Stable code: `out-of-range`, `not-allowed` (names a GPU that the cgroup
    /// denies), `no-such-gpu`, `ambiguous`, `duplicate`, `mixed-kinds`,
    /// `invalid`, `empty-entry`, `one-instance` (more MIG instances than CUDA
    /// uses), `excluded`.
    pub code: CutCode,
    /// One clause for people.
    pub why: String,
}

/// A variable of the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RawVariable {
    /// Name.
    pub name: String,
    /// Value, lossily.
    pub value: String,
    /// Hex of the value if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_hex: Option<String>,
    /// Whether only interfaces read it that this node has no GPU for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
}

/// The job that a process's environment names. The user can fake it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// `SLURM_JOB_ID`, if it is a number.
    pub job_id: Option<u64>,
    /// `SLURM_STEP_ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// `SLURM_JOB_SLUID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sluid: Option<String>,
    /// Whether it names the job whose cgroup the process is in. Null if that job's
    /// number is not known, or if the process is in no job's cgroup, as `outside`
    /// says.
    pub agrees: Option<bool>,
    /// Whether it names a job and the process is in no job's cgroup.
    pub outside: bool,
    /// Whether the job of the cgroup, with which it is compared, is one of a Slurm
    /// inside a container: the node's job of the same number is another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inner: bool,
    /// Why a difference is normal (a heterogeneous job's leader), or what it
    /// is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A process that still holds a GPU of a job that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Leftover {
    /// The process.
    #[serde(flatten)]
    pub process: Process,
    /// The owner of the cgroup it is in.
    pub owner: Option<Owner>,
    /// Why it is this job's: `cgroup`, or `environment` if it left the job's
    /// cgroup and its environment names the job; `unknown` if it holds a GPU and
    /// its environment is not known.
    pub belongs_by: JobEvidence,
    /// GPUs of the job that it holds; all that it holds where the job's are
    /// not known.
    pub gpus: Vec<GpuKey>,
    /// Why `--kill` leaves it alone; absent where it is demonstrably the job's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spared: Option<String>,
    /// With `--kill`: whether the signal was sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<bool>,
}

impl Leftover {
    /// Whether it is the job's and was seen to hold a GPU; what it holds may be unknown.
    pub fn is_found(&self) -> bool {
        self.process.held.is_some() && self.belongs_by != JobEvidence::Unknown
    }
}
