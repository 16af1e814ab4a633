//! What processes do with the GPUs that they have: calls of the drivers'
//! libraries, counted in the kernel and joined with their owners.
//!
//! A launch is work that was handed to a GPU. How long the GPU worked on it is not
//! known here.
mod work;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{CountTable, GpuEvidence, GpuKey, Owner, ProbeEngine, Time};
use crate::observation::{GpuApi, Uncovered};

pub use work::{
    CallError, DurationClass, GpuWork, Intercepted, Interception, KernelWays, MemoryUse, OwnerWork, Rates,
    Unattributed, Work,
};

/// Everything that one reading of the counts tells.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// When counting began, RFC 3339.
    pub since: Time,
    /// When the counts were read, RFC 3339.
    pub at: Time,
    /// How many seconds before the answer that was; left out where the counts were
    /// read for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The seconds that `interval` and `per_second` are about: those since the
    /// reading before. Left out where there is no such reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<f64>,
    /// Whether the calls of all processes of the node are counted, and not only
    /// those of the ones that were asked for.
    pub whole_node: bool,
    /// One launch out of so many was timed and asked for its result: `durations`
    /// and errors of launches are counted in these alone.
    pub launches_timed_one_in: u32,
    /// How the kernel sees the calls.
    pub engine: ProbeEngine,
    /// The processes that made calls, the busiest first; those that ended since the
    /// reading before are there for the last time.
    pub processes: Vec<ActiveProcess>,
    /// The same by owner: whole jobs, pods, containers and units, the busiest first.
    pub owners: Vec<OwnerActivity>,
    /// Processes that hold GPUs and use a library whose calls are counted, and made no call
    /// since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<QuietHolder>,
    /// What each owner did from its first call on, with processes that have ended and
    /// owners that are gone; the busiest first. Of a state file that keeps it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub totals: Vec<OwnerWork>,
    /// What may be missing in `totals` of a summary. Left out where nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed: Option<Unattributed>,
    /// All of it together, since counting began. Calls of processes that ended
    /// before the last interval are not in it.
    pub total: Work,
    /// All of it together, in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Work>,
    /// All of it together, per second of the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<Rates>,
    /// Calls that could not be counted, because a table of the kernel was full or a user
    /// had his share of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostCalls>,
    /// What a probe adds to the times in `interception` of processes, measured on this
    /// node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_seconds: Option<f64>,
    /// Files whose calls are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub libraries: Vec<CountedLibrary>,
    /// Functions and files whose calls are not counted, or not measured, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<Uncovered>,
}

/// A process that holds GPUs, and made no call that was counted. What it allocated before
/// counting began is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuietHolder {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Name of its user, as the node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Command name.
    pub comm: String,
    /// Its cgroup.
    pub cgroup: String,
    /// Whose cgroup that is.
    pub owner: Option<Owner>,
    /// Since when its calls would be counted, RFC 3339.
    pub since: Time,
    /// Keys of the GPUs that it has open.
    pub gpus: Vec<GpuKey>,
    /// Whether it may have made calls that found no room: then nothing is known of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
}

/// Calls of one user for which there was no room in one of the kernel's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostCalls {
    /// Which table.
    pub map: CountTable,
    /// How many times there was none.
    pub count: u64,
    /// The user whose calls these were: the real uid of the processes, or, in a user
    /// namespace, who made the outermost one. Left out where they are nobody's in
    /// particular, or of users who are not counted by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Name of that user, as the node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A driver's library whose calls are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedLibrary {
    /// Its path, as it was found.
    pub path: String,
    /// Whose interface it has.
    pub api: GpuApi,
    /// Since when its calls are counted, RFC 3339.
    pub since: Time,
    /// How many of its functions are counted.
    pub functions: u32,
}

/// What one process did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActiveProcess {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// Effective uid.
    pub uid: u32,
    /// Name of that user, as the node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Hex of the name if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_hex: Option<String>,
    /// Command name.
    pub comm: String,
    /// Hex of the command name if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_hex: Option<String>,
    /// Its cgroup; null if it ended before anybody looked.
    pub cgroup: Option<String>,
    /// Hex of the cgroup's path if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_hex: Option<String>,
    /// Whose cgroup that is.
    pub owner: Option<Owner>,
    /// Since when its calls are counted, RFC 3339.
    pub since: Time,
    /// Whether it may have made calls before that: then contexts and memory of
    /// before are not known. Or whether something of it found no room: see `lost`.
    pub partial: bool,
    /// The tables of the kernel that had no room for something of it: its numbers are the
    /// least that it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<CountTable>,
    /// Its calls that have not returned, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallNow>,
    /// When it ended or executed another program, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Whether it executed another program; what that one does is another entry.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executed: bool,
    /// Errors that its calls returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CallError>,
    /// What it did on each GPU, the busiest first.
    pub gpus: Vec<GpuUse>,
    /// What a library between it and the driver takes (HAMi's libvgpu.so, SoftMig's
    /// libsoftmig.so).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interception: Option<Interception>,
    /// Whether it ended before gpumap looked for such a library: `interception` may be missing
    /// then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interception_unseen: bool,
}

/// A call that a thread is in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallNow {
    /// The thread.
    pub tid: u32,
    /// The function.
    pub function: String,
    /// When the call began, RFC 3339.
    pub since: Time,
    /// How many seconds before the reading that was.
    pub seconds: f64,
    /// Whether the thread waits for the GPU in it.
    pub waits: bool,
}

/// What a process did on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUse {
    /// Whose calls these are.
    pub api: GpuApi,
    /// The device as the process counts; null where its context is not known.
    pub ordinal: Option<u32>,
    /// Key of the GPU in the inventory; null where it is not known.
    pub gpu: Option<GpuKey>,
    /// The MIG instance, `KEY/GI/CI`, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<GpuKey>,
    /// The UUID that the driver told the process, without `GPU-` or `MIG-`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// What tells that it is this GPU.
    pub by: GpuEvidence,
    /// Why it is not known which GPU it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the job was allocated this GPU; null where that is not known.
    pub allocated: Option<bool>,
    /// Whether the rules let the process open it; null where that is not known.
    pub allowed: Option<bool>,
    /// Whether it asks for this GPU; null where that is not known.
    pub asked: Option<bool>,
    /// Whether it has it open; null where that is not known.
    pub held: Option<bool>,
    /// What it did since counting began.
    pub counts: Work,
    /// What it did in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Work>,
    /// The same per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<Rates>,
    /// The memory that it has allocated.
    pub memory: MemoryUse,
    /// Its first call, RFC 3339; null if it only allocated memory.
    pub first_used: Option<Time>,
    /// Its last call.
    pub last_used: Option<Time>,
    /// How many seconds before the reading that was; 0 while a thread is in a call about
    /// the GPU.
    pub idle_seconds: Option<f64>,
    /// How many seconds the longest call lasts that a thread waits in for this GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_seconds: Option<f64>,
    /// How long calls took until they returned, in the interval, or since counting
    /// began where there is none. Classes without a call are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<DurationClass>,
    /// The streams one by one; only with -v.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<Vec<StreamUse>>,
}

/// What was done in one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamUse {
    /// Handle of its context, hexadecimal; `0x0` where that is not known. Above 48 bits
    /// stands how many contexts of other devices had the same address before.
    pub context: String,
    /// Its handle, hexadecimal. `0x0` is the context's default stream, `0x2` the
    /// default streams of its threads, together, `0x3` those beyond the number that is
    /// counted apart.
    pub stream: String,
    /// What was done since counting began.
    pub counts: Work,
    /// What was done in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Work>,
    /// The same per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<Rates>,
    /// How many seconds before the reading its last call was.
    pub idle_seconds: Option<f64>,
}

/// What all processes of an owner did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerActivity {
    /// Whose processes; null for those of which that is not known.
    pub owner: Option<Owner>,
    /// How many.
    pub processes: usize,
    /// The GPUs that they did something on, as far as they are known.
    pub gpus: Vec<GpuKey>,
    /// How many of their uses are of a GPU that is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_gpus: usize,
    /// What they did since counting began.
    pub counts: Work,
    /// What they did in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Work>,
    /// The same per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<Rates>,
    /// The memory that they have allocated; `peak_bytes` is the sum of the peaks.
    pub memory: MemoryUse,
    /// How many seconds before the reading their last call was; 0 while a thread is in one.
    pub idle_seconds: Option<f64>,
    /// How many seconds the longest call lasts that a thread waits in for a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_seconds: Option<f64>,
    /// The tables of the kernel that had no room for something of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<CountTable>,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
