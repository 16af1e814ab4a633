//! Runs a program for all questions at once, or follows it for one.
//!
//! Paths that meet again are merged before going on, in the order of the
//! instructions, so a program without loops costs one step an instruction
//! however many paths lead through it.
//!
//! A block waits until all paths that lead to it have been run, except where the program
//! jumps back.

mod blocks;
mod run;
mod step;
mod straight;

use std::collections::BTreeMap;
use std::rc::Rc;

use super::code::Code;
use super::diagram::Bdd;
use super::graph::{BlockId, Edge, Graph};
use super::inputs::{self, Symbols};
use super::state::MachineState;
use super::value::Value;
use super::word::Word;
use super::written::{SpoiledMaps, Written};

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
    /// How many times what is usual the rest may cost.
    pub factor: u32,
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
}

/// Place in the order of execution: the tail calls made, call sites from the outermost,
/// each with the round of a helper that calls back, then the slot. Later numbers run
/// later except where the program jumps back.
pub(super) type Position = [u64; 10];

/// The place of an instruction.
pub(super) fn position(state: &MachineState, pc: usize) -> Position {
    let mut position = [0; 10];
    position[0] = state.tail_calls.made;
    let mut depth = 1;
    for (resume, round) in state.resumes() {
        position[depth] = (resume as u64 * 2 + 1) << 32 | round;
        depth += 1;
    }
    position[depth] = (pc as u64 * 2 + 2) << 32;
    position
}

/// The instruction at a place.
pub(super) fn slot_of(position: &Position) -> usize {
    let last = position.iter().rposition(|place| *place != 0).unwrap_or(1);
    (position[last] >> 33).saturating_sub(1) as usize
}
