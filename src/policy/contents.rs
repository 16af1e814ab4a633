//! Hashes programs by all that decides what they answer: instructions, names of calls,
//! maps with their contents, the cgroup, the order. Numbers that another load or another
//! node gives the same things are left out.

use crate::bytecode::{Insn, opcode};
use crate::model::MapType;
use crate::observation::{Answer, Map, MapEntry, Program};

use super::origin::{OriginDigest, digest_of_parts};
use super::types::Context;

/// The hash of programs in run order, with what they read. Of what could not be read
/// nothing shows that it is the same as something else: its numbers on this node count.
pub fn digest_of_programs(programs: &[&Program], context: &Context<'_>) -> OriginDigest {
    let mut contents = Contents { context, maps: Vec::new(), has_order: false, parts: Vec::new() };
    contents.say(&(context.combination, context.cgroup_id, context.path()));
    programs.iter().for_each(|program| contents.program(program));
    // Maps inside maps are found on the way.
    let mut next = 0;
    while let Some(id) = contents.maps.get(next).copied() {
        contents.map(id);
        next += 1;
    }
    digest_of_parts("programs", contents.parts.iter().map(Vec::as_slice))
}

/// What was found so far.
struct Contents<'a> {
    context: &'a Context<'a>,
    /// The maps, which are called by their places in this list.
    maps: Vec<u32>,
    /// Whether the order of a map's entries may matter.
    has_order: bool,
    parts: Vec<Vec<u8>>,
}

impl Contents<'_> {
    fn say(&mut self, what: &impl std::fmt::Debug) {
        self.parts.push(format!("{what:?}").into_bytes());
    }

    /// The place of a map, which is in the list from then on.
    fn place(&mut self, id: u32) -> usize {
        self.maps.iter().position(|known| *known == id).unwrap_or_else(|| {
            self.maps.push(id);
            self.maps.len() - 1
        })
    }

    fn program(&mut self, program: &Program) {
        self.say(&(&program.tag, &program.replaced_by));
        let maps: Vec<usize> = program.map_ids.iter().map(|id| self.place(*id)).collect();
        self.say(&maps);
        match program.xlated.known().map(|bytes| (Insn::parse_all(&bytes.0), &bytes.0)) {
            Some((Some(insns), _)) => self.instructions(&insns, program),
            Some((None, bytes)) => self.parts.push(bytes.clone()),
            None => self.say(&(program.id, &program.loaded_at, program.xlated.missing())),
        }
    }

    fn instructions(&mut self, insns: &[Insn], program: &Program) {
        let (mut bytes, mut names) = (Vec::with_capacity(insns.len() * 8), Vec::new());
        let mut is_second = false;
        for insn in insns {
            let is_map = matches!(insn.src, opcode::PSEUDO_MAP | opcode::PSEUDO_MAP_VALUE);
            let is_call = insn.code == opcode::JMP | opcode::CALL && insn.src != opcode::PSEUDO_CALL;
            let is_call = is_call && !is_second;
            let name = program.calls.get(&insn.imm).filter(|_| is_call);
            self.has_order |= is_call && name.is_none_or(|name| name.contains("for_each"));
            let imm = match name {
                // How far the kernel's function is away differs from build to build.
                Some(_) => 0,
                None if insn.is_wide() && is_map && !is_second => self.place(insn.imm.cast_unsigned()) as i32,
                None => insn.imm,
            };
            names.extend(name);
            is_second = insn.is_wide() && !is_second;
            bytes.extend(Insn { imm, ..*insn }.bytes());
        }
        self.parts.push(bytes);
        self.say(&names);
    }

    fn map(&mut self, id: u32) {
        let Some(map) = self.context.maps.iter().find(|map| map.id == id) else {
            return self.say(&("absent", id));
        };
        let Map { kind, key_size, value_size, max_entries, flags, frozen, hidden, entries, .. } = map;
        self.say(&((kind, key_size, value_size, max_entries), (flags, frozen, hidden)));
        match entries {
            Answer::Missing(why) => self.say(&(id, why)),
            Answer::Known(entries) => self.entries(map, entries),
        }
        map.programs.iter().for_each(|program| self.program(program));
    }

    /// The entries, by key where nothing goes through them: a hash map has them in an order
    /// of its own on each node.
    fn entries(&mut self, map: &Map, entries: &[MapEntry]) {
        let mut in_order: Vec<&MapEntry> = entries.iter().collect();
        // An array has them by number.
        let is_array = matches!(map.kind, MapType::Array | MapType::PercpuArray);
        if !self.has_order && !is_array {
            in_order.sort_by(|a, b| a.key.0.cmp(&b.key.0));
        }
        let mut bytes = Vec::new();
        for entry in in_order {
            let inner = entry.inner_id().filter(|_| map.holds_maps());
            let inner = inner.map(|id| (self.place(id) as u32).to_le_bytes().to_vec());
            let value = inner.as_ref().unwrap_or(&entry.value.0);
            for part in [&entry.key.0, value] {
                bytes.extend((part.len() as u32).to_le_bytes());
                bytes.extend(part);
            }
        }
        self.parts.push(bytes);
    }
}
