//! From one branch, meeting point or end to the next: the blocks of a run.

use std::rc::Rc;

use super::super::diagram::Bdd;
use super::super::graph::Edge;
use super::super::state::MachineState;
use super::super::word::Word;
use super::{Machine, Next, Position, RETVAL_BITS, Stop, position, slot_of};
use crate::bytecode::Operation;

impl Machine<'_> {
    /// Continues where `arrivals` meet. At the end of the program they are not
    /// merged: merging needs guards, which are large for a thousand rules with a
    /// common end.
    pub(super) fn meet(&mut self, position: Position, arrivals: Vec<(Edge, MachineState)>) {
        let pc = slot_of(&position);
        if matches!(self.code.operations.get(pc), Some(Operation::Exit)) {
            for arrival in arrivals {
                let state = self.arrive(position, vec![arrival]);
                self.run_block(pc, state);
            }
            return;
        }
        if !arrivals.iter().any(|(_, state)| state.is_called_back()) {
            let state = self.arrive(position, arrivals);
            return self.run_block(pc, state);
        }
        // Helpers that call back with other arguments are other calls.
        let mut rest = arrivals;
        while let Some((_, first)) = rest.first() {
            let first = first.clone();
            let (same, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|(_, state)| state.has_rounds_of(&first));
            rest = others;
            let state = self.arrive(position, same);
            self.run_block(pc, state);
        }
    }

    /// Starts the block where `arrivals` meet.
    fn arrive(&mut self, position: Position, arrivals: Vec<(Edge, MachineState)>) -> MachineState {
        self.block = self.graph.add(arrivals.iter().map(|(edge, _)| *edge).collect());
        // A jump out of the program arrives where nothing is.
        let live = self.code.flow.live.get(slot_of(&position)).copied().unwrap_or(0);
        let mut arrivals = arrivals.into_iter();
        let mut merged = arrivals
            .next()
            .map_or_else(|| MachineState::start(Word::ZERO, Rc::default()), |(_, state)| state);
        for (edge, state) in arrivals {
            if !state.same_as(&merged, live) {
                let guard = self.graph.edge_guard(edge, &mut self.symbols.diagram);
                merged = state.merged_with(&merged, guard, live, self.symbols);
            }
        }
        merged
    }

    /// Runs from `pc` to the next branch, meeting point or exit.
    pub(super) fn run_block(&mut self, mut pc: usize, mut state: MachineState) {
        loop {
            self.steps += 1;
            if self.is_exhausted() {
                return self.cut();
            }
            let next = self.visited_step(pc, &mut state);
            if self.symbols.diagram.exhausted() {
                return self.cut();
            }
            match next {
                Ok(Next::To(target)) if self.is_join(target) => {
                    let edge = Edge { from: self.block, taken: None };
                    return self.send(edge, target, state);
                }
                Ok(Next::To(target)) => pc = target,
                Ok(Next::Branch { condition, taken, otherwise }) => {
                    let Some(next) = self.split(condition, taken, (otherwise, state)) else { return };
                    (pc, state) = next;
                }
                Ok(Next::Exit) => return self.exit(&state),
                Err(stop) => return self.lose(&stop.0),
            }
        }
    }

    fn visited_step(&mut self, pc: usize, state: &mut MachineState) -> Result<Next, Stop> {
        if self.visits.is_none() {
            return self.step(pc, state);
        }
        let before = state.registers.clone();
        let next = self.step(pc, state);
        let after = matches!(next, Ok(Next::To(_))).then(|| state.registers.clone());
        if let Some(visits) = &mut self.visits {
            visits.insert(pc, (before, after));
        }
        next
    }

    fn is_join(&self, pc: usize) -> bool {
        self.code.flow.joins.get(pc).copied().unwrap_or(false)
    }

    /// Ends a block with a branch. Returns the second side if that is the next block
    /// of all that are pending; the others wait for their turn.
    fn split(
        &mut self,
        condition: Bdd,
        (target, taken): (usize, MachineState),
        (otherwise, state): (usize, MachineState),
    ) -> Option<(usize, MachineState)> {
        self.graph.branch(self.block, condition);
        let [if_taken, if_not] = [true, false].map(|side| Edge { from: self.block, taken: Some(side) });
        if self.is_possible(if_taken) {
            self.send(if_taken, target, taken);
        }
        if !self.is_possible(if_not) {
            return None;
        }
        let place = position(&state, otherwise);
        let is_next = self.pending.first_key_value().is_none_or(|(first, _)| place < *first);
        if !is_next || self.is_join(otherwise) {
            self.pending.entry(place).or_default().push((if_not, state));
            return None;
        }
        self.block = self.graph.add(vec![if_not]);
        Some((otherwise, state))
    }

    /// Whether a question may take this side of a branch. This matters in loops: a
    /// side that no question takes would be followed round after round for ever.
    fn is_possible(&mut self, edge: Edge) -> bool {
        if !self.code.flow.loops {
            return true;
        }
        let diagram = &mut self.symbols.diagram;
        self.graph.edge_guard(edge, diagram) != Bdd::FALSE || diagram.exhausted()
    }

    fn send(&mut self, edge: Edge, pc: usize, state: MachineState) {
        let arrivals = self.pending.entry(position(&state, pc));
        // Most places are reached once or twice, and states are large.
        arrivals.or_insert_with(|| Vec::with_capacity(1)).push((edge, state));
    }

    fn exit(&mut self, state: &MachineState) {
        let returned = state.registers[0].word(self.symbols).zero_extended(32);
        let allows = !returned.equal_to(&Word::ZERO, &mut self.symbols.diagram);
        if self.symbols.diagram.exhausted() {
            return self.cut();
        }
        self.finish(allows, &state.retval);
    }

    /// Ends a path with an unknown result. Code after it may write everything that
    /// the program may write.
    fn lose(&mut self, why: &str) {
        self.writes.add_all(self.code.unfollowed());
        let results = self.lost_results(why);
        self.graph.exit(self.block, results);
    }

    pub(super) fn lost_results(&mut self, why: &str) -> Vec<Bdd> {
        let mut results = self.symbols.lost_word(1, why).bits()[..1].to_vec();
        if self.code.may_touch_retval() {
            let retval = self.symbols.lost_word(RETVAL_BITS as u32, why);
            results.extend_from_slice(&retval.bits()[..RETVAL_BITS]);
        }
        results
    }

    fn finish(&mut self, allows: Bdd, retval: &Word) {
        let mut results = vec![allows];
        if self.code.may_touch_retval() {
            results.extend_from_slice(&retval.bits()[..RETVAL_BITS]);
        }
        self.graph.exit(self.block, results);
    }
}
