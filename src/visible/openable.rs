//! The GPUs that a process may open. Libraries count only those, so every
//! variable is read inside this set.

use crate::model::{SharedRole, Verdict};

/// What a process may open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenableGpus {
    /// One for each GPU of the inventory, in its order.
    pub gpus: Vec<GpuAccess>,
    /// The nodes that a vendor's GPUs share.
    pub shared: Vec<SharedAccess>,
}

/// What a process may open of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuAccess {
    /// The verdict for `rw` on the node that gates the GPU.
    pub verdict: Verdict,
    /// One for each of the GPU's MIG instances, in the inventory's order: the
    /// GPU itself (`rw`) and the capabilities of both instances (`r`).
    pub instances: Vec<Verdict>,
}

/// The verdict for `rw` on a node that a vendor's GPUs share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedAccess {
    /// As in [`crate::gpu::SharedNode::role`].
    pub role: SharedRole,
    /// Whether CUDA or ROCm cannot start without it.
    pub needed: bool,
    /// The verdict.
    pub verdict: Verdict,
}
