//! The program that is gone through, what its instructions write where nothing is known of
//! their addresses, and the search that goes through it again and again, until nothing new
//! is found.

use std::collections::BTreeMap;

use crate::bytecode::{Comparison, Operand, Operation};
use crate::policy::address::{AddressSet, Number, Pointee};
use crate::policy::flow::Flow;
use crate::policy::helpers::{self, KernelFunction};
use crate::policy::state::REGISTERS;
use crate::policy::table::Table;
use crate::policy::written::{self, Written};

/// The registers in which functions get what they are handed, r1 to r5.
pub(super) const ARGUMENTS: usize = 5;

/// The frame pointer.
pub(super) const R10: usize = 10;

/// A program to go through.
pub struct Stores<'a> {
    pub operations: &'a [Operation],
    pub flow: &'a Flow,
    pub calls: &'a BTreeMap<i32, String>,
    pub maps: &'a [Table<'a>],
    /// What a store to anywhere may write.
    pub own: &'a Written,
    /// Whether the kernel blinded the program: addresses of maps look like
    /// numbers.
    pub is_blinded: bool,
}

impl Stores<'_> {
    /// The name of a helper.
    pub(super) fn name(&self, helper: i32) -> Option<&str> {
        self.calls.get(&helper).map(String::as_str)
    }

    /// Whether a function of the kernel writes at most to the stack, where iterators are,
    /// and to what was counted before.
    fn writes_no_map(&self, function: i32) -> bool {
        let known = helpers::known_function(self.calls, function);
        known.is_some_and(|known| known != KernelFunction::Slice)
    }

    /// Whether an instruction begins here, not its second slot.
    pub(super) fn is_operation(&self, pc: usize) -> bool {
        pc.checked_sub(1).is_none_or(|before| self.operations[before].slots() == 1)
    }

    /// What these instructions write if their addresses are not known.
    pub(super) fn anywhere(&self, operations: impl Iterator<Item = usize>) -> Written {
        let mut written = Written::default();
        for pc in operations {
            match &self.operations[pc] {
                Operation::Store { base, .. } | Operation::Atomic { base, .. } if *base == R10 => {}
                Operation::Store { .. } | Operation::Atomic { .. } => written.add_all(self.own),
                Operation::CallHelper { helper } => match self.name(*helper) {
                    Some(name) if helpers::is_harmless(name) => {}
                    _ => written.add_all(&written::handed(self.maps, self.own)),
                },
                Operation::CallKernel { function } if self.writes_no_map(*function) => {}
                Operation::CallKernel { .. }
                | Operation::Unsupported { .. }
                | Operation::LoadSubprogram { .. } => {
                    written.add_all(&written::handed(self.maps, self.own));
                }
                Operation::Arithmetic { .. }
                | Operation::Unclear { .. }
                | Operation::SwapBytes { .. }
                | Operation::LoadConstant { .. }
                | Operation::LoadMap { .. }
                | Operation::LoadMapValue { .. }
                | Operation::LoadUnknown { .. }
                | Operation::Load { .. }
                | Operation::Jump { .. }
                | Operation::Branch { .. }
                | Operation::CallLocal { .. }
                | Operation::Exit
                | Operation::Nothing => {}
            }
        }
        written
    }
}

/// Instructions gone through before every store counts as one to anywhere.
const MAX_STEPS: usize = 1 << 20;

/// Times that the program is gone through because more is kept on the stack.
const MAX_ROUNDS: usize = 16;

pub(super) type AddressRegisters = [AddressSet; REGISTERS];

/// A program being gone through.
pub(super) struct Search<'a> {
    pub(super) code: &'a Stores<'a>,
    pub(super) written: Written,
    /// What is kept on any stack.
    pub(super) kept: AddressSet,
    /// What any function returns.
    pub(super) returned: AddressSet,
    /// What a function is handed that a helper calls, by register.
    pub(super) handed: [AddressSet; ARGUMENTS],
    /// What was found where paths meet.
    pub(super) meetings: BTreeMap<usize, AddressRegisters>,
    pub(super) waiting: Vec<(usize, AddressRegisters)>,
    pub(super) seen: Vec<bool>,
    pub(super) steps: usize,
    /// Whether one of the sets for the whole program grew.
    pub(super) has_grown: bool,
    /// Whether all sets are complete, so that what a store reaches is noted.
    pub(super) is_complete: bool,
}

impl<'a> Search<'a> {
    /// Goes through the program; `None` if that takes too long.
    pub(super) fn of(code: &'a Stores<'a>) -> Option<Self> {
        let mut search = Self {
            code,
            written: Written::default(),
            kept: AddressSet::any_number(),
            returned: AddressSet::any_number(),
            handed: std::array::from_fn(|_| AddressSet::any_number()),
            meetings: BTreeMap::new(),
            waiting: Vec::new(),
            seen: vec![false; code.operations.len()],
            steps: 0,
            has_grown: true,
            is_complete: false,
        };
        for _ in 0..MAX_ROUNDS {
            if !std::mem::take(&mut search.has_grown) {
                search.is_complete = true;
                search.go_through(search.meetings.clone())?;
                return Some(search);
            }
            search.meetings.clear();
            search.go_through(BTreeMap::new())?;
        }
        None
    }

    /// Goes through the program from its start and from these meeting points.
    fn go_through(&mut self, meetings: BTreeMap<usize, AddressRegisters>) -> Option<()> {
        self.waiting.extend(meetings);
        self.enter(0, &[(1, Pointee::Argument.into())]);
        while let Some((pc, registers)) = self.waiting.pop() {
            self.go_on(pc, registers)?;
        }
        Some(())
    }

    /// Notes what may be written.
    pub(super) fn note(&mut self, written: &Written) {
        if self.is_complete {
            self.written.add_all(written);
        }
    }

    /// What is written, with the instructions that were never reached.
    pub(super) fn with_unseen(self) -> Written {
        let is_unseen = |pc: &usize| !self.seen[*pc] && self.code.is_operation(*pc);
        let mut written = self.code.anywhere((0..self.code.operations.len()).filter(is_unseen));
        written.add_all(&self.written);
        written
    }

    /// A function begins with these arguments.
    pub(super) fn enter(&mut self, pc: usize, arguments: &[(usize, AddressSet)]) {
        let mut registers: AddressRegisters = std::array::from_fn(|_| AddressSet::any_number());
        registers[R10] = Pointee::Stack.into();
        for (register, argument) in arguments {
            registers[*register] = argument.clone();
        }
        self.arrive(pc, registers);
    }

    /// Goes on at `pc`, if anything new comes of it.
    fn arrive(&mut self, pc: usize, registers: AddressRegisters) {
        if !self.code.flow.joins.get(pc).copied().unwrap_or(false) {
            return self.waiting.push((pc, registers));
        }
        let is_new = match self.meetings.get_mut(&pc) {
            None => {
                self.meetings.insert(pc, registers);
                true
            }
            Some(known) => {
                let joined = known.iter_mut().zip(&registers);
                joined.fold(false, |is_new, (known, register)| known.join(register) | is_new)
            }
        };
        if is_new && let Some(known) = self.meetings.get(&pc) {
            self.waiting.push((pc, known.clone()));
        }
    }

    /// Goes from `pc` to the next meeting point or end. `None` if it has taken
    /// too long.
    fn go_on(&mut self, mut pc: usize, mut registers: AddressRegisters) -> Option<()> {
        loop {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return None;
            }
            let Some(operation) = self.code.operations.get(pc) else { return Some(()) };
            self.seen[pc] = true;
            let next = match *operation {
                Operation::Jump { target } => target,
                Operation::Branch { comparison, width, dst, source, target } => {
                    let mut taken = registers.clone();
                    // Null is not the address that it was on the other side.
                    match (comparison, width, source) {
                        (Comparison::Equal, 64, Operand::Immediate(0)) => {
                            taken[dst] = Number::Exact(0).into()
                        }
                        (Comparison::NotEqual, 64, Operand::Immediate(0)) => {
                            registers[dst] = Number::Exact(0).into();
                        }
                        _ => {}
                    }
                    self.arrive(target, taken);
                    pc + 1
                }
                Operation::Exit => {
                    self.has_grown |= self.returned.join(&registers[0]);
                    return Some(());
                }
                Operation::Unsupported { .. } => {
                    self.note(&written::handed(self.code.maps, self.code.own));
                    return Some(());
                }
                Operation::CallLocal { target } => {
                    let arguments: Vec<(usize, AddressSet)> =
                        (1..6).map(|register| (register, registers[register].clone())).collect();
                    self.enter(target, &arguments);
                    self.end_call(&mut registers, self.returned.clone());
                    pc + 1
                }
                straight => {
                    self.step(straight, &mut registers);
                    pc + straight.slots()
                }
            };
            if self.code.flow.joins.get(next).copied().unwrap_or(false) {
                self.arrive(next, registers);
                return Some(());
            }
            pc = next;
        }
    }

    pub(super) fn end_call(&self, registers: &mut AddressRegisters, result: AddressSet) {
        registers[0] = result;
        registers[1..6].fill(AddressSet::any_number());
    }
}
