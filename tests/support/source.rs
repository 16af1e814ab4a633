//! A program before it is loaded: instructions, the maps it needs, and how it
//! wants to be loaded.

use gpumap::bytecode::Insn;

/// `enum bpf_map_type` in `linux/bpf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    Hash = 1,
    Array = 2,
    ProgArray = 3,
    PercpuHash = 5,
    PercpuArray = 6,
    LruHash = 9,
    LpmTrie = 11,
    Ringbuf = 27,
}

/// A map to create, with its contents.
#[derive(Clone, Debug)]
pub struct MapSpec {
    pub kind: MapKind,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub flags: u32,
    pub freeze: bool,
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A program to load. In `insns` a map reference carries the index of the map
/// in `maps` where the kernel expects a file descriptor.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// What kind of program it is, for messages.
    pub shape: String,
    pub insns: Vec<Insn>,
    pub maps: Vec<MapSpec>,
    /// GPL compatible licence.
    pub gpl: bool,
    /// `expected_attach_type` is set: allows get/set_retval.
    pub attach_type: bool,
    /// Devices the program is about, besides the numbers in its instructions.
    pub hints: Vec<(u32, u32)>,
    /// Whether `unknown` is an acceptable answer: the program depends on
    /// something gpumap does not model.
    pub may_be_unknown: bool,
}

impl Source {
    pub fn bytes(&self) -> Vec<u8> {
        self.insns.iter().flat_map(|insn| insn.bytes()).collect()
    }

    /// Every number that the program or its maps mention.
    pub fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.insns.iter().map(|insn| insn.imm as u32).collect();
        for map in &self.maps {
            for (key, value) in &map.entries {
                numbers.extend(words(key).chain(words(value)));
            }
        }
        numbers
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}
