//! Calls that a library before the driver takes first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DurationClass;

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
