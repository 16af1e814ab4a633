//! Calls that go on elsewhere: functions of the program that a helper calls again and
//! again, and tail calls, which go on in other programs (`linked`).
//!
//! `bpf_loop` and `bpf_for_each_map_elem` (`kernel/bpf/bpf_iter.c`,
//! `kernel/bpf/arraymap.c`, `kernel/bpf/hashtab.c`) run each round like a call of the
//! function; a result other than 0 ends the helper. Entries of a hash table are gone
//! through in the order in which the kernel lists them to user space: both walk the same
//! buckets.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::diagram::Bdd;
use super::linked::{Called, MOST_TAIL_CALLS};
use super::machine::{Machine, Next, Stop};
use super::state::{MachineState, Rounds, TailCalls};
use super::table::TableKind;
use super::value::{Base, Holds, Selection, Value};
use super::word::Word;

/// Most rounds of `bpf_loop` (`BPF_MAX_LOOPS`, `linux/bpf.h`).
const MAX_LOOPS: u64 = 8 << 20;

const EINVAL: i64 = 22;

const E2BIG: i64 = 7;

impl Machine<'_> {
    /// Starts the rounds of the helper `name`; `None` if it calls nothing back
    /// in a way that is modelled.
    pub(super) fn begin_rounds(&mut self, name: &str, pc: usize, state: &mut MachineState) -> Option<Next> {
        let (map, count) = match name {
            "bpf_loop" => (None, state.registers[1].as_constant()? & u64::from(u32::MAX)),
            // Older kernels call the helper by its own name (Linux 5.15), which calls the map's.
            "bpf_for_each_array_elem" | "bpf_for_each_hash_elem" | "bpf_for_each_map_elem" => {
                let map = self.map_argument(&state.registers[1])?;
                (Some((map, state.registers[1].clone())), self.entries_to_visit(map, state)?)
            }
            _ => return None,
        };
        let Value::Pointer(function) = &state.registers[2] else { return None };
        let Base::Subprogram(target) = function.base else { return None };
        let Some(flags) = state.registers[4].as_constant() else {
            return self.begin_rounds_by_flags(name, pc, state);
        };
        let failed = match (flags, &map) {
            (0, None) if count > MAX_LOOPS => Some(E2BIG),
            (0, _) => None,
            _ => Some(EINVAL),
        };
        let argument = state.registers[3].clone();
        if failed.is_some() || count == 0 {
            state.end_call(failed.map_or(0, |error| (-error).cast_unsigned()).into());
            return Some(Next::To(pc + 1));
        }
        if !state.call(pc + 1) {
            return None;
        }
        state.set_rounds(Rounds { target, map, count, round: 0, argument });
        self.set_arguments(state);
        Some(Next::To(target))
    }

    /// The same where the flags depend on the question: with any flag the helper fails
    /// before the first round.
    fn begin_rounds_by_flags(&mut self, name: &str, pc: usize, state: &mut MachineState) -> Option<Next> {
        let Value::Scalar(flags) = state.registers[4].clone() else { return None };
        let mut failed = state.clone();
        failed.end_call((-EINVAL).cast_unsigned().into());
        let mut started = state.clone();
        started.registers[4] = 0.into();
        let Some(Next::To(otherwise)) = self.begin_rounds(name, pc, &mut started) else { return None };
        *state = started;
        let condition = !flags.equal_to(&Word::ZERO, &mut self.symbols.diagram);
        Some(Next::Branch { condition, taken: (pc + 1, failed), otherwise })
    }

    /// How many entries the kernel visits, if each is known.
    fn entries_to_visit(&self, map: usize, state: &MachineState) -> Option<u64> {
        let table = &self.code.maps[map];
        let entries = table.entries.as_ref().ok()?;
        let has_new_keys = state.spoiled(map).is_some_and(|spoil| spoil.keys);
        match table.kind {
            TableKind::Array => Some(table.max_entries),
            TableKind::Hash if !has_new_keys => Some(entries.len() as u64),
            _ => None,
        }
    }

    /// r1 to r5 of the round that begins.
    fn set_arguments(&mut self, state: &mut MachineState) {
        let Some(rounds) = state.rounds().cloned() else { return };
        let (r1, r2, r3, r4) = match &rounds.map {
            None => (rounds.round.into(), rounds.argument, 0.into(), 0.into()),
            Some((map, value)) => {
                let (key, found) = self.visited(*map, rounds.round);
                (value.clone(), key, found, rounds.argument)
            }
        };
        for (register, value) in [(1, r1), (2, r2), (3, r3), (4, r4), (5, 0.into())] {
            state.registers[register] = value;
        }
    }

    /// Key and value of the entry that is visited.
    fn visited(&self, map: usize, round: u64) -> (Value, Value) {
        let table = &self.code.maps[map];
        if table.kind == TableKind::Array && !table.per_cpu {
            let key = Rc::from((round as u32).to_le_bytes().as_slice());
            let place = Word::Constant(round.wrapping_mul(table.stride() as u64));
            return (Value::pointer(Base::Bytes(key), Word::ZERO), Value::pointer(Base::Array(map), place));
        }
        let entry = round as usize;
        let key = table.entries.as_ref().ok().and_then(|entries| entries.get(entry));
        let key = key.map_or(Rc::from([].as_slice()), |entry| Rc::from(entry.key.0.as_slice()));
        let holds = if table.per_cpu { Holds::PerCpu } else { Holds::Values };
        let selection = Rc::new(Selection { map, holds, hits: Some(vec![(Bdd::TRUE, entry)]) });
        let value = Value::pointer(Base::MapValue(selection), Word::ZERO);
        (Value::pointer(Base::Bytes(key), Word::ZERO), value)
    }

    /// The position after a function has returned: the next round of the helper that
    /// called it, or the program. `None` if the function is the program.
    pub(super) fn after_return(&mut self, state: &mut MachineState) -> Option<Next> {
        let Some(rounds) = state.rounds() else { return state.ret().map(Next::To) };
        let returned = state.registers[0].word(self.symbols);
        let stops = !returned.equal_to(&Word::ZERO, &mut self.symbols.diagram);
        let (round, is_last) = (rounds.round, rounds.round + 1 >= rounds.count);
        if stops == Bdd::TRUE || is_last {
            // The result counts the rounds, the one that stopped included.
            return self.end_rounds(state, round + 1);
        }
        if stops == Bdd::FALSE {
            return Some(Next::To(self.next_round(state)));
        }
        let mut stopped = state.clone();
        let Some(Next::To(resume)) = self.end_rounds(&mut stopped, round + 1) else { return None };
        let target = self.next_round(state);
        Some(Next::Branch { condition: stops, taken: (resume, stopped), otherwise: target })
    }

    fn next_round(&mut self, state: &mut MachineState) -> usize {
        let target = state.next_round();
        self.set_arguments(state);
        target
    }

    fn end_rounds(&mut self, state: &mut MachineState, rounds: u64) -> Option<Next> {
        let resume = state.ret()?;
        state.end_call(rounds.into());
        Some(Next::To(resume))
    }
}

/// The ways out of a tail call: the slot, and for which questions it leads there.
type Ways = BTreeMap<usize, Bdd>;

impl Machine<'_> {
    /// A tail call. Where the map of programs has no program at the index, the program
    /// continues after the call (`__bpf_tail_call`, `kernel/bpf/core.c`). Of several
    /// ways one is taken; the others are asked for again at the same place.
    pub fn tail_call(&mut self, pc: usize, state: &mut MachineState) -> Result<Next, Stop> {
        let TailCalls { made, perhaps } = state.tail_calls;
        let is_over = made + perhaps >= MOST_TAIL_CALLS as u64;
        if is_over && perhaps > 0 {
            let why = format!("it depends on how this kernel counts more than {MOST_TAIL_CALLS} tail calls");
            return Err(Stop(why));
        }
        let ways = if is_over { Ways::new() } else { self.ways(state) };
        let here = self.guard();
        let (mut possible, mut stays) = (Vec::new(), here);
        for (target, condition) in ways {
            let diagram = &mut self.symbols.diagram;
            if diagram.and(here, condition) != Bdd::FALSE {
                possible.push((target, condition));
            }
            stays = diagram.and(stays, !condition);
        }
        let Some((target, condition)) = possible.first().copied() else {
            state.end_call(Value::Unset);
            state.tail_calls.perhaps += 1;
            return Ok(Next::To(pc + 1));
        };
        let mut taken = state.clone();
        taken.go_on();
        if possible.len() == 1 && stays == Bdd::FALSE {
            *state = taken;
            return Ok(Next::To(target));
        }
        Ok(Next::Branch { condition, taken: (target, taken), otherwise: pc })
    }

    /// Where a tail call may lead, but for the next instruction.
    fn ways(&mut self, state: &MachineState) -> Ways {
        let code = self.code;
        let index = state.registers[3].word(self.symbols).zero_extended(32);
        let mut ways = Ways::new();
        for (guard, argument) in state.registers[2].alternatives() {
            // A function that a helper calls does not come back to it.
            let programs = self.map_argument(&argument).filter(|_| !state.is_called_back());
            let Some(programs) = programs.and_then(|map| code.maps[map].programs()) else {
                self.add_way(&mut ways, code.elsewhere(), guard);
                continue;
            };
            for (program, indices) in programs {
                let target = match code.links.called(program) {
                    Some(Called::At(begin)) => *begin,
                    Some(Called::Lost(why)) => code.elsewhere() + 1 + why,
                    None => code.elsewhere(),
                };
                for place in indices {
                    let is_this = index.equal_to(&Word::Constant(place.into()), &mut self.symbols.diagram);
                    let is_this = self.symbols.diagram.and(guard, is_this);
                    self.add_way(&mut ways, target, is_this);
                }
            }
        }
        ways
    }

    fn add_way(&mut self, ways: &mut Ways, target: usize, condition: Bdd) {
        let known = ways.entry(target).or_insert(Bdd::FALSE);
        *known = self.symbols.diagram.or(*known, condition);
    }
}
