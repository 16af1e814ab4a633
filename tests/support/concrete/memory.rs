//! Made-up addresses for everything a program can reach.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use gpumap::bytecode::Insn;
use gpumap::model::{Device, MapType, Request};
use gpumap::observation::Map;

use super::Unmodelled;
use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::source::{MapKind, MapSpec};
use crate::support::{bpf, inspect};

pub const CTX: u64 = 0x1000_0000_0000;
const STACKS: u64 = 0x2000_0000_0000;
const MAPS: u64 = 0x3000_0000_0000;
const ELEMENTS: u64 = 0x4000_0000_0000;
const REGION: u64 = 1 << 24;
const FRAME: u64 = 512;

/// Regions by address.
pub struct Memory<'a> {
    regions: BTreeMap<u64, Vec<u8>>,
    maps: &'a [Map],
}

impl<'a> Memory<'a> {
    pub fn new(maps: &'a [Map], device: Device, request: Request) -> Self {
        let access = request.bits() << 16 | device.kind as u32;
        let ctx = [access, device.major, device.minor].map(u32::to_le_bytes).concat();
        Self { regions: BTreeMap::from([(CTX, ctx)]), maps }
    }

    /// A fresh frame; the address just above it.
    pub fn push_frame(&mut self, depth: u64) -> u64 {
        let base = STACKS + depth * REGION;
        self.regions.insert(base, vec![0xa5; FRAME as usize]);
        base + FRAME
    }

    /// The address of a map, or of its first value.
    pub fn map(&mut self, id: u32, value: bool) -> Result<u64, Unmodelled> {
        let at = self.maps.iter().position(|map| map.id == id);
        let at = at.ok_or_else(|| Unmodelled(format!("map {id}")))?;
        let address = MAPS + at as u64 * REGION;
        let layout = layout();
        let map = &self.maps[at];
        self.regions.entry(address).or_insert_with(|| {
            let mut object = vec![0; layout.array_value];
            if map.kind == MapType::Array {
                for entry in map.entries.known().expect("dumped") {
                    object.extend(&entry.value.0);
                    object.resize(object.len().next_multiple_of(8), 0);
                }
            }
            object
        });
        Ok(if value { address + layout.array_value as u64 } else { address })
    }

    /// `__htab_map_lookup_elem`: the element, or 0.
    pub fn look_up(&mut self, map: u64, key: u64) -> Result<u64, Unmodelled> {
        let at = (map.wrapping_sub(MAPS) / REGION) as usize;
        let found = self.maps.get(at).filter(|map| map.kind.to_string().ends_with("hash"));
        let map = found.ok_or_else(|| Unmodelled("a lookup in no hash".into()))?;
        let key = self.bytes(key, map.key_size as usize)?.to_vec();
        let entries = map.entries.known().expect("dumped");
        let Some(number) = entries.iter().position(|entry| entry.key.0 == key) else { return Ok(0) };
        let address = ELEMENTS + (at as u64 * 4096 + number as u64) * REGION;
        let mut element = vec![0; layout().hash_key + (map.key_size as usize).next_multiple_of(8)];
        element.extend(&entries[number].value.0);
        self.regions.entry(address).or_insert(element);
        Ok(address)
    }

    pub fn load(&self, address: u64, size: usize) -> Result<u64, Unmodelled> {
        let mut word = [0; 8];
        word[..size].copy_from_slice(self.bytes(address, size)?);
        Ok(u64::from_le_bytes(word))
    }

    pub fn store(&mut self, address: u64, size: usize, value: u64) -> Result<(), Unmodelled> {
        let outside = || Unmodelled(format!("a store to {address:#x}"));
        let (base, region) = self.regions.range_mut(..=address).next_back().ok_or_else(outside)?;
        let at = (address - base) as usize;
        let bytes = region.get_mut(at..at + size).ok_or_else(outside)?;
        bytes.copy_from_slice(&value.to_le_bytes()[..size]);
        Ok(())
    }

    fn bytes(&self, address: u64, size: usize) -> Result<&[u8], Unmodelled> {
        let outside = || Unmodelled(format!("a load from {address:#x}"));
        let (base, region) = self.regions.range(..=address).next_back().ok_or_else(outside)?;
        let at = (address - base) as usize;
        region.get(at..at + size).ok_or_else(outside)
    }
}

/// Where this kernel keeps values, learnt from how it inlines lookups.
struct Layout {
    array_value: usize,
    hash_key: usize,
}

fn layout() -> &'static Layout {
    static LAYOUT: OnceLock<Layout> = OnceLock::new();
    LAYOUT.get_or_init(|| Layout { array_value: added(MapKind::Array), hash_key: added(MapKind::Hash) - 8 })
}

/// The constant that an inlined lookup adds to a pointer.
fn added(kind: MapKind) -> usize {
    let mut asm = Asm::new();
    let map = asm.map(MapSpec {
        kind,
        key_size: 4,
        value_size: 8,
        max_entries: 1,
        flags: 0,
        freeze: false,
        entries: vec![],
    });
    let out = asm.label();
    asm.st(size::W, 10, -4, 0);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -4);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::EQ, 0, 0, out);
    asm.mov(0, 1);
    asm.bind(out);
    asm.exit();
    let loaded = bpf::load(&asm.finish("layout")).expect("a plain lookup");
    let program = inspect::program(&loaded.program).expect("info");
    let insns = Insn::parse_all(&program.xlated.known().expect("dumped").0).expect("whole slots");
    let add = insns.iter().find(|insn| insn.code == 0x07 && insn.imm > 0);
    add.expect("an addition").imm as usize
}
