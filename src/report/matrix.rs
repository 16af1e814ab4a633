//! The matrix of owners and GPUs: the answer of `gpumap top`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{CellState, GpuKey, InForce, Membership, Owner, ProcessState, Severity, Time};
use crate::observation::UnseenProcesses;

/// Owners and processes, and what each has to do with each GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// The columns: keys of the GPUs in inventory order, each followed by its MIG
    /// compute instances, `KEY/GI/CI`.
    pub columns: Vec<GpuKey>,
    /// The rows: each owner is followed by those inside it, and these by their
    /// processes.
    pub rows: Vec<MatrixRow>,
    /// How many owners are left out: services and sessions that hold no GPU.
    pub left_out: usize,
    /// How many owners are left out of which nobody knows what they hold.
    pub left_out_unseen: usize,
    /// When calls were counted last, RFC 3339; left out where nobody counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_at: Option<Time>,
}

/// An owner or a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// Its depth: 0 for a job, 1 for its steps, 2 for their tasks; a process is one
    /// deeper than its owner.
    pub depth: usize,
    /// The owner; left out for a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The job array and the task of it that a job is, as in `owners`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_task: Option<String>,
    /// The heterogeneous job and the component of it that a job is, as in `owners`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// The process; left out for an owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<MatrixProcess>,
    /// Its cgroup, the topmost one of an owner.
    pub cgroup: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_hex: Option<String>,
    /// The users of its processes, by name, else by uid.
    pub users: Vec<String>,
    /// How many processes it has; 1 for a process.
    pub processes: usize,
    /// Those that cannot be seen; left out where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenProcesses>,
    /// One for each column.
    pub cells: Vec<MatrixCell>,
    /// The severity of the worst finding about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Severity>,
    /// What it does with its GPUs, where its calls are counted. Of owners only whole
    /// jobs, pods, containers and units have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<MatrixActivity>,
    /// Its limits under HAMi-core's libvgpu.so or SoftMig; of an owner, those of its
    /// processes, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<MatrixLimit>,
}

/// What names a row at every moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RowKey {
    /// An owner.
    Owner(Box<Owner>),
    /// A process: its pid and start time.
    Process(u32, u64),
}

impl MatrixRow {
    /// Its name at every moment.
    pub fn key(&self) -> RowKey {
        match &self.process {
            Some(process) => RowKey::Process(process.pid, process.start_time),
            None => RowKey::Owner(Box::new(self.owner.clone().unwrap_or_default())),
        }
    }

    /// Its limits for a column: those for the GPU itself or for the one that the instance
    /// is on, and those of which nobody knows for which GPU they are.
    pub fn limits_on(&self, column: &GpuKey) -> Vec<MatrixLimit> {
        let is_on = |gpu: &GpuKey| column.is_of(gpu);
        self.limits.iter().filter(|limit| limit.gpu.as_ref().is_none_or(is_on)).cloned().collect()
    }
}

/// What a row has to do with a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixCell {
    /// All of it in one word.
    pub state: CellState,
    /// Whether the scheduler allocated it.
    pub allocated: Membership,
    /// Whether it may be opened.
    pub allowed: Membership,
    /// Whether it is asked for.
    pub asked: Membership,
    /// Whether it is open.
    pub held: Membership,
    /// The severity of the worst finding about both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<Severity>,
}

impl MatrixCell {
    /// Whether something is wrong here: its sets contradict each other, or a finding that is
    /// no note is about it.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.state.is_contradiction() || self.finding > Some(Severity::Note)
    }

    /// Whether one of the sets is not known that can be known: an allocation is known
    /// in Slurm's hooks alone.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        [self.allowed, self.asked, self.held].contains(&Membership::Unknown)
    }
}

/// A process of the matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixProcess {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Effective uid.
    pub uid: u32,
    /// Command name.
    pub comm: String,
    /// Hex of the command name if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_hex: Option<String>,
    /// Its state, with the words of `processes` of a cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProcessState>,
    /// How many seconds ago it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

/// What a row does with its GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixActivity {
    /// Kernels and graphs that were launched since counting began.
    pub launches: u64,
    /// Bytes that were copied since then, in whatever direction.
    pub copied_bytes: u64,
    /// Memory of GPUs that it has allocated now.
    pub memory_bytes: u64,
    /// How many seconds before the reading its last call was.
    pub idle_seconds: Option<f64>,
    /// How many seconds the longest call lasts that a thread waits in for a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_seconds: Option<f64>,
    /// Launches per second since the reading before; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches_per_second: Option<f64>,
    /// Bytes per second, as `launches_per_second`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_bytes_per_second: Option<f64>,
    /// Whether calls of it found no room: then all numbers are the least that it did, and how
    /// long ago its last call was is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// A limit of a process for one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct MatrixLimit {
    /// Key of the GPU; null where that is not known.
    pub gpu: Option<GpuKey>,
    /// The memory that it may have, in bytes; null for no limit.
    pub memory_bytes: Option<u64>,
    /// The share of the GPU's multiprocessors, in percent; null for no limit.
    pub sm_percent: Option<u64>,
    /// Whether the memory limit is in force.
    pub memory_in_force: InForce,
    /// Whether the share is in force.
    pub sm_in_force: InForce,
}
