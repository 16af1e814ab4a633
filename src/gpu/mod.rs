//! The GPU inventory: every GPU of a node with all the numbers that the system has
//! for it, from plain facts.
//!
//! A GPU has several numbers, and none of them can be computed from another: the
//! driver chooses the device minor that rules name, the NVML index follows PCI
//! order, a UUID is stable. They are joined by PCI address, from what the driver's
//! own files say.

mod accel;
mod amd;
mod drm;
mod facts;
mod label;
mod mig_list;
mod named;
mod nodes;
mod nvidia;
mod pci;
mod shared;

use crate::observation::GpuFacts;
use crate::report::Gpu;
pub use facts::char_major;
pub use label::{Labels, describe, driver_names};
pub use named::{NameError, named};
pub use shared::{SharedNode, shared_nodes};

/// How the paths of NVIDIA's IMEX channels begin.
pub const IMEX_CHANNELS: &str = "/dev/nvidia-caps-imex-channels/channel";

/// The node's GPUs and accelerators, sorted by vendor, PCI address and minor.
///
/// - `key` is the UUID; where that is missing, or where two GPUs report the
///   same one, the PCI address; where that names several GPUs too (partitions
///   of an AMD GPU), `major:minor` of the gate. No two GPUs have equal keys.
/// - `minor` is the driver's `Device Minor` for NVIDIA, never a position.
/// - `nvml_index` is the position in PCI order among the NVIDIA driver's GPUs
///   that are not excluded. It is null for an excluded GPU; for a lost GPU
///   (its information file is empty) and those behind it in PCI order, since
///   NVML may or may not count it; and without the driver's files. In a
///   container that shows only some of the files it is the container's index.
/// - `nodes` holds, gate first, the nodes whose device number is the GPU's,
///   whatever their path. A node that has a GPU's name but another number is
///   listed with the number it has and is no gate.
///
/// Missing, cut or absurd text leaves fields null; it never fails.
pub fn inventory(facts: &GpuFacts) -> Vec<Gpu> {
    let entries = drm::entries(facts);
    let mut gpus = nvidia::list(facts, &entries);
    gpus.extend(amd::list(facts, &entries));
    gpus.extend(drm::list(facts, &entries, &gpus));
    gpus.extend(accel::list(facts));
    gpus.extend(nodes::driverless(facts));
    pci::sort(&mut gpus);
    pci::assign(&mut gpus);
    mig_list::name(facts, &mut gpus);
    gpus
}
