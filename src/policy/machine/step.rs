//! Carries out one instruction; those after which the next one follows are in
//! `straight`.

use super::super::compute;
use super::super::diagram::Bdd;
use super::super::helpers::{self, KernelFunction};
use super::super::state::{AX, MachineState};
use super::super::value::{Base, Value};
use super::super::word::Word;
use super::{Machine, Next, Stop};
use crate::bytecode::{Arithmetic, Operand, Operation};
use crate::policy::linked::ELSEWHERE;

impl Machine<'_> {
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

    /// Why no instruction is at `pc`.
    fn why_behind(&self, pc: usize) -> String {
        let why = match pc.checked_sub(self.code.elsewhere()) {
            None => "the program runs past its last instruction",
            Some(number) => {
                number.checked_sub(1).and_then(|number| self.code.links.why(number)).unwrap_or(ELSEWHERE)
            }
        };
        why.to_owned()
    }

    pub(super) fn step(&mut self, pc: usize, state: &mut MachineState) -> Result<Next, Stop> {
        let Some(operation) = self.code.operations.get(pc).copied() else {
            return Err(Stop(self.why_behind(pc)));
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
                Ok(known) => {
                    self.call_kernel(known, self.code.symbol(function).unwrap_or_default(), state)?
                }
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
                source: Operand::Register(register),
            } if AX.contains(&register)
                && state.registers[1].is_constant_address()
                && self.code.blinded_array(pc).is_some() =>
            {
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

/// What an instruction gets as its second operand.
pub(super) fn operand(state: &MachineState, source: Operand) -> Value {
    match source {
        Operand::Register(register) => state.registers[register].clone(),
        Operand::Immediate(value) => value.into(),
    }
}
