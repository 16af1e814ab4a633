//! Runs a program for all questions within its limits (what does not fit is given up with
//! an unknown result), or follows it for one, or tells what its registers hold everywhere.

use std::collections::BTreeMap;

use super::{Decisions, End, Machine, Next, RETVAL_BITS, Trace, Visit};
use crate::policy::diagram::Bdd;
use crate::policy::state::MachineState;
use crate::policy::word::Word;
use crate::policy::{inputs, time_limit};

/// Instructions before gpumap gives up on a program: some tenths of a second. The
/// verifier visits a million at most, but over many paths.
const MAX_STEPS: usize = if cfg!(fuzzing) { 20_000 } else { 400_000 };

/// The limit of one question: some milliseconds.
const MAX_STEPS_OF_QUESTION: usize = 50_000;

/// Diagram operations for putting the paths of a run together.
const MAX_FOLD_STEPS: u64 = 10_000_000;

/// The most blocks of a run that was cut off whose results are still combined.
const MAX_CUT_PIECES: usize = 1 << 16;

/// Instructions between two looks at the clock.
const CLOCK_STEPS: usize = 256;

impl Machine<'_> {
    /// Runs the program for all questions, or for the one that is asked. Paths that
    /// exceed the limits get an unknown result; the others keep theirs.
    pub fn run(mut self, retval: &Word) -> Decisions {
        let is_cut = self.all_pieces(retval);
        let outcome = self.outcome(retval, is_cut);
        self.symbols.diagram.set_budget(u64::MAX);
        outcome
    }

    /// Runs all blocks; returns whether some were given up.
    pub(super) fn all_pieces(&mut self, retval: &Word) -> bool {
        self.symbols.diagram.set_budget_with_reserve(self.surroundings.budget);
        self.block = self.graph.add(Vec::new());
        self.run_block(0, MachineState::start(retval.clone(), self.written.clone()));
        while !self.is_exhausted()
            && let Some((position, arrivals)) = self.pending.pop_first()
        {
            self.meet(position, arrivals);
        }
        self.is_exhausted() && {
            self.give_up();
            true
        }
    }

    /// Ends the current block because the run has outgrown its limits.
    pub(super) fn cut(&mut self) {
        let results = self.cut_results();
        self.graph.exit(self.block, results);
    }

    /// The result of paths that are given up. They share one, because each question
    /// takes one path.
    pub(super) fn cut_results(&mut self) -> Vec<Bdd> {
        if self.cut_results.is_none() {
            let why = self.why_exhausted().to_owned();
            self.writes.add_all(self.code.unfollowed());
            self.cut_results = Some(self.lost_results(&why));
        }
        self.cut_results.clone().unwrap_or_default()
    }

    /// Ends every path that did not get to its end.
    fn give_up(&mut self) {
        let results = self.cut_results();
        for arrivals in std::mem::take(&mut self.pending).into_values() {
            let block = self.graph.add(arrivals.into_iter().map(|(edge, _)| edge).collect());
            self.graph.exit(block, results.clone());
        }
    }

    fn outcome(&mut self, retval: &Word, is_cut: bool) -> Decisions {
        let is_single = self.surroundings.question.is_some();
        let fold = MAX_FOLD_STEPS * u64::from(self.surroundings.factor);
        self.symbols.diagram.set_budget(if is_single { self.surroundings.budget } else { fold });
        // An endless loop in a file leaves so many blocks that combining them is not
        // worth the time.
        if is_cut && (self.graph.len() > MAX_CUT_PIECES || self.symbols.diagram.limit().is_over()) {
            return self.lost_outcome(retval);
        }
        let diagram = &mut self.symbols.diagram;
        let allows = self.graph.fold(0, diagram);
        let mut after = retval.clone();
        if self.code.may_touch_retval() {
            let mut bits = [Bdd::FALSE; 64];
            for (place, bit) in bits.iter_mut().enumerate().take(RETVAL_BITS) {
                if diagram.limit().is_over() {
                    return self.lost_outcome(retval);
                }
                *bit = self.graph.fold(1 + place, diagram);
            }
            after = Word::from_bits(bits);
        }
        if self.symbols.diagram.exhausted() {
            return self.lost_outcome(retval);
        }
        let writes = std::mem::take(&mut self.writes);
        Decisions { allows, retval: after, writes, is_cut, is_wide: self.is_wide }
    }

    /// The outcome where the paths cannot be put together.
    fn lost_outcome(&mut self, retval: &Word) -> Decisions {
        let writes = std::mem::take(&mut self.writes);
        let why = self.why_exhausted().to_owned();
        self.symbols.diagram.set_budget(u64::MAX);
        let mut outcome = Decisions::lost(self.symbols, retval, self.surroundings, &why);
        outcome.writes = writes;
        Decisions { is_cut: true, ..outcome }
    }

    /// Whether the run has exceeded its limits; then the last step means nothing.
    pub fn is_exhausted(&self) -> bool {
        let is_late = self.steps.is_multiple_of(CLOCK_STEPS) && self.symbols.diagram.limit().is_over();
        is_late || self.steps >= self.most_steps() || self.symbols.diagram.exhausted()
    }

    fn most_steps(&self) -> usize {
        let all = MAX_STEPS * self.surroundings.factor as usize;
        if self.surroundings.question.is_some() { MAX_STEPS_OF_QUESTION } else { all }
    }

    /// Why the run has outgrown its limits.
    pub(super) fn why_exhausted(&self) -> &'static str {
        if self.symbols.diagram.limit().is_over() { time_limit::WHY } else { self.why_exhausted }
    }
}

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
