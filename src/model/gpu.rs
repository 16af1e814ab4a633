//! GPUs: their vendors, the device nodes that all of a vendor's GPUs share, and
//! the keys of MIG instances.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// Names a GPU of the inventory (its UUID, else its PCI address, else `major:minor`), or a
/// MIG instance on it: `KEY/GI/CI`, and `KEY/GI` for a GPU instance without a compute
/// instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GpuKey(String);

impl GpuKey {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key of an instance on this GPU: the numbers of the GPU instance and the compute
    /// instance.
    #[must_use]
    pub fn instance(&self, gi: u32, ci: Option<u32>) -> Self {
        let ci = ci.map(|ci| format!("/{ci}")).unwrap_or_default();
        Self(format!("{}/{gi}{ci}", self.0))
    }

    /// Whether it names an instance.
    #[must_use]
    pub fn is_instance(&self) -> bool {
        self.0.contains('/')
    }

    /// The GPU and the number of the GPU instance; `None` for a GPU.
    #[must_use]
    pub fn gpu_instance(&self) -> Option<(&str, u32)> {
        let (gpu, rest) = self.0.split_once('/')?;
        Some((gpu, rest.split('/').next()?.parse().ok()?))
    }

    /// What follows the key of a GPU, `/GI/CI`; `None` where it names no instance of this GPU.
    #[must_use]
    pub fn below(&self, gpu: &str) -> Option<&str> {
        self.0.strip_prefix(gpu).filter(|rest| rest.starts_with('/'))
    }

    /// Whether it names an instance of this GPU.
    #[must_use]
    pub fn is_on(&self, gpu: &str) -> bool {
        self.below(gpu).is_some()
    }

    /// Whether it names this GPU or an instance of it.
    #[must_use]
    pub fn is_of(&self, gpu: &str) -> bool {
        self.0 == gpu || self.is_on(gpu)
    }
}

impl Deref for GpuKey {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for GpuKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for GpuKey {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for GpuKey {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<T: Into<String>> From<T> for GpuKey {
    fn from(key: T) -> Self {
        Self(key.into())
    }
}

impl fmt::Display for GpuKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
