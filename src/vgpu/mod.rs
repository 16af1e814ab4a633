//! Memory and SM limits of GPUs that are shared by interception: HAMi-core's
//! `libvgpu.so` and SoftMig's `libsoftmig.so`.
//!
//! Both keep what they know in a file that the processes of a container map,
//! the shared region. `layout` decides which build wrote such a file, `region`
//! reads its fields, `limits` reads limits as the libraries do.
//!
//! Whether the limits of a process are in force is judged from what shows
//! outside of it. `registered` makes the checks that all limits share: library
//! loaded, region mapped, layout known, entry there. `memory` and `sm` go on
//! for one device each. `survey` does so for the processes of an observation.
//!
//! The room is pure, and every byte may come from a hostile user.

mod layout;
mod limits;
mod memory;
mod order;
mod region;
mod registered;
mod sm;
mod survey;

pub use limits::{Limits, number};
pub use memory::memory_of;
pub use region::read;
pub use survey::{KnownGpu, ProcessContext, Survey};
