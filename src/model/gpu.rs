//! GPUs: their vendors, the device nodes that all of a vendor's GPUs share, and
//! the keys of MIG instances.

use std::fmt;

open_words! {
    /// The maker of a GPU; `Other` is the name of its driver.
    pub enum Vendor {
        /// AMD.
        Amd,
        /// Intel.
        Intel,
        /// NVIDIA.
        #[default]
        Nvidia,
    }
}

open_words! {
    /// The purpose of a device node that all GPUs of a vendor share.
    pub enum SharedRole {
        /// The paravirtual GPU of WSL.
        #[default]
        Dxg,
        /// AMD's compute interface: ROCm cannot start without it.
        Kfd,
        /// NVIDIA's mode setting.
        NvidiaModeset,
        /// NVIDIA's unified memory: CUDA cannot start without it.
        NvidiaUvm,
        /// Tools for NVIDIA's unified memory.
        NvidiaUvmTools,
        /// NVIDIA's control node: CUDA cannot start without it.
        Nvidiactl,
    }
}

impl SharedRole {
    /// The vendor whose libraries cannot start without this node.
    #[must_use]
    pub fn needed_by(&self) -> Option<Vendor> {
        match self {
            Self::Nvidiactl | Self::NvidiaUvm => Some(Vendor::Nvidia),
            Self::Kfd => Some(Vendor::Amd),
            _ => None,
        }
    }

    /// Whether a process that has this node open probably computes.
    #[must_use]
    pub fn hints_at_computing(&self) -> bool {
        matches!(self, Self::NvidiaUvm | Self::Kfd)
    }
}

open_words! {
    /// A way in which owners share GPUs on purpose.
    pub enum SharingMode {
        /// Each owner has MIG instances of its own.
        #[default]
        Mig,
        /// NVIDIA's Multi-Process Service.
        Mps,
        /// Slurm's shards.
        Shard,
        /// A library between processes and the driver: HAMi-core, SoftMig.
        Interception,
    }
}

/// Names a MIG compute instance: `KEY/GI/CI`, the GPU's key and the numbers of
/// the GPU instance and the compute instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceKey<'a> {
    /// Key of the GPU in the inventory.
    pub gpu: &'a str,
    /// GPU instance.
    pub gi: u32,
    /// Compute instance; a GPU instance without one is `KEY/GI`.
    pub ci: Option<u32>,
}

impl<'a> InstanceKey<'a> {
    /// Reads `KEY/GI/CI` or `KEY/GI`.
    pub fn parse(key: &'a str) -> Option<Self> {
        let (gpu, rest) = key.split_once('/')?;
        let (gi, ci) = match rest.split_once('/') {
            Some((gi, ci)) => (gi, Some(ci.parse().ok()?)),
            None => (rest, None),
        };
        Some(Self { gpu, gi: gi.parse().ok()?, ci })
    }

    /// Whether `key` names an instance of this GPU.
    pub fn is_on(key: &str, gpu: &str) -> bool {
        key.strip_prefix(gpu).is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for InstanceKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.gpu, self.gi)?;
        self.ci.map_or(Ok(()), |ci| write!(f, "/{ci}"))
    }
}
