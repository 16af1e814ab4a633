//! Follows a program for one question, or tells what its registers hold everywhere.

use std::collections::BTreeMap;

use super::super::inputs;
use super::super::state::MachineState;
use super::super::word::Word;
use super::{End, Machine, Next, Trace, Visit};

impl Machine<'_> {
    /// Follows the program for the one question `bits`.
    pub fn follow(mut self, bits: u64, retval: &Word) -> (Vec<Trace>, End) {
        self.followed = Some((bits, inputs::only(&mut self.symbols.diagram, bits)));
        self.symbols.diagram.set_budget_with_reserve(self.surroundings.budget);
        let mut state = MachineState::start(retval.clone(), self.written.clone());
        let (mut trace, mut pc) = (Vec::new(), 0);
        let end = loop {
            self.steps += 1;
            if self.is_exhausted() {
                break End::Lost(self.why_exhausted().to_owned());
            }
            trace.push(Trace { pc, before: state.registers.clone(), taken: None });
            let next = self.step(pc, &mut state);
            if self.symbols.diagram.exhausted() {
                break End::Lost(self.why_exhausted().to_owned());
            }
            match next {
                Ok(Next::To(target)) => pc = target,
                Ok(Next::Branch { condition, taken: (target, taken), otherwise }) => {
                    let Some(holds) = self.symbols.diagram.evaluate(condition, bits) else {
                        break End::Lost(self.symbols.why_open(condition, bits));
                    };
                    if let Some(last) = trace.last_mut() {
                        last.taken = Some(holds);
                    }
                    (pc, state) = if holds { (target, taken) } else { (otherwise, state) };
                }
                Ok(Next::Exit) => {
                    let returned = state.registers[0].word(self.symbols).zero_extended(32);
                    let allows = !returned.equal_to(&Word::ZERO, &mut self.symbols.diagram);
                    break End::Exit { allows, retval: state.retval };
                }
                Err(stop) => break End::Lost(stop.0),
            }
        };
        self.symbols.diagram.set_budget(u64::MAX);
        (trace, end)
    }

    /// Runs the program for all questions and returns, for every instruction that is
    /// reached, the registers before it and, if the next instruction follows
    /// directly, after it.
    pub fn visits(mut self) -> BTreeMap<usize, Visit> {
        self.visits = Some(BTreeMap::new());
        self.all_pieces(&Word::ZERO);
        self.symbols.diagram.set_budget(u64::MAX);
        self.visits.unwrap_or_default()
    }
}
