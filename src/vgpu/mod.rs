//! Memory and SM limits of GPUs that are shared by interception: HAMi-core's
//! `libvgpu.so` and SoftMig's `libsoftmig.so`.
//!
//! Both keep what they know in a file that the processes of a container map,
//! the shared region. This room reads such a file: `layout` decides which
//! build wrote it, `region` reads its fields, `limits` says what a process
//! was meant to have. It is pure, and every byte may
//! come from a hostile user.

mod fit;
mod layout;
mod limits;
mod offsets;
mod region;

pub use limits::{Limits, number};
pub use region::read;
