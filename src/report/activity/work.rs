//! Amounts of work: counts, rates, memory, durations and errors; what an owner did with
//! its GPUs from begin to end; calls that a library before the driver takes first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{CountTable, GpuKey, Owner, Time};
use crate::observation::GpuApi;

/// Calls that succeeded or were enqueued, and what they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Kernels that were launched one by one.
    pub launches: u64,
    /// Graphs that were launched.
    pub graph_launches: u64,
    /// Kernels in these graphs, as far as they were captured from streams.
    pub graph_kernels: u64,
    /// Kernels that were captured into a graph and did not run by that.
    pub captured: u64,
    /// Functions of the host that were enqueued.
    pub host_functions: u64,
    /// Copies.
    pub copies: u64,
    /// Bytes that were copied from the host to the GPU.
    pub to_device_bytes: u64,
    /// Bytes that were copied from the GPU to the host.
    pub from_device_bytes: u64,
    /// Bytes that were copied on the GPU, or from one to another.
    pub on_device_bytes: u64,
    /// Bytes that were copied between addresses that do not tell which they are.
    pub unknown_bytes: u64,
    /// Fills (memset).
    pub fills: u64,
    /// Bytes that were filled.
    pub fill_bytes: u64,
    /// Allocations of memory that succeeded.
    pub allocations: u64,
    /// Allocations that were freed.
    pub frees: u64,
    /// Allocations that failed.
    pub failed_allocations: u64,
    /// Times that a thread waited for the GPU.
    pub waits: u64,
    /// For how long, all threads together.
    pub wait_seconds: f64,
    /// For how long threads were in copies that wait; not part of `wait_seconds`.
    pub copy_wait_seconds: f64,
    /// Times that a thread asked whether something is done.
    pub queries: u64,
    /// Calls that failed.
    pub failed_calls: u64,
}

impl Work {
    /// Bytes that were copied, in whatever direction.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        let parts = [self.to_device_bytes, self.from_device_bytes, self.on_device_bytes, self.unknown_bytes];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// How often work was handed to a GPU: launches, graphs, copies and fills.
    #[must_use]
    pub fn enqueued(&self) -> u64 {
        let parts = [self.launches, self.graph_launches, self.copies, self.fills];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// Work per second of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Kernels that were launched one by one.
    pub launches: f64,
    /// Graphs that were launched.
    pub graph_launches: f64,
    /// Kernels in these graphs.
    pub graph_kernels: f64,
    /// Copies.
    pub copies: f64,
    /// Bytes that were copied, in whatever direction.
    pub copied_bytes: f64,
    /// Bytes that were copied from the host to the GPU.
    pub to_device_bytes: f64,
    /// Bytes that were copied from the GPU to the host.
    pub from_device_bytes: f64,
    /// Bytes that were filled.
    pub fill_bytes: f64,
    /// Times that a thread waited for the GPU.
    pub waits: f64,
    /// Seconds that threads waited: 1 is one thread that did nothing else.
    pub wait_seconds: f64,
    /// Seconds that threads were in copies that wait.
    pub copy_wait_seconds: f64,
}

/// Memory that processes have allocated, as they asked for it: the driver rounds up,
/// and takes more for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUse {
    /// On the device, now.
    pub now_bytes: u64,
    /// The most that this was.
    pub peak_bytes: u64,
    /// Managed memory, which is on the device or on the host.
    pub managed_bytes: u64,
    /// Pinned memory of the host.
    pub host_bytes: u64,
    /// Physical memory of the device that is mapped apart (`cuMemCreate`).
    pub physical_bytes: u64,
}

/// Calls that took about equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DurationClass {
    /// They took at least this long.
    pub from_seconds: f64,
    /// They took less than this; null for the last class.
    pub below_seconds: Option<f64>,
    /// How many.
    pub calls: u64,
}

/// An error that calls of a process returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallError {
    /// Whose code it is.
    pub api: GpuApi,
    /// The code.
    pub code: u32,
    /// Its name in the driver's header; null for a code that gpumap does not know.
    pub name: Option<String>,
    /// How often, since counting began.
    pub count: u64,
    /// How often in the interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u64>,
    /// Whether every further call of the process fails after it: the process has to
    /// end before it can use the GPU again.
    pub sticky: bool,
}

/// What an owner did, its processes that have ended included. The numbers never go down
/// as long as the same gpumap counts, or one that goes on with its state file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerWork {
    /// Whose it is: a whole job, pod, container or unit; null where it is nobody's, or where
    /// that is not known.
    pub owner: Option<Owner>,
    /// Whether it is known that these belong to no job, pod, container or unit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_nobodys: bool,
    /// Since when its calls are counted, RFC 3339.
    pub since: Time,
    /// When its last process ended, or the reading where one is still there.
    pub until: Time,
    /// The seconds from the one to the other.
    pub seconds: f64,
    /// Its processes that made calls.
    pub processes: u64,
    /// Those of them that are still there.
    pub alive: u64,
    /// Whether calls may be missing: then all numbers are the least that it did.
    pub partial: bool,
    /// The tables of the kernel that had no room for something of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<CountTable>,
    /// Errors that its calls returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<CallError>,
    /// What it did with each GPU.
    pub gpus: Vec<GpuWork>,
}

/// What may belong to owners that were asked for, and is in the numbers of none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unattributed {
    /// Processes of the owner's user that made calls, and of which the owner is not known.
    pub processes: u64,
    /// How often calls of that user found no room; of an owner that is there, those of whole
    /// processes alone: the others mark what they are missing of.
    pub lost: u64,
    /// Processes and files whose calls are not counted.
    pub uncovered: usize,
    /// Owners whose numbers are kept no longer. Of owners that are not there.
    pub forgotten_owners: u64,
    /// Whether only some processes of the node are counted. Of owners that are not there.
    pub is_part_of_node: bool,
}

impl Unattributed {
    /// The larger of each.
    #[must_use]
    pub fn most(&self, other: &Self) -> Self {
        Self {
            processes: self.processes.max(other.processes),
            lost: self.lost.max(other.lost),
            uncovered: self.uncovered.max(other.uncovered),
            forgotten_owners: self.forgotten_owners.max(other.forgotten_owners),
            is_part_of_node: self.is_part_of_node || other.is_part_of_node,
        }
    }
}

/// What an owner did with one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuWork {
    /// Key of the GPU in the inventory; null for calls of which it is not known.
    pub gpu: Option<GpuKey>,
    /// The MIG instance, `KEY/GI/CI`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<GpuKey>,
    /// What it did.
    pub counts: Work,
    /// Device memory that is allocated now.
    pub now_bytes: u64,
    /// The least that its memory was at its peak: the largest peak of one of its processes,
    /// or what all of them had at a reading.
    pub peak_bytes: u64,
    /// The most that it can have been: the peaks of all its processes together.
    pub peak_at_most_bytes: u64,
    /// How long the intervals between readings were in which it made a call about this GPU,
    /// or a thread of it was in one.
    pub used_seconds: f64,
    /// The share of its time in which it did not; null where it had no time.
    pub idle_share: Option<f64>,
}

/// Calls of one function of a process that go through HAMi's libvgpu.so or SoftMig's
/// libsoftmig.so before they reach the driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Intercepted {
    /// The function.
    pub function: String,
    /// How often the program called it, since that was seen.
    pub calls: u64,
    /// How many of these calls reached the driver's function of the same name.
    pub reached: u64,
    /// How often per second of the interval the program called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_second: Option<f64>,
    /// The mean time from the program's call to the driver's, in the interval, or since
    /// that was seen where there is none: with the cost of one probe. Null where no
    /// call reached the driver.
    pub measured_seconds: Option<f64>,
    /// What the library takes where nothing comes between: the time below which a tenth of
    /// the calls took since that was seen, without `probe_seconds`. Null where one of the two
    /// is not known, or where their difference is less than twice `probe_seconds`, which it may
    /// be without a library: see `library_at_most_seconds`. The mean is no measure of it: a thread that
    /// loses the CPU meanwhile takes far longer.
    pub library_seconds: Option<f64>,
    /// What it takes at most where that is too short to be measured here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_at_most_seconds: Option<f64>,
    /// Calls of the driver's function that the library had no part in, since that was seen.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past: u64,
    /// Bytes of device memory that these asked for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past_bytes: u64,
    /// How many of them asked for memory of which the size is not known: arrays of compressed
    /// or planar formats. `past_bytes` is the least that was asked for then.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub past_unsized: u64,
    /// How many seconds of each second of the interval the library takes for this
    /// function, all threads together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The measured times in classes, in the interval, or since that was seen. Classes
    /// without a call are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<DurationClass>,
}

/// The library before the driver of a process, and what it takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interception {
    /// Path of the library; null where the process has ended.
    pub library: Option<String>,
    /// How many processes its shared region counts; null where that is not known.
    pub region_processes: Option<usize>,
    /// The functions, the one that takes longest first.
    pub functions: Vec<Intercepted>,
    /// The ways in which kernels came in the interval; left out where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelWays>,
    /// Whether an SM limit of its is in force for kernels that the library holds back, and
    /// how large it is in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_limit: Option<u64>,
}

/// The ways in which kernels of a process came to the driver. The library holds back those of
/// the first alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelWays {
    /// Launches that the library holds back where an SM limit is in force: its
    /// `cuLaunchKernel` and `cuLaunchKernelEx`.
    pub limited: u64,
    /// Kernels of launched graphs, as far as they are known.
    pub graphs: u64,
    /// Cooperative launches.
    pub cooperative: u64,
    /// Launches that went past the library: of functions that it does not have
    /// (`cuLaunchKernel_ptsz`), or taken from the driver itself.
    pub past: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
