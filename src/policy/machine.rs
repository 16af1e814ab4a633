//! Runs a program for all questions at once, or follows it for one.
//!
//! Paths that meet again are merged before going on, in the order of the
//! instructions, so a program without loops costs one step an instruction
//! however many paths lead through it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::bytecode::{Arithmetic, Operand, Operation};

use super::code::Code;
use super::compute;
use super::deadline;
use super::diagram::Bdd;
use super::graph::{Edge, Graph, NodeId};
use super::inputs::{self, Symbols};
use super::state::State;
use super::value::{Base, Value};
use super::word::Word;

/// Instructions run before gpumap gives up on a program.
const MAX_STEPS: usize = 2_000_000;
/// Diagram operations before gpumap gives up on a program: about a second.
const MAX_DIAGRAM_STEPS: u64 = 20_000_000;
/// Instructions between two looks at the clock.
const CLOCK_STEPS: usize = 256;
/// Bits of the hook's error.
pub const RETVAL_BITS: usize = 32;

/// What a program reads besides its own code and maps.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings {
    /// The id of the cgroup asked about.
    pub cgroup_id: Option<u64>,
    /// Whether the kernel has `bpf_set_retval`.
    pub has_retval: bool,
}

/// What a program decides, as functions of the question and the fresh bits.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Where it returns 1.
    pub allows: Bdd,
    /// The error in force after it, 32 bits, before the kernel looks at what
    /// it returned.
    pub retval: Word,
    /// Ids of the maps it may write to: what the next run reads there is not
    /// what was observed.
    pub writes: BTreeSet<u32>,
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

/// How a followed run ended.
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

/// Where to go next.
#[expect(clippy::large_enum_variant, reason = "lives for one step, on the stack")]
enum Next {
    To(usize),
    Branch { condition: Bdd, taken: (usize, State), otherwise: usize },
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
    /// What else it reads.
    pub surroundings: Surroundings,
    context: [Word; 3],
    graph: Graph,
    node: NodeId,
    /// The one question that is followed, with its cube.
    followed: Option<(u64, Bdd)>,
    pending: BTreeMap<Position, Vec<(Edge, State)>>,
    /// Maps not to be trusted from the start.
    written: Rc<BTreeSet<usize>>,
    writes: BTreeSet<u32>,
    visits: Option<BTreeMap<usize, Visit>>,
    steps: usize,
    why_exhausted: &'static str,
}

/// Place in the order of execution: call sites from the outermost, then the
/// slot. Later numbers run later except where the program jumps back.
type Position = [u32; 9];

impl<'a> Machine<'a> {
    /// A machine for `code`. The contents of the maps in `written` (by id) are
    /// not to be trusted.
    pub fn new(
        code: &'a Code<'a>,
        symbols: &'a mut Symbols,
        surroundings: Surroundings,
        written: &BTreeSet<u32>,
    ) -> Self {
        let context = inputs::context_words(&mut symbols.diagram);
        Self {
            code,
            symbols,
            surroundings,
            context,
            graph: Graph::default(),
            node: 0,
            followed: None,
            pending: BTreeMap::new(),
            written: Rc::new(written.iter().filter_map(|id| code.map(*id)).collect()),
            writes: BTreeSet::new(),
            visits: None,
            steps: 0,
            why_exhausted: "the program is too complex for gpumap's limits",
        }
    }

    /// Runs the program for all questions. `Err` is the reason why nothing is
    /// known of the result.
    pub fn run(mut self, retval: &Word) -> Result<Outcome, String> {
        self.all_pieces(retval);
        // What an unfinished run decides is not worth working out.
        let outcome = if self.is_exhausted() { None } else { self.outcome(retval) };
        let outcome = outcome.filter(|_| !self.is_exhausted());
        self.symbols.diagram.set_budget(u64::MAX);
        outcome.ok_or_else(|| self.why_exhausted().to_owned())
    }

    fn all_pieces(&mut self, retval: &Word) {
        self.symbols.diagram.set_budget(MAX_DIAGRAM_STEPS);
        self.node = self.graph.add(Vec::new());
        self.piece(0, State::start(retval.clone(), self.written.clone()));
        while let Some((position, arrivals)) = self.pending.pop_first() {
            if self.is_exhausted() {
                break;
            }
            self.meet(position, arrivals);
        }
    }

    /// The paths folded into one function; `None` if the time is over.
    fn outcome(&mut self, retval: &Word) -> Option<Outcome> {
        let diagram = &mut self.symbols.diagram;
        let allows = self.graph.fold(0, diagram);
        if !self.code.may_touch_retval() {
            let writes = std::mem::take(&mut self.writes);
            return Some(Outcome { allows, retval: retval.clone(), writes });
        }
        let mut bits = [Bdd::FALSE; 64];
        for (place, bit) in bits.iter_mut().enumerate().take(RETVAL_BITS) {
            if deadline::is_over() {
                return None;
            }
            *bit = self.graph.fold(1 + place, diagram);
        }
        Some(Outcome { allows, retval: Word::from_bits(bits), writes: std::mem::take(&mut self.writes) })
    }

    /// Whether the run has outgrown its limits; its results mean nothing then.
    pub fn is_exhausted(&self) -> bool {
        let is_late = self.steps.is_multiple_of(CLOCK_STEPS) && deadline::is_over();
        is_late || self.steps >= MAX_STEPS || self.symbols.diagram.exhausted()
    }

    /// Why the run has outgrown its limits.
    fn why_exhausted(&self) -> &'static str {
        if deadline::is_over() { deadline::WHY } else { self.why_exhausted }
    }

    /// Goes on where `arrivals` meet. At the end of the program nothing is
    /// gained by merging them, and merging needs guards, which of a thousand
    /// rules with a common end are large.
    fn meet(&mut self, position: Position, arrivals: Vec<(Edge, State)>) {
        let pc = slot_of(&position);
        if matches!(self.code.operations.get(pc), Some(Operation::Exit)) {
            for arrival in arrivals {
                let state = self.arrive(position, vec![arrival]);
                self.piece(pc, state);
            }
        } else {
            let state = self.arrive(position, arrivals);
            self.piece(pc, state);
        }
    }

    /// Starts the piece where `arrivals` meet.
    fn arrive(&mut self, position: Position, arrivals: Vec<(Edge, State)>) -> State {
        self.node = self.graph.add(arrivals.iter().map(|(edge, _)| *edge).collect());
        // A jump out of the program arrives where nothing is.
        let live = self.code.flow.live.get(slot_of(&position)).copied().unwrap_or(0);
        let mut arrivals = arrivals.into_iter();
        let mut merged =
            arrivals.next().map_or_else(|| State::start(Word::ZERO, Rc::default()), |(_, state)| state);
        for (edge, state) in arrivals {
            if !state.same_as(&merged, live) {
                let guard = self.graph.edge_guard(edge, &mut self.symbols.diagram);
                merged = state.merged_with(&merged, guard, live, self.symbols);
            }
        }
        merged
    }

    /// Runs from `pc` to the next branch, meeting point or exit.
    fn piece(&mut self, mut pc: usize, mut state: State) {
        loop {
            self.steps += 1;
            if self.is_exhausted() {
                return;
            }
            let next = self.visited_step(pc, &mut state);
            match next {
                Ok(Next::To(target)) if self.is_join(target) => {
                    let edge = Edge { from: self.node, taken: None };
                    return self.send(edge, target, state);
                }
                Ok(Next::To(target)) => pc = target,
                Ok(Next::Branch { condition, taken: (target, taken), otherwise }) => {
                    return self.split(condition, (target, taken), (otherwise, state));
                }
                Ok(Next::Exit) => return self.exit(&state),
                Err(stop) => return self.lose(&stop.0),
            }
        }
    }

    fn visited_step(&mut self, pc: usize, state: &mut State) -> Result<Next, Stop> {
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

    fn split(&mut self, condition: Bdd, taken: (usize, State), otherwise: (usize, State)) {
        self.graph.branch(self.node, condition);
        for (side, (pc, state)) in [(true, taken), (false, otherwise)] {
            let edge = Edge { from: self.node, taken: Some(side) };
            // In a loop, a side that no question takes would never end.
            if self.code.flow.loops && self.graph.edge_guard(edge, &mut self.symbols.diagram) == Bdd::FALSE {
                continue;
            }
            self.send(edge, pc, state);
        }
    }

    fn send(&mut self, edge: Edge, pc: usize, state: State) {
        self.pending.entry(position(&state, pc)).or_default().push((edge, state));
    }

    fn exit(&mut self, state: &State) {
        let returned = state.registers[0].word(self.symbols).zero_extended(32);
        let allows = !returned.equal_to(&Word::ZERO, &mut self.symbols.diagram);
        self.finish(allows, &state.retval);
    }

    /// Ends a path whose result is unknown.
    fn lose(&mut self, why: &str) {
        let allows = self.symbols.unknown_bit(why);
        let retval = self.symbols.unknown_word(RETVAL_BITS as u32, why);
        self.finish(allows, &retval);
    }

    fn finish(&mut self, allows: Bdd, retval: &Word) {
        let mut results = vec![allows];
        if self.code.may_touch_retval() {
            results.extend_from_slice(&retval.bits()[..RETVAL_BITS]);
        }
        self.graph.exit(self.node, results);
    }

    /// Follows the program for the one question `bits`.
    pub fn follow(mut self, bits: u64, retval: &Word) -> (Vec<Trace>, End) {
        self.followed = Some((bits, inputs::only(&mut self.symbols.diagram, bits)));
        self.symbols.diagram.set_budget(MAX_DIAGRAM_STEPS);
        let mut state = State::start(retval.clone(), self.written.clone());
        let (mut trace, mut pc) = (Vec::new(), 0);
        let end = loop {
            self.steps += 1;
            if self.is_exhausted() {
                break End::Lost(self.why_exhausted().to_owned());
            }
            trace.push(Trace { pc, before: state.registers.clone(), taken: None });
            match self.step(pc, &mut state) {
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

    /// Runs the program for all questions and tells for every instruction that
    /// is reached the registers before it and, where the next instruction
    /// follows at once, after it.
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
            None => self.graph.guard(self.node, &mut self.symbols.diagram),
        }
    }

    /// Remembers that the program may write to `maps`, here and in every run.
    pub fn mark_written(&mut self, state: &mut State, maps: impl IntoIterator<Item = usize>) {
        for map in maps {
            self.writes.extend(self.code.maps.get(map).map(|table| table.id));
            state.mark_written(map);
        }
    }

    /// The bytes of the program's argument as bits.
    pub fn context_byte(&self, offset: usize) -> Option<[Bdd; 8]> {
        let bits = self.context.get(offset / 4)?.bits();
        Some(std::array::from_fn(|bit| bits[offset % 4 * 8 + bit]))
    }

    fn step(&mut self, pc: usize, state: &mut State) -> Result<Next, Stop> {
        let Some(operation) = self.code.operations.get(pc).copied() else {
            return Err(Stop("the program runs past its last instruction".into()));
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
            Operation::Exit => return Ok(state.ret().map_or(Next::Exit, Next::To)),
            Operation::CallHelper { helper } => self.call_helper(pc, helper, state)?,
            Operation::Unsupported(why) => return Err(Stop(format!("instruction {pc} is {why}"))),
            Operation::Arithmetic {
                kind: Arithmetic::Add,
                width: 64,
                dst: 1,
                source: Operand::Register(11),
            } if is_kernel_address(&state.registers[1]) && self.code.blinded_array(pc).is_some() => {
                state.registers[1] = Value::pointer(Base::Array(0), Word::ZERO);
            }
            _ => self.straight(operation, state)?,
        }
        Ok(Next::To(pc + operation.slots()))
    }

    /// Operations after which the next instruction follows.
    fn straight(&mut self, operation: Operation, state: &mut State) -> Result<(), Stop> {
        match operation {
            // The idiom for zero, whatever the register held.
            Operation::Arithmetic { kind: Arithmetic::Xor | Arithmetic::Sub, dst, source, .. }
                if source == Operand::Register(dst) =>
            {
                state.registers[dst] = 0.into();
            }
            Operation::Arithmetic { kind, width, dst, source } => {
                let right = operand(state, source);
                state.registers[dst] =
                    compute::arithmetic(kind, width, &state.registers[dst], &right, self.symbols);
            }
            Operation::SwapBytes { dst, width, reverse } => {
                let word = state.registers[dst].word(self.symbols);
                let word = if reverse { word.bytes_swapped(width) } else { word.zero_extended(width) };
                state.registers[dst] = Value::Scalar(word);
            }
            Operation::LoadConstant { dst, value } => state.registers[dst] = value.into(),
            Operation::LoadMap { dst, map } => {
                state.registers[dst] = match self.code.map(map) {
                    Some(place) => Value::pointer(Base::MapObject(place), Word::ZERO),
                    None => Value::Scalar(self.symbols.unknown_word(64, &missing_map(map))),
                };
            }
            Operation::LoadMapValue { dst, map, offset } => {
                state.registers[dst] = match self.code.map(map) {
                    Some(place) => Value::pointer(Base::Array(place), Word::Constant(offset.into())),
                    None => Value::Scalar(self.symbols.unknown_word(64, &missing_map(map))),
                };
            }
            Operation::LoadSubprogram { dst } => {
                state.registers[dst] = Value::pointer(Base::Subprogram, Word::ZERO);
            }
            Operation::LoadUnknown { dst } => {
                let unknown = self.symbols.unknown_word(64, "it depends on a kernel variable");
                state.registers[dst] = Value::Scalar(unknown);
            }
            Operation::Load { dst, base, offset, size, signed } => {
                let loaded = self.load(state, &state.registers[base], offset.into(), size);
                state.registers[dst] = match (signed, &loaded) {
                    (true, _) => Value::Scalar(loaded.word(self.symbols).sign_extended(size * 8)),
                    (false, _) => loaded,
                };
            }
            Operation::Store { base, offset, size, source } => {
                let value = operand(state, source);
                let address = state.registers[base].clone();
                self.store(state, &address, offset.into(), size, &value)?;
            }
            Operation::Atomic { kind, base, offset, size, source, fetches } => {
                self.atomic(kind, (base, offset.into(), size), source, fetches, state)?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether a register holds an address in the kernel's half as a constant.
pub fn is_kernel_address(value: &Value) -> bool {
    value.as_constant().is_some_and(|address| address >> 48 == 0xffff)
}

fn missing_map(id: u32) -> String {
    format!("map {id} is not part of the observation")
}

fn operand(state: &State, source: Operand) -> Value {
    match source {
        Operand::Register(register) => state.registers[register].clone(),
        Operand::Immediate(value) => value.into(),
    }
}

fn position(state: &State, pc: usize) -> Position {
    let mut position = [0; 9];
    let mut depth = 0;
    for resume in state.resumes() {
        position[depth] = resume as u32 * 2 + 1;
        depth += 1;
    }
    position[depth] = pc as u32 * 2 + 2;
    position
}

fn slot_of(position: &Position) -> usize {
    let last = position.iter().rposition(|place| *place != 0).unwrap_or(0);
    (position[last] / 2).saturating_sub(1) as usize
}
