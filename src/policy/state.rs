//! The state of a running program: everything that its instructions change.

use std::rc::Rc;

use super::diagram::Bdd;
use super::flow::MEMORY;
use super::frame::Frame;
use super::inputs::Symbols;
use super::value::{Base, Value};
use super::word::Word;
use super::written::{Spoil, SpoiledMaps};

/// Registers r0 to r10 and the kernel's own, r11 and r12.
pub const REGISTERS: usize = 13;
/// The kernel's own register, which holds a value for some instructions: r11, and r12 in
/// newer kernels (`BPF_REG_AX`, `linux/filter.h`).
pub const AX: [usize; 2] = [11, 12];
/// The frame pointer.
const R10: usize = 10;
/// Deepest nesting of calls (`MAX_CALL_FRAMES`, `linux/bpf_verifier.h`).
const MAX_FRAMES: usize = 8;

/// The machine between two instructions, for all questions that get here.
#[derive(Clone, Debug)]
pub struct MachineState {
    /// The registers.
    pub registers: [Value; REGISTERS],
    /// Stack frames, the caller's first. A branch shares them with the other side.
    frames: Rc<Vec<Rc<Frame>>>,
    /// The callers: where each continues, and its r6 to r9.
    callers: Vec<Caller>,
    /// The error the hook will return, 32 bits: 0 or a negative errno.
    pub retval: Word,
    /// What may have changed in the program's maps, by position.
    written: Rc<SpoiledMaps>,
    /// How often programs have called others.
    pub tail_calls: TailCalls,
}

/// How often programs have tried to go on in others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailCalls {
    /// Those that the kernel counts for certain.
    pub made: u64,
    /// At most so many more, which it counts in some versions alone: those to nowhere,
    /// and those of functions.
    pub perhaps: u64,
}

/// A helper that is calling back.
#[derive(Clone, Debug, PartialEq)]
pub struct Rounds {
    /// The function's first instruction.
    pub target: usize,
    /// The map whose entries are visited, with the register that names it; `None`
    /// for a plain count.
    pub map: Option<(usize, Value)>,
    /// The number of rounds.
    pub count: u64,
    /// The round that is running.
    pub round: u64,
    /// The argument that the program passes to its function.
    pub argument: Value,
}

#[derive(Clone, Debug, PartialEq)]
struct Caller {
    resume: usize,
    saved: [Value; 4],
    /// The helper that calls, if it is not the program itself.
    rounds: Option<Rounds>,
}

impl MachineState {
    /// The start of a program: r1 is the context, r10 the stack. Contents of its
    /// maps that are in `written` are unknown.
    pub fn start(retval: Word, written: Rc<SpoiledMaps>) -> Self {
        let mut registers = std::array::from_fn(|_| Value::Unset);
        registers[1] = Value::pointer(Base::Context, Word::ZERO);
        registers[R10] = Value::pointer(Base::Stack(0), Word::ZERO);
        let tail_calls = TailCalls::default();
        Self {
            registers,
            frames: Rc::new(vec![Rc::default()]),
            callers: Vec::new(),
            retval,
            written,
            tail_calls,
        }
    }

    /// Goes on in another program, which gets the context and the frame of the function
    /// that calls it. What is on its stack is not known.
    pub fn go_on(&mut self) {
        match self.callers.is_empty() {
            true => self.tail_calls.made += 1,
            false => self.tail_calls.perhaps += 1,
        }
        self.registers.fill(Value::Unset);
        self.registers[1] = Value::pointer(Base::Context, Word::ZERO);
        self.registers[R10] = Value::pointer(Base::Stack(self.frames.len() - 1), Word::ZERO);
        if let Some(frame) = Rc::make_mut(&mut self.frames).last_mut() {
            *frame = Rc::default();
        }
    }

    /// Enters a subprogram; `false` if calls are nested too deep.
    pub fn call(&mut self, resume: usize) -> bool {
        if self.frames.len() == MAX_FRAMES {
            return false;
        }
        let saved = std::array::from_fn(|register| {
            std::mem::replace(&mut self.registers[6 + register], Value::Unset)
        });
        self.callers.push(Caller { resume, saved, rounds: None });
        self.registers[R10] = Value::pointer(Base::Stack(self.frames.len()), Word::ZERO);
        Rc::make_mut(&mut self.frames).push(Rc::default());
        true
    }

    /// Leaves a subprogram; returns where the caller continues, or `None` from the
    /// program itself.
    pub fn ret(&mut self) -> Option<usize> {
        let caller = self.callers.pop()?;
        Rc::make_mut(&mut self.frames).pop();
        for (register, value) in caller.saved.into_iter().enumerate() {
            self.registers[6 + register] = value;
        }
        self.registers[R10] = Value::pointer(Base::Stack(self.frames.len() - 1), Word::ZERO);
        self.registers[1..6].fill(Value::Unset);
        Some(caller.resume)
    }

    /// Sets the registers after a call of a helper: its result, and nothing in r1 to
    /// r5.
    pub fn end_call(&mut self, result: Value) {
        self.registers[0] = result;
        self.registers[1..6].fill(Value::Unset);
    }

    /// Where the callers continue, outermost first, and the round of the helper that
    /// calls.
    pub fn resumes(&self) -> impl Iterator<Item = (usize, u64)> {
        self.callers.iter().map(|caller| (caller.resume, caller.rounds.as_ref().map_or(0, |it| it.round)))
    }

    /// The helper that has called the function that runs.
    pub fn rounds(&self) -> Option<&Rounds> {
        self.callers.last()?.rounds.as_ref()
    }

    /// The function that was just entered is called by a helper.
    pub fn set_rounds(&mut self, rounds: Rounds) {
        if let Some(caller) = self.callers.last_mut() {
            caller.rounds = Some(rounds);
        }
    }

    /// Begins the next round with a fresh frame; where the function begins.
    pub fn next_round(&mut self) -> usize {
        if let Some(frame) = Rc::make_mut(&mut self.frames).last_mut() {
            *frame = Rc::default();
        }
        self.registers[6..R10].fill(Value::Unset);
        let rounds = self.callers.last_mut().and_then(|caller| caller.rounds.as_mut());
        rounds.map_or(0, Rounds::advance)
    }

    /// Whether a helper has called a function that runs.
    pub fn is_called_back(&self) -> bool {
        self.callers.iter().any(|caller| caller.rounds.is_some())
    }

    /// Whether both are called by the same helpers with the same arguments.
    pub fn has_rounds_of(&self, other: &Self) -> bool {
        let rounds = |caller: &Caller| caller.rounds.clone();
        self.callers.iter().map(rounds).eq(other.callers.iter().map(rounds))
    }

    /// The n-th frame.
    pub fn frame(&self, frame: usize) -> Option<&Frame> {
        self.frames.get(frame).map(Rc::as_ref)
    }

    /// The n-th frame, to write to.
    pub fn frame_mut(&mut self, frame: usize) -> Option<&mut Frame> {
        Rc::make_mut(&mut self.frames).get_mut(frame).map(Rc::make_mut)
    }

    /// Forgets what every frame holds, because of `why`.
    pub fn forget_frames(&mut self, why: &Rc<str>) {
        Rc::make_mut(&mut self.frames).iter_mut().for_each(|frame| Rc::make_mut(frame).forget_all(why));
    }

    /// What may have changed in a map; `None` if nothing has.
    pub fn spoiled(&self, map: usize) -> Option<&Spoil> {
        self.written.get(&map)
    }

    /// Remembers that the program may have changed the map.
    pub fn spoil(&mut self, map: usize, spoil: &Spoil) {
        Rc::make_mut(&mut self.written).entry(map).or_default().add(spoil);
    }

    /// Whether both are the same in everything that can still matter: `live`
    /// has a bit for each register that may be read, and one for memory.
    pub fn same_as(&self, other: &Self, live: u16) -> bool {
        live_registers(live).all(|register| self.registers[register] == other.registers[register])
            && (!self.may_read_frames(live)
                || Rc::ptr_eq(&self.frames, &other.frames)
                || self.frames == other.frames)
            && self.callers == other.callers
            && self.retval == other.retval
            && self.written == other.written
            && self.tail_calls == other.tail_calls
    }

    /// Whether some frame may still be read. What a caller reads is not in `live`.
    fn may_read_frames(&self, live: u16) -> bool {
        live & MEMORY != 0 || !self.callers.is_empty()
    }

    /// `self` where `guard` holds and `other` elsewhere; both are in the same
    /// subprogram.
    #[must_use]
    pub fn merged_with(mut self, other: &Self, guard: Bdd, live: u16, symbols: &mut Symbols) -> Self {
        for register in live_registers(live) {
            let value = self.registers[register].merged_with(&other.registers[register], guard, symbols);
            self.registers[register] = value;
        }
        if self.may_read_frames(live) && !Rc::ptr_eq(&self.frames, &other.frames) {
            for (ours, theirs) in Rc::make_mut(&mut self.frames).iter_mut().zip(other.frames.iter()) {
                if ours != theirs {
                    *ours = Rc::new(ours.merged_with(theirs, guard, symbols));
                }
            }
        }
        for (ours, theirs) in self.callers.iter_mut().zip(&other.callers) {
            for (value, theirs) in ours.saved.iter_mut().zip(&theirs.saved) {
                *value = value.merged_with(theirs, guard, symbols);
            }
        }
        self.tail_calls.perhaps = self.tail_calls.perhaps.max(other.tail_calls.perhaps);
        self.retval = Word::ite(guard, &self.retval, &other.retval, &mut symbols.diagram);
        if self.written != other.written {
            other.written.iter().for_each(|(map, spoil)| self.spoil(*map, spoil));
        }
        self
    }
}

fn live_registers(live: u16) -> impl Iterator<Item = usize> {
    (0..REGISTERS).filter(move |register| live >> register & 1 == 1)
}

impl Rounds {
    /// Starts the next round; returns where the function begins.
    pub fn advance(&mut self) -> usize {
        self.round += 1;
        self.target
    }
}
