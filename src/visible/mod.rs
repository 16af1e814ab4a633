//! Which GPUs a process asks its driver's libraries for: the meaning of
//! `CUDA_VISIBLE_DEVICES` and similar variables inside the set that the cgroup
//! allows.
//!
//! The libraries leave out what they cannot open and count the rest from 0, so
//! every value is read inside that set. Users write these values, so nothing in
//! them is trusted. Where no document says what a value means, independent models
//! of the driver are compared, and where they differ the answer is unknown.

mod answer;
mod cuda;
mod level_zero;
mod mig;
mod ordinal;
mod outcome;
mod population;
mod rocm;
mod uuid;
mod variable;

use crate::observation::{Answer, Environment};
use crate::report::{Asked, Gpu};

pub use population::{GpuAccess, OpenableGpus, SharedAccess};

/// What an environment asks for on a node with these GPUs, for a process that
/// can reach those of them that `reach` says.
///
/// - `apis` has an entry for each interface whose vendor has a GPU here:
///   `cuda`; `hip`, `rocr` and, if `GPU_DEVICE_ORDINAL` is set, `opencl`;
///   `level-zero`. On a node without any, `CUDA_VISIBLE_DEVICES` is still
///   shown, and no GPU results.
/// - The fields beside `apis` are those of its first entry. For AMD that is
///   `hip`: what a program gets in the end, after ROCR's filter. `gpus` is the
///   union over the vendors, and `confidence` that of the least sure vendor;
///   if another vendor than the first is why `gpus` is null, `why` is its own.
/// - Without GPUs that can be opened no value gives one: `gpus` is `[]` and
///   `documented` whatever the value says. A value that could not be read stays
///   unknown.
/// - Where some verdicts are unknown, `gpus` is known only if it is the same
///   however they turn out.
/// - `NVIDIA_VISIBLE_DEVICES` (container toolkit) and the variables of other
///   vendors are listed in `variables`; nothing is derived from them.
pub fn asked(environment: &Answer<Environment>, gpus: &[Gpu], reach: &OpenableGpus) -> Asked {
    answer::asked(environment, gpus, reach)
}
