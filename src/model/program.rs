//! Device programs: how they are attached, which software writes them, and the types of
//! the maps that they read.

use serde::{Deserialize, Deserializer, Serialize};
use strum::{Display, EnumString, VariantNames};

open_words! {
    /// How a program is attached to a cgroup.
    pub enum AttachFlag {
        /// A link holds it.
        Link,
        /// Programs of lower cgroups run as well as this one
        /// (`BPF_F_ALLOW_MULTI`).
        #[default]
        Multi,
        /// A program of a lower cgroup runs instead of this one
        /// (`BPF_F_ALLOW_OVERRIDE`).
        Override,
        /// It runs before those of lower cgroups (`BPF_F_PREORDER`).
        Preorder,
    }
}

open_words! {
    /// The software whose programs have this shape. It is a label for people, and no
    /// proof.
    pub enum Writer {
        /// containerd, or runc before it wrote programs as it does now.
        #[serde(rename = "containerd or an old runc")]
        #[strum(serialize = "containerd or an old runc")]
        Containerd,
        /// CraneSched.
        #[serde(rename = "CraneSched")]
        #[strum(serialize = "CraneSched")]
        Crane,
        /// crun.
        Crun,
        /// crun before 0.19.
        #[serde(rename = "crun before 0.19")]
        #[strum(serialize = "crun before 0.19")]
        OldCrun,
        /// `gpumap repair --apply`.
        #[serde(rename = "gpumap repair")]
        #[strum(serialize = "gpumap repair")]
        Gpumap,
        /// HTCondor.
        #[serde(rename = "HTCondor")]
        #[strum(serialize = "HTCondor")]
        Htcondor,
        /// libvirt.
        Libvirt,
        /// LXC.
        #[serde(rename = "LXC")]
        #[strum(serialize = "LXC")]
        Lxc,
        /// NVIDIA's container toolkit.
        #[serde(rename = "NVIDIA container toolkit")]
        #[strum(serialize = "NVIDIA container toolkit")]
        NvidiaToolkit,
        /// OAR.
        #[serde(rename = "OAR")]
        #[strum(serialize = "OAR")]
        Oar,
        /// runc or youki, which write the same.
        #[serde(rename = "runc or youki")]
        #[strum(serialize = "runc or youki")]
        Runc,
        /// runc before 1.0.0-rc94.
        #[serde(rename = "runc before 1.0.0-rc94")]
        #[strum(serialize = "runc before 1.0.0-rc94")]
        OldRunc,
        /// Slurm.
        #[serde(rename = "Slurm")]
        #[strum(serialize = "Slurm")]
        #[default]
        Slurm,
        /// systemd.
        Systemd,
    }
}

/// The type of a BPF map, in the order of `enum bpf_map_type` in `linux/bpf.h`.
/// Its JSON and text are the name that bpftool prints.
#[derive(
    Clone,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Display,
    EnumString,
    VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of bpf(2), which describes them")]
pub enum MapType {
    Unspec,
    Hash,
    Array,
    ProgArray,
    PerfEventArray,
    PercpuHash,
    PercpuArray,
    StackTrace,
    CgroupArray,
    LruHash,
    LruPercpuHash,
    LpmTrie,
    ArrayOfMaps,
    HashOfMaps,
    Devmap,
    Sockmap,
    Cpumap,
    Xskmap,
    Sockhash,
    CgroupStorage,
    ReuseportSockarray,
    PercpuCgroupStorage,
    Queue,
    Stack,
    SkStorage,
    DevmapHash,
    StructOps,
    Ringbuf,
    InodeStorage,
    TaskStorage,
    BloomFilter,
    UserRingbuf,
    CgrpStorage,
    Arena,
    InsnArray,
    /// A type that this version does not know, `type 99` by its number; empty for
    /// a map that could not be asked.
    #[strum(default)]
    #[serde(untagged)]
    Other(String),
}

impl MapType {
    /// The type with this name; every name has one.
    pub fn of(name: &str) -> Self {
        name.parse().unwrap_or_else(|_| Self::Other(name.to_owned()))
    }

    /// The type with this number in the kernel.
    pub fn of_number(number: u32) -> Self {
        let known = Self::VARIANTS.split_last().map_or(&[][..], |(_other, known)| known);
        match known.get(number as usize) {
            Some(name) => Self::of(name),
            None => Self::Other(format!("type {number}")),
        }
    }

    /// Whether the map could not be asked for its type.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Other(name) if name.is_empty())
    }
}

impl<'de> Deserialize<'de> for MapType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        super::open_word::deserialize(deserializer, Self::of)
    }
}

impl Default for MapType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that numbers and names are those of the kernel and of bpftool, in
    /// JSON too.
    #[test]
    fn names() {
        for (number, name) in [(0, "unspec"), (1, "hash"), (10, "lru_percpu_hash"), (33, "arena")] {
            let kind = MapType::of_number(number);
            assert_eq!((kind.to_string().as_str(), &MapType::of(name)), (name, &kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<MapType>(&format!("\"{name}\"")).unwrap(), kind);
        }
        assert_eq!(MapType::of_number(34), MapType::InsnArray);
        assert_eq!(MapType::of_number(35).to_string(), "type 35");
        assert!(MapType::default().is_unknown() && !MapType::of_number(35).is_unknown());
    }
}
