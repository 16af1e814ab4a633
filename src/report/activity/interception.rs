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
    /// What the library takes for the call in the middle: the middle of its class, so
    /// right to a factor of 1.4, without `probe_seconds`. Null where one of the two is
    /// not known. The mean is no measure of it: a thread that loses the CPU meanwhile
    /// takes far longer.
    pub library_seconds: Option<f64>,
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
}
