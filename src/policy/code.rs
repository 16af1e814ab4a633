//! A program made ready to run: operations, flow, the maps it can reach.

use std::collections::BTreeMap;

use crate::bytecode::{Insn, Operation};
use crate::observation::{Map, MapEntry, Program};

use super::flow::Flow;

/// Longest program the kernel loads (`BPF_COMPLEXITY_LIMIT_INSNS`,
/// `linux/bpf.h`).
const MAX_INSNS: usize = 1_000_000;

/// A program ready to run.
#[derive(Debug)]
pub struct Code<'a> {
    /// What each slot does.
    pub operations: Vec<Operation>,
    /// Where paths meet and what stays live.
    pub flow: Flow,
    /// Symbols behind helper calls.
    calls: &'a BTreeMap<i32, String>,
    /// The maps of the program.
    pub maps: Vec<Table<'a>>,
    may_touch_retval: bool,
}

/// A map as the program sees it.
#[derive(Debug)]
pub struct Table<'a> {
    /// Map id.
    pub id: u32,
    /// How lookups in it work.
    pub kind: TableKind,
    /// Key size in bytes.
    pub key_size: usize,
    /// Value size in bytes.
    pub value_size: usize,
    /// Capacity.
    pub max_entries: u64,
    /// The entries, or why they are not known.
    pub entries: Result<&'a [MapEntry], String>,
}

/// How lookups in a map work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// By equal key.
    Hash,
    /// By number, every entry exists.
    Array,
    /// In a way that gpumap does not model.
    Other,
}

impl<'a> Code<'a> {
    /// Prepares `program`; the reason if its instructions are not known.
    pub fn new(program: &'a Program, maps: &'a [Map]) -> Result<Self, String> {
        let bytes = program.xlated.known().ok_or_else(|| {
            let why = program.xlated.missing().unwrap_or_default();
            format!("the instructions of program {} could not be read: {why}", program.id)
        })?;
        let insns = Insn::parse_all(&bytes.0)
            .filter(|insns| !insns.is_empty() && insns.len() <= MAX_INSNS)
            .ok_or_else(|| {
            format!("program {} has {} bytes, which is no program", program.id, bytes.0.len())
        })?;
        let operations = Operation::decode_all(&insns);
        let flow = Flow::of(&operations);
        let maps = program.map_ids.iter().map(|id| Table::new(*id, maps)).collect();
        let may_touch_retval = each(&operations).any(|operation| may_touch_retval(operation, &program.calls));
        Ok(Self { operations, flow, calls: &program.calls, maps, may_touch_retval })
    }

    /// The kernel symbol of a helper, if known.
    pub fn symbol(&self, helper: i32) -> Option<&'a str> {
        self.calls.get(&helper).map(String::as_str)
    }

    /// Place of the map with `id` in [`Code::maps`].
    pub fn map(&self, id: u32) -> Option<usize> {
        self.maps.iter().position(|table| table.id == id)
    }

    /// Whether the program may read or change the error that the hook
    /// returns, itself or through code that gpumap cannot follow.
    pub fn may_touch_retval(&self) -> bool {
        self.may_touch_retval
    }

    /// Whether the verdict may depend on the cgroup asked about.
    pub fn may_read_cgroup_id(&self) -> bool {
        self.helpers().any(|symbol| symbol.is_some_and(|name| name.starts_with("bpf_get_current_cgroup_id")))
    }

    fn helpers(&self) -> impl Iterator<Item = Option<&'a str>> {
        each(&self.operations).filter_map(|operation| match operation {
            Operation::CallHelper { helper } => Some(self.symbol(*helper)),
            _ => None,
        })
    }
}

impl<'a> Table<'a> {
    fn new(id: u32, maps: &'a [Map]) -> Self {
        match maps.iter().find(|map| map.id == id) {
            Some(map) => Self::of(map),
            None => Self {
                id,
                kind: TableKind::Other,
                key_size: 0,
                value_size: 0,
                max_entries: 0,
                entries: Err(format!("map {id} is not part of the observation")),
            },
        }
    }

    fn of(map: &'a Map) -> Self {
        let (key_size, value_size) = (map.key_size as usize, map.value_size as usize);
        let kind = match map.kind.as_str() {
            "hash" | "lru_hash" => TableKind::Hash,
            "array" if key_size == 4 => TableKind::Array,
            _ => TableKind::Other,
        };
        let entries = match (&map.entries, kind) {
            (_, TableKind::Other) => {
                Err(format!("map {} is of type {}, which gpumap does not model", map.id, map.kind))
            }
            (crate::observation::Answer::Missing(why), _) => {
                Err(format!("map {} could not be read: {why}", map.id))
            }
            (crate::observation::Answer::Known(entries), _) if !fits(entries, key_size, value_size) => {
                Err(format!("map {} has entries of the wrong size", map.id))
            }
            (crate::observation::Answer::Known(entries), TableKind::Array) if !is_complete(entries, map) => {
                Err(format!("array map {} is not complete and in order", map.id))
            }
            (crate::observation::Answer::Known(entries), _) => Ok(entries.as_slice()),
        };
        Self { id: map.id, kind, key_size, value_size, max_entries: map.max_entries.into(), entries }
    }

    /// Bytes from one array value to the next: the kernel rounds up to 8.
    pub fn stride(&self) -> usize {
        self.value_size.next_multiple_of(8).max(8)
    }

    /// The value of array entry `index`, if the map has it.
    pub fn array_value(&self, index: u64) -> Option<&'a [u8]> {
        let entries = *self.entries.as_ref().ok().filter(|_| self.kind == TableKind::Array)?;
        entries.get(usize::try_from(index).ok()?).map(|entry| entry.value.0.as_slice())
    }
}

/// The operations without the second slots of two-slot loads.
fn each(operations: &[Operation]) -> impl Iterator<Item = &Operation> {
    let mut pc = 0;
    std::iter::from_fn(move || {
        let operation = operations.get(pc)?;
        pc += operation.slots();
        Some(operation)
    })
}

fn may_touch_retval(operation: &Operation, calls: &BTreeMap<i32, String>) -> bool {
    match operation {
        Operation::CallHelper { helper } => {
            calls.get(helper).is_none_or(|name| name.ends_with("_retval") || name == "bpf_tail_call")
        }
        Operation::Unsupported(_) | Operation::LoadSubprogram { .. } => true,
        _ => false,
    }
}

/// Whether an array's entries are all there, each at its number.
fn is_complete(entries: &[MapEntry], map: &Map) -> bool {
    entries.len() == map.max_entries as usize
        && (0u32..).zip(entries).all(|(index, entry)| entry.key.0 == index.to_le_bytes())
}

fn fits(entries: &[MapEntry], key_size: usize, value_size: usize) -> bool {
    entries.iter().all(|entry| entry.key.0.len() == key_size && entry.value.0.len() == value_size)
}
