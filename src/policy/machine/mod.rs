//! Runs a program for all questions at once, or follows it for one.
//!
//! Paths that meet again are merged before going on, in the order of the
//! instructions, so a program without loops costs one step an instruction
//! however many paths lead through it.

mod position;
mod straight;
mod unclear;

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::bytecode::{Arithmetic, Operand, Operation};

use super::code::Code;
use super::compute;
use super::diagram::Bdd;
use super::graph::{BlockId, Edge, Graph};
use super::helpers::{self, KernelFunction};
use super::inputs::{self, Symbols};
use super::state::MachineState;
use super::time_limit;
use super::value::{Base, Value};
use super::word::Word;
use super::written::{SpoiledMaps, Written};
use position::{Position, position, slot_of};

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
/// Why a path is not followed that goes on in another program.
pub const ELSEWHERE: &str = "the program continues in another one (tail call)";
/// Bits of the hook's error.
pub const RETVAL_BITS: usize = 32;

/// The inputs of a program besides its own code and maps.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// The id of the cgroup asked about.
    pub cgroup_id: Option<u64>,
    /// Whether the kernel has `bpf_set_retval`.
    pub has_retval: bool,
    /// The one question that is asked; `None` for all of them.
    pub question: Option<u64>,
    /// Diagram operations before gpumap gives up on a program.
    pub budget: u64,
}

/// The decisions of a program, as functions of the question and the fresh bits.
#[derive(Clone, Debug)]
pub struct Decisions {
    /// The questions for which it returns 1.
    pub allows: Bdd,
    /// The error in force after it, 32 bits, before the kernel looks at what
    /// it returned.
    pub retval: Word,
    /// What it may write: the next run does not find there what was observed.
    pub writes: Written,
    /// Whether some of its paths were given up because the run exceeded its limits.
    pub is_cut: bool,
    /// Whether it reads at more places than are told apart; for one question alone it may
    /// be one place.
    pub is_wide: bool,
}

impl Decisions {
    /// The outcome of a program of which nothing is known because of `why`,
    /// but for what it writes.
    pub fn lost(symbols: &mut Symbols, retval: &Word, surroundings: Surroundings, why: &str) -> Self {
        let allows = symbols.lost_word(1, why).bits()[0];
        let retval = match surroundings.has_retval {
            true => symbols.lost_word(RETVAL_BITS as u32, why),
            false => retval.clone(),
        };
        Self { allows, retval, writes: Written::default(), is_cut: false, is_wide: false }
    }
}

/// One executed instruction of a followed run.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its slot.
    pub pc: usize,
    /// The registers before it.
    pub before: Registers,
    /// For a branch, whether it was taken.
    pub taken: Option<bool>,
}

/// The registers before an instruction, and after it where that is known.
pub type Visit = (Registers, Option<Registers>);

/// The values of all registers.
pub type Registers = [Value; super::state::REGISTERS];

/// The end of a followed run.
#[derive(Clone, Debug)]
pub enum End {
    /// At `exit`: whether r0 is not zero, `None` if that depends on something
    /// unknown; and the error in force.
    Exit { allows: Bdd, retval: Word },
    /// It could not be followed, for this reason.
    Lost(String),
}

/// Why a path cannot be followed.
#[derive(Debug)]
pub struct Stop(pub String);

/// The position after a step.
#[expect(clippy::large_enum_variant, reason = "lives for one step, on the stack")]
pub enum Next {
    /// On at this instruction.
    To(usize),
    /// One of two ways.
    Branch {
        /// The questions for which the first is taken.
        condition: Bdd,
        /// The first, with what it starts from.
        taken: (usize, MachineState),
        /// The other position, which continues with the current state.
        otherwise: usize,
    },
    /// The program ends.
    Exit,
}

/// A program's run.
#[derive(Debug)]
pub struct Machine<'a> {
    /// The program.
    pub code: &'a Code<'a>,
    /// The functions and fresh bits; shared by programs that run after each
    /// other.
    pub symbols: &'a mut Symbols,
    /// The other inputs.
    pub surroundings: Surroundings,
    context: [Word; 3],
    graph: Graph,
    block: BlockId,
    /// The one question that is followed, with its cube.
    followed: Option<(u64, Bdd)>,
    pending: BTreeMap<Position, Vec<(Edge, MachineState)>>,
    /// Places in the maps whose contents are unknown from the start.
    written: Rc<SpoiledMaps>,
    /// What the program may write.
    pub writes: Written,
    /// Whether an address was too wide to follow.
    pub is_wide: bool,
    cut_results: Option<Vec<Bdd>>,
    visits: Option<BTreeMap<usize, Visit>>,
    steps: usize,
    why_exhausted: &'static str,
}

impl<'a> Machine<'a> {
    /// A machine for `code`. Contents that are in `written` are unknown.
    pub fn new(
        code: &'a Code<'a>,
        symbols: &'a mut Symbols,
        surroundings: Surroundings,
        written: &Written,
    ) -> Self {
        let context = match surroundings.question {
            Some(bits) => inputs::context_constants(bits),
            None => inputs::context_words(&mut symbols.diagram),
        };
        Self {
            code,
            symbols,
            surroundings,
            context,
            graph: Graph::default(),
            block: 0,
            followed: None,
            pending: BTreeMap::new(),
            written: Rc::new(code.spoiled_by(written)),
            writes: Written::default(),
            is_wide: false,
            cut_results: None,
            visits: None,
            steps: 0,
            why_exhausted: "the program is too complex for gpumap's limits",
        }
    }

    /// Runs the program for all questions, or for the one that is asked. Paths that
    /// exceed the limits get an unknown result; the others keep theirs.
    pub fn run(mut self, retval: &Word) -> Decisions {
        let is_cut = self.all_pieces(retval);
        let outcome = self.outcome(retval, is_cut);
        self.symbols.diagram.set_budget(u64::MAX);
        outcome
    }

    /// Runs all blocks; returns whether some were given up.
    fn all_pieces(&mut self, retval: &Word) -> bool {
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
    fn cut(&mut self) {
        let results = self.cut_results();
        self.graph.exit(self.block, results);
    }

    /// The result of paths that are given up. They share one, because each question
    /// takes one path.
    fn cut_results(&mut self) -> Vec<Bdd> {
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
        self.symbols.diagram.set_budget(if is_single { self.surroundings.budget } else { MAX_FOLD_STEPS });
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
        if self.surroundings.question.is_some() { MAX_STEPS_OF_QUESTION } else { MAX_STEPS }
    }

    /// Why the run has outgrown its limits.
    fn why_exhausted(&self) -> &'static str {
        if self.symbols.diagram.limit().is_over() { time_limit::WHY } else { self.why_exhausted }
    }

    /// Continues where `arrivals` meet. At the end of the program they are not
    /// merged: merging needs guards, which are large for a thousand rules with a
    /// common end.
    fn meet(&mut self, position: Position, arrivals: Vec<(Edge, MachineState)>) {
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
    fn run_block(&mut self, mut pc: usize, mut state: MachineState) {
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

    fn lost_results(&mut self, why: &str) -> Vec<Bdd> {
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

    /// The questions that get to the current instruction.
    pub fn guard(&mut self) -> Bdd {
        match self.followed {
            Some((_, cube)) => cube,
            None => self.graph.guard(self.block, &mut self.symbols.diagram),
        }
    }

    /// The bytes of the program's argument as bits.
    pub fn context_byte(&self, offset: usize) -> Option<[Bdd; 8]> {
        let bits = self.context.get(offset / 4)?.bits();
        Some(std::array::from_fn(|bit| bits[offset % 4 * 8 + bit]))
    }

    fn step(&mut self, pc: usize, state: &mut MachineState) -> Result<Next, Stop> {
        let Some(operation) = self.code.operations.get(pc).copied() else {
            let is_elsewhere = pc == self.code.elsewhere();
            let why = if is_elsewhere { ELSEWHERE } else { "the program runs past its last instruction" };
            return Err(Stop(why.into()));
        };
        match operation {
            Operation::Jump { target } => return Ok(Next::To(target)),
            Operation::Branch { comparison, width, dst, source, target } => {
                let (left, right) = (state.registers[dst].clone(), operand(state, source));
                let condition = compute::condition(comparison, width, &left, &right, self.symbols);
                return Ok(match condition.as_constant() {
                    Some(true) => Next::To(target),
                    Some(false) => Next::To(pc + 1),
                    None => {
                        let mut narrow =
                            |holds| compute::narrowed(comparison, width, &left, &right, holds, self.symbols);
                        let (if_taken, if_not) = (narrow(true), narrow(false));
                        let mut taken = state.clone();
                        taken.registers[dst] = if_taken;
                        state.registers[dst] = if_not;
                        Next::Branch { condition, taken: (target, taken), otherwise: pc + 1 }
                    }
                });
            }
            Operation::CallLocal { target } => {
                if !state.call(pc + 1) {
                    return Err(Stop("calls are nested deeper than the kernel allows".into()));
                }
                return Ok(Next::To(target));
            }
            Operation::Exit => return Ok(self.after_return(state).unwrap_or(Next::Exit)),
            Operation::CallHelper { helper } if helpers::is_tail_call(helper, self.code.symbol(helper)) => {
                return self.tail_call(pc, state);
            }
            Operation::CallHelper { helper } => {
                if let Some(name) = self.code.symbol(helper)
                    && let Some(next) = self.begin_rounds(name, pc, state)
                {
                    return Ok(next);
                }
                self.call_helper(helper, pc, state)?;
            }
            Operation::CallKernel { function } => match self.code.kernel_function(function) {
                Ok(KernelFunction::Throw) if self.code.handles_exceptions() => {
                    return Err(Stop("a function of the program handles its exceptions".into()));
                }
                Ok(KernelFunction::Throw) => {
                    state.registers[0] = state.registers[1].clone();
                    return Ok(Next::Exit);
                }
                Ok(known) => self.call_kernel(known, state)?,
                // It may end the program with a result of its own.
                Err(why) => return Err(Stop(why)),
            },
            Operation::Unsupported { code, why } => {
                return Err(Stop(format!("instruction {pc} (opcode {code:#04x}) is {why}")));
            }
            Operation::Arithmetic {
                kind: Arithmetic::Add,
                width: 64,
                dst: 1,
                source: Operand::Register(11),
            } if state.registers[1].is_constant_address() && self.code.blinded_array(pc).is_some() => {
                state.registers[1] = Value::pointer(Base::Array(0), Word::ZERO);
            }
            Operation::Arithmetic { .. }
            | Operation::Unclear { .. }
            | Operation::SwapBytes { .. }
            | Operation::LoadConstant { .. }
            | Operation::LoadMap { .. }
            | Operation::LoadMapValue { .. }
            | Operation::LoadSubprogram { .. }
            | Operation::LoadUnknown { .. }
            | Operation::Load { .. }
            | Operation::Store { .. }
            | Operation::Atomic { .. }
            | Operation::Nothing => self.straight(pc, operation, state)?,
        }
        Ok(Next::To(pc + operation.slots()))
    }
}

fn operand(state: &MachineState, source: Operand) -> Value {
    match source {
        Operand::Register(register) => state.registers[register].clone(),
        Operand::Immediate(value) => value.into(),
    }
}
