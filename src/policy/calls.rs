//! Runs calls of helpers. The few that device policies use are modelled exactly. For
//! the others, what they may write counts as written and what they return is unknown.

use std::rc::Rc;

use super::frame;
use super::helpers::{self, Effect, LookupResult};
use super::machine::{Machine, RETVAL_BITS, Stop};
use super::state::{AX, MachineState};
use super::value::{Base, Pointer, Value};
use super::word::Word;
use super::written::Spoil;

/// What there is to say of a call without a name, whoever asked.
const NAMELESS: &str = "without a name (the kernel shows names to those who have CAP_SYSLOG, while kernel.kptr_restrict is below 2; a file of bare instructions has none)";
/// Most bytes of a value that are told apart where a helper writes them.
const MOST_FILLED: usize = 64;
/// Bytes of `struct bpf_dynptr` (`linux/bpf.h`).
pub const DYNPTR: u64 = 16;
/// Bytes of `struct bpf_cgroup_dev_ctx`.
const CONTEXT_SIZE: i64 = 12;
/// Most bytes that a helper is followed in copying.
const MOST_COPIED: u64 = 64;

impl Machine<'_> {
    /// Runs a helper that comes back, and sets r0 to r5 as the call leaves them.
    pub fn call_helper(&mut self, helper: i32, pc: usize, state: &mut MachineState) -> Result<(), Stop> {
        let code = self.code;
        let name = code.symbol(helper);
        // No other call uses the kernel's own register: it holds how often a loop
        // may still repeat.
        let is_clock = name == Some("arch_bpf_timed_may_goto");
        for register in AX {
            state.registers[register] = match is_clock {
                true => self.unknown(8, "it depends on how long a loop takes (may_goto)"),
                false => Value::Unset,
            };
        }
        if is_clock {
            return Ok(());
        }
        let result = match name {
            Some(name) => self.call_named(name, state)?,
            None => self.call_nameless(pc, state)?,
        };
        state.end_call(result);
        Ok(())
    }

    fn call_named(&mut self, name: &str, state: &mut MachineState) -> Result<Value, Stop> {
        if let Some(found) = helpers::lookup(name) {
            return self.lookup(state, found);
        }
        match name {
            "bpf_get_current_cgroup_id" => Ok(match self.surroundings.cgroup_id {
                Some(id) => id.into(),
                None => self.unknown(8, "it depends on the cgroup asked about"),
            }),
            "bpf_get_current_ancestor_cgroup_id" => Ok(self.ancestor(state)),
            "bpf_get_retval" => Ok(Value::Scalar(state.retval.sign_extended(RETVAL_BITS))),
            "bpf_set_retval" => {
                state.retval = state.registers[1].word(self.symbols).zero_extended(RETVAL_BITS);
                Ok(0.into())
            }
            "bpf_probe_read_kernel" | "bpf_probe_read_compat" | "bpf_probe_read"
                if self.reads_own_memory(state) =>
            {
                self.probe_read(state)
            }
            other => {
                let why = format!("it depends on the helper {other}");
                match helpers::effect(other) {
                    Some(effect) => Ok(self.call_known(effect, &why, state)),
                    None => Ok(self.call_unmodelled(&why, state)),
                }
            }
        }
    }

    /// The id of the cgroup at the level in r1 above the one asked about; 0 where there
    /// is none (`bpf_get_current_ancestor_cgroup_id`, `kernel/bpf/helpers.c`).
    fn ancestor(&mut self, state: &MachineState) -> Value {
        let level = state.registers[1].as_constant().map(|level| level as u32);
        match level.filter(|_| !self.code.path.is_empty()) {
            Some(level) => self.code.path.get(level as usize).copied().unwrap_or_default().into(),
            None => self.unknown(8, "it depends on the cgroups above the one asked about"),
        }
    }

    /// A helper of which gpumap knows all but the number it returns.
    fn call_known(&mut self, effect: Effect, why: &str, state: &mut MachineState) -> Value {
        match effect {
            Effect::Nothing => {}
            Effect::Fills(to, size) => {
                let size = size.and_then(|size| state.registers[size].as_constant());
                self.fill(to, size, why, state);
            }
            Effect::FillsBytes(to, size) => self.fill(to, Some(size), why, state),
            Effect::MakesDynptr { to } => {
                self.fill(1, None, why, state);
                self.fill(to, Some(DYNPTR), why, state);
            }
            Effect::CallsBackLater => {
                self.fill(1, Some(helpers::TIMER), why, state);
                self.spoil_all(state, &self.code.unfollowed().clone());
            }
            Effect::Changes => self.change_map(why, state),
            Effect::Takes => {
                self.change_map(why, state);
                let map = self.map_argument(&state.registers[1]);
                self.fill(2, map.map(|map| self.code.maps[map].value_size as u64), why, state);
            }
            Effect::Record => return self.scratch_or_null(why),
            Effect::Storage { may_be_null } => {
                return match self.map_argument(&state.registers[1]) {
                    Some(map) => self.storage(map, may_be_null),
                    None => self.unknown(8, why),
                };
            }
        }
        self.unknown(8, why)
    }

    /// Memory of which nothing is known and where no map and no stack is, or null.
    pub(super) fn scratch_or_null(&mut self, why: &str) -> Value {
        let exists = self.symbols.unknown_bit(why);
        let memory = Value::pointer(Base::Scratch, Word::ZERO);
        memory.merged_with(&0.into(), exists, self.symbols)
    }

    /// The map in r1 gets or loses entries.
    fn change_map(&mut self, why: &str, state: &mut MachineState) {
        for (_, argument) in state.registers[1].alternatives() {
            match self.map_argument(&argument) {
                Some(map) => self.spoil(state, map, &Spoil::ALL),
                None => self.write_anywhere(why, state),
            }
        }
    }

    /// The memory at `register` is written, `size` bytes if that is known.
    pub(super) fn fill(&mut self, register: usize, size: Option<u64>, why: &str, state: &mut MachineState) {
        for (_, argument) in state.registers[register].alternatives() {
            match &argument {
                Value::Pointer(pointer) => self.fill_at(pointer, size, why, state),
                Value::Scalar(word) if word.may_be_address() => self.write_anywhere(why, state),
                _ => {}
            }
        }
    }

    fn fill_at(&mut self, pointer: &Pointer, size: Option<u64>, why: &str, state: &mut MachineState) {
        match &pointer.base {
            Base::Stack(frame) => {
                let known = pointer.offset.as_constant().map(|offset| offset as i64);
                if let Some(frame) = state.frame_mut(*frame) {
                    match known {
                        Some(offset) => frame.forget(offset, size, &Rc::from(why)),
                        None => frame.forget_all(&Rc::from(why)),
                    }
                }
            }
            Base::MapObject(map) | Base::InnerSlots(map) => self.spoil(state, *map, &Spoil::ALL),
            Base::PerCpuSlots(map) => self.spoil(state, *map, &Spoil::VALUES),
            Base::Array(map) => {
                let spoil = self.filled(pointer, size, Some(self.code.maps[*map].stride()));
                self.spoil(state, *map, &spoil);
            }
            Base::MapValue(selection) => {
                let spoil = self.filled(pointer, size, None);
                self.spoil(state, selection.map, &spoil);
            }
            Base::HashElement(selection) | Base::PerCpuSlot(selection) | Base::InnerSlot(selection) => {
                self.spoil(state, selection.map, &Spoil::VALUES);
            }
            Base::Context | Base::Scratch | Base::Subprogram(_) | Base::Bytes(_) => {}
        }
    }

    /// The bytes of a map's values that a helper writes, `size` of them if that
    /// is known.
    fn filled(&mut self, pointer: &Pointer, size: Option<u64>, stride: Option<usize>) -> Spoil {
        match size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= MOST_FILLED) {
            Some(size) => self.spoil_of(pointer, 0, size, stride),
            None => Spoil::VALUES,
        }
    }

    /// A call whose function could not be named: its name is not shown, and the
    /// program's tag proves nothing. What follows it proves a lookup only where the
    /// verifier lets nothing else stand ([`Code::can_only_be_lookup`]): a program may have
    /// written itself what the kernel puts behind a lookup that it inlines.
    ///
    /// [`Code::can_only_be_lookup`]: super::code::Code::can_only_be_lookup
    fn call_nameless(&mut self, pc: usize, state: &mut MachineState) -> Result<Value, Stop> {
        let map = self.map_argument(&state.registers[1]);
        if map.is_some_and(|map| self.code.can_only_be_lookup(pc, &self.code.maps[map])) {
            return self.lookup(state, LookupResult::Element);
        }
        if self.surroundings.has_retval {
            let why = format!("a call {NAMELESS} may change the result");
            state.retval = self.symbols.unknown_word(RETVAL_BITS as u32, &why);
        }
        Ok(self.call_unmodelled(&format!("it depends on a call {NAMELESS}"), state))
    }

    /// Whether `bpf_probe_read_kernel(r1 = where to, r2 = bytes, r3 = from)`
    /// reads memory that the program could read by itself, all of it there: its
    /// argument, its stack, values of a map. Then it does not fail. (It fails
    /// where the kernel is locked down, but then the verifier refuses it.)
    fn reads_own_memory(&mut self, state: &MachineState) -> bool {
        let (Value::Pointer(to), Value::Pointer(from)) = (&state.registers[1], &state.registers[3]) else {
            return false;
        };
        let Some(size) = bytes_to_read(state) else { return false };
        // Which byte is copied first is left open, so the places must not overlap.
        let may_overlap = matches!(from.base, Base::Stack(_)) && !are_apart(to, from, size);
        !may_overlap && self.is_own_memory(from, size)
    }

    /// Whether `size` bytes at this address are memory of the program, all of it there.
    pub(super) fn is_own_memory(&mut self, from: &Pointer, size: i64) -> bool {
        let (first, end) = match &from.base {
            Base::Context => (0, CONTEXT_SIZE),
            Base::Stack(_) => (-frame::SIZE, 0),
            Base::Array(map) => (0, self.code.maps[*map].array_size()),
            Base::MapValue(selection) => (0, self.code.maps[selection.map].value_size as i64),
            _ => return false,
        };
        let is_inside =
            |place: i64| place >= first && place.checked_add(size).is_some_and(|last| last <= end);
        self.places(from, 0).is_some_and(|places| places.into_iter().all(|(_, place)| is_inside(place)))
    }

    fn probe_read(&mut self, state: &mut MachineState) -> Result<Value, Stop> {
        let (to, from) = (state.registers[1].clone(), state.registers[3].clone());
        let size = bytes_to_read(state).unwrap_or_default();
        let step = if matches!(size, 2 | 4 | 8) { size } else { 1 };
        for place in (0..size).step_by(step as usize) {
            let read = self.load(state, &from, place, step as usize);
            self.store(state, &to, place, step as usize, &read)?;
        }
        Ok(0.into())
    }

    /// A helper that gpumap does not model: its result is unknown, and so is
    /// all memory it was handed. One that calls back into the program may
    /// change all that the program may change.
    fn call_unmodelled(&mut self, why: &str, state: &mut MachineState) -> Value {
        for register in 1..6 {
            self.fill(register, None, why, state);
        }
        let calls_back = state.registers[1..6].iter().any(|argument| {
            let is_subprogram =
                |value: &Value| matches!(value, Value::Pointer(to) if matches!(to.base, Base::Subprogram(_)));
            argument.alternatives().iter().any(|(_, value)| is_subprogram(value))
        });
        if calls_back {
            let why = format!("{why}, which calls back into the program");
            state.forget_frames(&Rc::from(why.as_str()));
            self.spoil_all(state, &self.code.unfollowed().clone());
            if self.code.may_touch_retval() {
                state.retval = self.symbols.unknown_word(RETVAL_BITS as u32, &why);
            }
        }
        self.unknown(8, why)
    }
}

/// How many bytes a helper copies that gets their number in r2, if gpumap
/// follows that.
fn bytes_to_read(state: &MachineState) -> Option<i64> {
    let size = state.registers[2].as_constant()? & u64::from(u32::MAX);
    (size <= MOST_COPIED).then_some(size as i64)
}

/// Whether `size` bytes at both addresses are known not to overlap.
fn are_apart(a: &Pointer, b: &Pointer, size: i64) -> bool {
    let distance = a.offset.as_constant().zip(b.offset.as_constant());
    a.base != b.base || distance.is_some_and(|(a, b)| a.abs_diff(b) >= size as u64)
}
