//! Goes on in other programs: tail calls.

use std::collections::BTreeMap;

use super::diagram::Bdd;
use super::links::{Called, MOST_TAIL_CALLS};
use super::machine::{Machine, Next, Stop};
use super::state::{MachineState, TailCalls};
use super::value::Value;
use super::word::Word;

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
