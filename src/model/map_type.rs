//! Types of BPF maps.

use serde::{Deserialize, Deserializer, Serialize};
use strum::{Display, EnumString, VariantNames};

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
