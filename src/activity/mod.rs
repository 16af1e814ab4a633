//! What processes do with GPUs: sums of their calls of drivers' libraries.
//!
//! [`Session`] loads the programs of `bpf/activity.bpf.c`, which count in the
//! kernel and send no record for a call. It attaches them to every driver's
//! library that processes in scope use, and reads the sums when it is asked. All
//! of it ends with the value, or with the process.

mod cookie;
mod functions;
mod interception;
mod kernel;
mod layout;
mod missed;
mod openings;
mod pending;
mod prober;
mod reading;
mod session;

use nix::errno::Errno;

use crate::loader::LoadError;
use crate::observation::GpuApi;

pub use crate::probing::{Mode, ProcessScope};
pub use interception::Interception;
pub use kernel::CountingOptions;
pub use session::Session;

/// The exported functions of an interface whose calls are counted.
pub fn counted_functions(api: GpuApi) -> impl Iterator<Item = &'static str> {
    let functions = functions::all().iter();
    functions.filter(move |function| function.api() == api).map(|function| function.name.as_str())
}

/// Why nothing can be counted.
#[derive(Debug, thiserror::Error)]
pub enum ActivityError {
    /// The kernel does not load, attach or read the programs: it is older than
    /// 5.15, has no BTF, or a right is missing (`CAP_BPF` and `CAP_PERFMON`, or
    /// root).
    #[error("the kernel does not count calls for gpumap: {0}")]
    Kernel(#[from] LoadError),
    /// The kernel is older than 5.15: its probes have no numbers of their own.
    #[error("this kernel does not say which function was called: counting calls needs Linux 5.15")]
    NoCookies,
    /// There is no such kind of probes.
    #[error("there is no such kind of probes")]
    NoMode,
    /// Waiting failed.
    #[error("waiting failed ({0})")]
    Wait(Errno),
}
