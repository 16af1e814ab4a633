//! What processes did with GPUs: sums of the calls that they made to the
//! libraries of drivers.
//!
//! The sums are counted in the kernel, where the calls are seen. They count from
//! the moment at which a library was attached to, and never go down, except
//! where a field says that it tells the present. What happens between two
//! readings is the difference between them.
//!
//! A call is work that was handed to a GPU. How long the GPU took for it is not
//! seen here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;
use crate::model::{CountTable, GpuEvidence, GpuKey, ProbeEngine};

/// The number of classes in which durations of calls are counted.
pub const DURATION_CLASSES: usize = 16;
/// The number of classes in which the kernel counts times before the driver.
pub const TIME_CLASSES: usize = 166;
/// The upper end of the first class, in nanoseconds, as a power of two: a call
/// that took less than 128 ns. Each further class reaches twice as far; the last
/// one takes all that is longer (from 2^21 ns, 2 ms).
pub const FIRST_DURATION_BITS: u32 = 7;

/// Everything that one reading gives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// When the sums were read: `CLOCK_BOOTTIME`, in nanoseconds. All times here
    /// are of this clock.
    pub clock_ns: u64,
    /// When counting began, at the first library.
    pub since_ns: u64,
    /// One launch out of so many was timed, and looked at when it returned. 1:
    /// every launch was. Durations of launches, and errors that launches return,
    /// are counted in these alone; all other calls are counted whole. A launch
    /// that fails and was not looked at counts as a launch.
    pub sampled_every: u32,
    /// How calls are seen.
    pub engine: ProbeEngine,
    /// The processes that called something, those that ended since the last
    /// reading among them.
    pub processes: Vec<ProcessActivity>,
    /// Processes that use a library whose calls are counted, and made no call since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quiet: Vec<QuietProcess>,
    /// What could not be counted for lack of room. Empty: nothing was lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostRoom>,
    /// The libraries whose calls are counted.
    pub libraries: Vec<ActivityLibrary>,
    /// Functions and files whose calls are not counted, or not measured, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncovered: Vec<Uncovered>,
    /// What a probe adds to the times of [`ProcessActivity::intercepted`], measured on
    /// this node, in nanoseconds. `None`: not known, or there are no such times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_ns: Option<u64>,
}

/// The interface that a call belongs to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GpuApi {
    /// The driver's interface of CUDA (`libcuda.so.1`): the runtime's calls end
    /// there too.
    #[default]
    Cuda,
    /// The runtime of HIP (`libamdhip64.so`).
    Hip,
    /// Level Zero (`libze_loader.so.1`).
    LevelZero,
}

/// A process that uses a driver's library, and made no call that was counted. What it
/// allocated before counting began it may still have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuietProcess {
    /// Its pid, as the kernel counts (in the first pid namespace).
    pub pid: u32,
    /// Its start in clock ticks since boot.
    pub start_time: u64,
    /// Since when its calls would be counted.
    pub since_ns: u64,
}

/// A device of a process, and which GPU that is, as it was found while the process lived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedDevice {
    /// Whose ordinal it is.
    pub api: GpuApi,
    /// The ordinal, as the process counts; `None`: of calls without a known context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordinal: Option<u32>,
    /// Key of the GPU.
    pub gpu: GpuKey,
    /// The MIG instance, `KEY/GI/CI`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<GpuKey>,
    /// What told it.
    pub by: GpuEvidence,
}

/// Calls for which there was no room in one of the kernel's tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostRoom {
    /// Which table.
    pub map: CountTable,
    /// How many times there was none. Of `blocks`: allocations that are counted
    /// as such, and whose bytes are not.
    pub count: u64,
    /// The user whose calls these were: who answers for the process, which is who made the
    /// outermost user namespace that it is in. `None`: nobody in particular, or users beyond
    /// the number that is counted apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
}

/// A library whose calls are counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActivityLibrary {
    /// Where it was found: a path on the node, or one of the process that maps
    /// it. Only good for display: containers have paths of their own.
    pub path: Text,
    /// Whose interface it has.
    pub api: GpuApi,
    /// Since when its calls are counted.
    pub since_ns: u64,
    /// How many of its functions are counted.
    pub functions: u32,
}

/// A function, or a whole file, whose calls are not counted, or of which the time before the
/// driver is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uncovered {
    /// The file, as in [`ActivityLibrary::path`]; the process's where it is not
    /// known.
    pub file: Text,
    /// The function; `None`: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Whether the calls are counted all the same: what is not known is whether a library takes
    /// them before the driver, and for how long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
    /// Why, in a sentence that names the cost where it is about that.
    pub why: String,
    /// The process that uses the file, where only one is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// What one process did. One that executes another program is another one from
/// then on: the old one has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessActivity {
    /// Tells apart what has the same pid and start: a process before and after
    /// an execve. It stays the same from reading to reading.
    pub id: u64,
    /// Its pid, as the kernel counts (in the first pid namespace).
    pub pid: u32,
    /// Its start in clock ticks since boot, as in
    /// [`Process`](super::Process::start_time).
    pub start_time: u64,
    /// Its cgroup2 id when it made its first call.
    pub cgroup_id: u64,
    /// The path of that cgroup below the root, also where it is gone; `None` where it was
    /// gone before it could be looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<Text>,
    /// Its command name when it made its first call.
    pub comm: Text,
    /// Its effective uid when it made its first call.
    pub uid: u32,
    /// When its first call was seen.
    pub first_ns: u64,
    /// The user who answers for it, as in [`LostRoom::uid`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<u32>,
    /// Some of its calls may have been made before counting began: its contexts
    /// are not known until it names them, and what it allocated before is not
    /// counted. The sums are those since [`Self::since_ns`]. Or something of it found no
    /// room: see [`Self::lost`].
    pub partial: bool,
    /// The tables that had no room for something of it. Its numbers are the least that it
    /// did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<CountTable>,
    /// Since when its calls are counted: its start, or the moment at which its
    /// library was attached to.
    pub since_ns: u64,
    /// When it ended, or executed another program; where the kernel did not tell its end, when
    /// it was found gone. It is not there in the next reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_ns: Option<u64>,
    /// Whether it ended by executing another program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executed: bool,
    /// Its contexts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ContextSums>,
    /// Its streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamSums>,
    /// Results of its calls that are errors. Not ready (600) is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<ErrorCount>,
    /// The devices that it asked the driver for the UUID of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<NamedDevice>,
    /// Its devices of which the GPU was found while it lived. Kept by `gpumap activity
    /// --state`: what told it may be gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<ResolvedDevice>,
    /// Its calls that a library before the driver takes first (libvgpu.so,
    /// libsoftmig.so), since that was seen; the ones that took longest together come
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intercepted: Vec<InterceptedCalls>,
    /// Whether it ended before anybody looked for such a library.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interception_unseen: bool,
    /// Its calls that have not returned, the oldest first. Launches that are not timed are
    /// not among them. No sum has anything of these yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallUnderWay>,
}

/// A call that a thread is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallUnderWay {
    /// The thread, as the kernel counts (in the first pid namespace).
    pub tid: u32,
    /// The function.
    pub function: String,
    /// When the call began.
    pub since_ns: u64,
    /// Whether the thread waits for the GPU in it. Else it hands work to it, allocates or
    /// asks.
    pub waits: bool,
    /// Whose function it is.
    pub api: GpuApi,
    /// The context that it is about, as in [`ContextSums::context`]; 0: not known.
    pub context: u64,
}

/// Calls of one function that went through a library before the driver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterceptedCalls {
    /// The function.
    pub function: String,
    /// Calls of the library's function.
    pub calls: u64,
    /// Those that reached the driver's function of the same name. A library that
    /// refuses an allocation does not call it.
    pub reached: u64,
    /// From the one to the other, all of them together, with the cost of one probe
    /// each ([`Activity::probe_ns`]).
    pub ns: u64,
    /// The same in classes, as in [`StreamSums::durations`].
    pub durations: [u64; DURATION_CLASSES],
    /// The time below which a tenth of them took, with the cost of one probe: what a call
    /// takes where nothing comes between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick_ns: Option<u64>,
    /// Calls of the driver's function that the library had no part in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past: u64,
    /// The bytes that these asked for, of functions that allocate memory of a device.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past_bytes: u64,
    /// Those of which that is not known: arrays of compressed or planar formats, and
    /// descriptors that could not be read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past_unsized: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One context of a process: its allocations and waits on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextSums {
    /// Whose it is.
    pub api: GpuApi,
    /// Its handle. 0: not known, of calls that were made before the thread named
    /// its context (see [`ProcessActivity::partial`]). A handle is an address of 48
    /// bits. Above these stands how many contexts of other devices, gone before, had the
    /// same address. HIP has no such handles: there it is the ordinal of the device and 1.
    pub context: u64,
    /// The ordinal of its device, as the process counts. `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// Allocations of memory of all kinds that succeeded.
    pub allocations: u64,
    /// Those that were freed again.
    pub frees: u64,
    /// Allocations that failed.
    pub failed: u64,
    /// Bytes of device memory that are allocated now; this goes down too.
    pub bytes: u64,
    /// The most that this and `physical_bytes` together ever were. With several
    /// threads it may be off by the blocks that they are about to free.
    pub peak_bytes: u64,
    /// Bytes of managed memory now (`cuMemAllocManaged`), which is on the device
    /// or the host and may exceed the device's.
    pub managed_bytes: u64,
    /// Bytes of pinned host memory now.
    pub host_bytes: u64,
    /// Bytes of physical memory that is mapped apart (`cuMemCreate`) now.
    pub physical_bytes: u64,
    /// Times that a thread waited for the whole context.
    pub waits: u64,
    /// For how long, all of them together.
    pub wait_ns: u64,
}

/// One stream of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamSums {
    /// Whose it is.
    pub api: GpuApi,
    /// The context, as in [`ContextSums::context`].
    pub context: u64,
    /// Its handle. 0: the default stream of the context; 2: the default streams
    /// of its threads, summed; 3: streams beyond those that are counted apart.
    pub stream: u64,
    /// Kernels that were launched. One that was captured into a graph is none.
    pub launches: u64,
    /// Graphs that were launched.
    pub graph_launches: u64,
    /// Kernels in these graphs, as far as they were captured from streams.
    pub graph_kernels: u64,
    /// Kernels that were captured into a graph, and did not run by that.
    pub captured: u64,
    /// Functions of the host that were enqueued.
    pub host_functions: u64,
    /// Copies.
    pub copies: u64,
    /// Their bytes by direction.
    pub bytes: CopiedBytes,
    /// Fills (memset).
    pub fills: u64,
    /// Their bytes.
    pub fill_bytes: u64,
    /// Times that a thread waited for the stream, or for an event that was
    /// recorded in it.
    pub waits: u64,
    /// For how long, all of them together.
    pub wait_ns: u64,
    /// How long threads were in copies that return when they are done.
    #[serde(default)]
    pub copy_wait_ns: u64,
    /// Times that a thread asked whether the stream or an event is done.
    pub queries: u64,
    /// Calls that failed.
    pub errors: u64,
    /// The first call.
    pub first_ns: u64,
    /// The last call. Of launches that are not timed the kernel looks at the clock for the
    /// first in each of its ticks: the last one may have been up to 10 ms later.
    pub last_ns: u64,
    /// How long calls took until they returned: [`DURATION_CLASSES`] classes,
    /// see [`FIRST_DURATION_BITS`]. A launch that returns is enqueued, no more.
    pub durations: [u64; DURATION_CLASSES],
}

/// Bytes that were copied, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopiedBytes {
    /// From the host to a device.
    pub to_device: u64,
    /// From a device to the host.
    pub from_device: u64,
    /// On a device, or from one to another.
    pub on_device: u64,
    /// Between addresses that do not tell (`cuMemcpy`).
    pub unknown: u64,
}

/// How often calls returned an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// Whose code it is.
    pub api: GpuApi,
    /// The code (`CUresult`, `hipError_t`).
    pub code: u32,
    /// How often.
    pub count: u64,
}

/// A device of a process, as the driver named it to the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedDevice {
    /// Whose ordinal it is.
    pub api: GpuApi,
    /// The ordinal, as the process counts.
    pub ordinal: u32,
    /// 32 hexadecimal digits with dashes, without `GPU-` or `MIG-` before them.
    pub uuid: String,
    /// Whether the UUID may be that of a MIG instance. `cuDeviceGetUuid_v2`
    /// answers with the instance's, `cuDeviceGetUuid` with that of its GPU.
    pub names_instance: bool,
}
