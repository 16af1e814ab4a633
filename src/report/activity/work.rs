//! Amounts of work: counts, rates, memory and durations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
