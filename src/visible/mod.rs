//! Which GPUs a process asks its driver's libraries for: the meaning of
//! `CUDA_VISIBLE_DEVICES` and its kin inside the set the cgroup allows.

mod reach;

use crate::observation::{Answer, Environment};
use crate::report::{Asked, Gpu};

pub use reach::{Access, Reach, SharedAccess};

/// What an environment asks for on a node with these GPUs, for a process that
/// can reach those of them that `reach` says.
pub fn asked(environment: &Answer<Environment>, gpus: &[Gpu], reach: &Reach) -> Asked {
    let _ = (environment, gpus, reach);
    Asked::default()
}
