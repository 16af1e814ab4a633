//! Helper calls: lookups, the few helpers that a device policy uses, and a
//! safe account of all others.

use crate::bytecode::{Comparison, Operand, Operation};

use super::code::{Table, TableKind};
use super::diagram::Bdd;
use super::machine::{Machine, RETVAL_BITS, Stop};
use super::state::State;
use super::value::{Base, Selection, Value};
use super::word::Word;

/// Bytes of `struct bpf_cgroup_dev_ctx`.
const CONTEXT_SIZE: u64 = 12;

impl Machine<'_> {
    /// Runs the helper behind `helper` and sets r0 to r5 as the call leaves
    /// them.
    pub fn call_helper(&mut self, pc: usize, helper: i32, state: &mut State) -> Result<(), Stop> {
        let result = match self.code.symbol(helper) {
            Some(name) => self.call_named(name, state)?,
            None => self.call_nameless(pc, helper, state)?,
        };
        state.registers[0] = result;
        state.registers[1..6].fill(Value::Unset);
        Ok(())
    }

    fn call_named(&mut self, name: &str, state: &mut State) -> Result<Value, Stop> {
        match name {
            // The element, to which inlined code adds the step to the value.
            "__htab_map_lookup_elem" => self.lookup(state, Found::Element),
            "bpf_map_lookup_elem"
            | "htab_map_lookup_elem"
            | "htab_lru_map_lookup_elem"
            | "array_map_lookup_elem" => self.lookup(state, Found::Value),
            "bpf_get_current_cgroup_id" => Ok(match self.surroundings.cgroup_id {
                Some(id) => id.into(),
                None => self.unknown(8, "it depends on the cgroup asked about"),
            }),
            "bpf_get_retval" => Ok(Value::Scalar(state.retval.sign_extended(RETVAL_BITS))),
            "bpf_set_retval" => {
                state.retval = state.registers[1].word(self.symbols).zero_extended(RETVAL_BITS);
                Ok(0.into())
            }
            "bpf_probe_read_kernel" | "bpf_probe_read_compat" | "bpf_probe_read" => self.probe_read(state),
            "bpf_trace_printk" | "bpf_trace_vprintk" => {
                Ok(self.unknown(8, "it depends on the result of bpf_trace_printk"))
            }
            "bpf_tail_call" => Err(Stop("the program continues in another one (tail call)".into())),
            other => self.call_unmodelled(&format!("it depends on the helper {other}"), state),
        }
    }

    /// A call whose function could not be named, because the reader may not
    /// see kernel addresses. A hash lookup is known by what the kernel puts
    /// behind it: a null test and the step from the element to its value. No
    /// other helper that takes such a map returns a pointer, so where the
    /// program reads through the result, it was a lookup.
    fn call_nameless(&mut self, pc: usize, helper: i32, state: &mut State) -> Result<Value, Stop> {
        if helper == TAIL_CALL {
            return self.call_named("bpf_tail_call", state);
        }
        if self.is_followed_by_step_to_value(pc) && self.argument_is_hash(state) {
            return self.lookup(state, Found::Element);
        }
        if self.surroundings.has_retval {
            let why =
                "a call that could not be named may change the result (kernel.kptr_restrict hides its name)";
            state.retval = self.symbols.unknown_word(RETVAL_BITS as u32, why);
        }
        self.call_unmodelled(
            "it depends on a call whose name is hidden (kernel.kptr_restrict, CAP_SYSLOG)",
            state,
        )
    }

    fn is_followed_by_step_to_value(&self, pc: usize) -> bool {
        use crate::bytecode::Arithmetic::Add;
        let next = |by: usize| self.code.operations.get(pc + by);
        let null_test = matches!(
            next(1),
            Some(Operation::Branch { comparison: Comparison::Equal, dst: 0, source: Operand::Immediate(0), target, .. })
                if *target > pc + 2
        );
        // An LRU lookup also marks the element as used before the step.
        null_test
            && [2, 5].iter().any(|by| {
                matches!(
                    next(*by),
                    Some(Operation::Arithmetic {
                        kind: Add,
                        width: 64,
                        dst: 0,
                        source: Operand::Immediate(8..4096)
                    })
                )
            })
    }

    fn argument_is_hash(&self, state: &State) -> bool {
        let Some((map, _)) = self.map_argument(&state.registers[1]) else { return false };
        self.code.maps[map].kind == TableKind::Hash
    }

    /// The map that r1 names. A blinded program loads its address as a plain
    /// constant; if the program has only one map it can be no other.
    fn map_argument(&self, argument: &Value) -> Option<(usize, bool)> {
        match argument {
            Value::Pointer(pointer) => match pointer.base {
                Base::MapObject(map) => Some((map, true)),
                _ => None,
            },
            Value::Scalar(Word::Constant(address))
                if *address >> 48 == 0xffff && self.code.maps.len() == 1 =>
            {
                Some((0, false))
            }
            _ => None,
        }
    }

    /// A lookup in the map of r1 by the key at r2: an entry or null.
    fn lookup(&mut self, state: &mut State, found: Found) -> Result<Value, Stop> {
        let argument = state.registers[1].clone();
        let Some((map, _)) = self.map_argument(&argument) else {
            return self.lookup_in_one_of(&argument, state, found);
        };
        self.lookup_in(map, state, found)
    }

    /// A blinded program with several maps: any of them, the reader cannot
    /// know which.
    fn lookup_in_one_of(&mut self, argument: &Value, state: &mut State, found: Found) -> Result<Value, Stop> {
        if argument.as_constant().is_none_or(|address| address >> 48 != 0xffff) {
            return self.call_unmodelled("it depends on a lookup in an unknown map", state);
        }
        let mut result: Option<Value> = None;
        for map in 0..self.code.maps.len() {
            let candidate = self.lookup_in(map, state, found)?;
            result = Some(match result {
                None => candidate,
                Some(known) => {
                    let this = self
                        .symbols
                        .unknown_bit("the program is blinded, so that it is not known which map it reads");
                    candidate.merged_with(&known, this, self.symbols)
                }
            });
        }
        Ok(result.unwrap_or(Value::Unset))
    }

    fn lookup_in(&mut self, map: usize, state: &State, found: Found) -> Result<Value, Stop> {
        let table = &self.code.maps[map];
        if state.has_written(map) {
            let why = format!("it depends on map {}, which the program itself writes", table.id);
            return Ok(self.unknown(8, &why));
        }
        let (kind, key_size) = (table.kind, table.key_size);
        let entries = match &table.entries {
            Ok(entries) => *entries,
            Err(why) => {
                let why = why.clone();
                return Ok(self.unknown(8, &why));
            }
        };
        let key = self.load_bytes(state, &state.registers[2], key_size);
        if kind == TableKind::Array {
            return Ok(self.array_entry(map, &key));
        }
        let mut hits = Vec::new();
        let mut any = Bdd::FALSE;
        for (number, entry) in entries.iter().enumerate() {
            let here = self.equals(&key, &entry.key.0);
            if here != Bdd::FALSE {
                any = self.symbols.diagram.or(any, here);
                hits.push((here, number));
            }
        }
        let selection = std::rc::Rc::new(Selection { map, hits });
        let base = match found {
            Found::Element => Base::HashElement(selection),
            Found::Value => Base::MapValue(selection),
        };
        let alternatives = vec![(any, Value::pointer(base, Word::ZERO)), (!any, 0.into())];
        Ok(Value::of_alternatives(alternatives, self.symbols))
    }

    fn array_entry(&mut self, map: usize, key: &[[Bdd; 8]]) -> Value {
        let mut bits = [Bdd::FALSE; 64];
        bits.iter_mut().zip(key.iter().flatten()).for_each(|(bit, from)| *bit = *from);
        let index = Word::from_bits(bits);
        let table: &Table<'_> = &self.code.maps[map];
        let (max, stride) = (Word::Constant(table.max_entries), Word::Constant(table.stride() as u64));
        let diagram = &mut self.symbols.diagram;
        let exists = index.less_than(&max, diagram);
        let offset = index.mul(&stride, diagram);
        let alternatives = vec![(exists, Value::pointer(Base::Array(map), offset)), (!exists, 0.into())];
        Value::of_alternatives(alternatives, self.symbols)
    }

    /// Where the bytes are equal to `constant`.
    fn equals(&mut self, bytes: &[[Bdd; 8]], constant: &[u8]) -> Bdd {
        let mut equal = Bdd::TRUE;
        for (bits, byte) in bytes.iter().zip(constant) {
            for (place, bit) in bits.iter().enumerate() {
                let matches = if byte >> place & 1 == 1 { *bit } else { !*bit };
                if matches == Bdd::FALSE {
                    return Bdd::FALSE;
                }
                equal = self.symbols.diagram.and(matches, equal);
            }
        }
        equal
    }

    /// `bpf_probe_read_kernel(r1 = where to, r2 = bytes, r3 = from)`.
    fn probe_read(&mut self, state: &mut State) -> Result<Value, Stop> {
        let (to, from) = (state.registers[1].clone(), state.registers[3].clone());
        let size = state.registers[2].as_constant().filter(|size| *size <= CONTEXT_SIZE);
        let from_context = matches!(&from, Value::Pointer(pointer) if pointer.base == Base::Context
            && pointer.offset.as_constant().zip(size).is_some_and(|(at, size)| at <= CONTEXT_SIZE - size));
        let (Some(size), true) = (size, from_context) else {
            return self
                .call_unmodelled("it depends on kernel memory read with bpf_probe_read_kernel", state);
        };
        for place in 0..size as i64 {
            let byte = self.load(state, &from, place, 1);
            self.store(state, &to, place, 1, &byte)?;
        }
        Ok(0.into())
    }

    /// A helper that gpumap does not model: its result is unknown, and so is
    /// all memory it was handed.
    fn call_unmodelled(&mut self, why: &str, state: &mut State) -> Result<Value, Stop> {
        for register in 1..6 {
            for (_, argument) in state.registers[register].clone().alternatives() {
                let Value::Pointer(pointer) = argument else { continue };
                match &pointer.base {
                    Base::Stack(frame) => {
                        let lowest = pointer.offset.as_constant().map_or(i64::MIN, |offset| offset as i64);
                        if let Some(frame) = state.frame_mut(*frame) {
                            frame.forget(lowest, why, self.symbols);
                        }
                    }
                    Base::MapObject(map) | Base::Array(map) => self.mark_written(state, [*map]),
                    Base::HashElement(selection) | Base::MapValue(selection) => {
                        self.mark_written(state, [selection.map])
                    }
                    Base::Subprogram => {
                        return Err(Stop(format!("{why}, which calls back into the program")));
                    }
                    Base::Context => {}
                }
            }
        }
        Ok(self.unknown(8, why))
    }
}

/// What a lookup function returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Element,
    Value,
}

/// How the kernel dumps a tail call: by the helper's number
/// (`BPF_FUNC_tail_call`, `linux/bpf.h`).
const TAIL_CALL: i32 = 12;
