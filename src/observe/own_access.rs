//! What the kernel says gpumap itself may open: the one fact that is a verdict
//! already. It is never part of an observation, because it is about this
//! process alone.

pub use crate::sys::access::{Access, Answer, probe};
