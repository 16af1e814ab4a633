//! Functions of the kernel that programs call (kfuncs), as far as gpumap runs them.
//! Most change nothing that a program sees.
//!
//! The others are open-coded iterators. That over numbers, which `bpf_for` writes, is
//! eight bytes on the program's stack: the current number and the end, 32 bits each
//! (`bpf_iter_num_new`, `_next` and `_destroy`, `kernel/bpf/bpf_iter.c`, Linux 6.4).
//! `bit_iterator` is that over the set bits of a word.

use super::calls::DYNPTR;
use super::helpers::KernelFunction;
use super::machine::{Machine, Stop};
use super::state::MachineState;
use super::value::{Base, Value};
use super::word::Word;

/// Bytes in which a function keeps whether interrupts were off (`unsigned long`).
const SAVED_FLAGS: u64 = 8;
/// Most numbers that an iterator goes through (`BPF_MAX_LOOPS`, `linux/bpf.h`).
const MAX_LOOPS: u64 = 8 << 20;

impl Machine<'_> {
    /// Runs a function of the kernel and sets r0 to r5 as the call leaves them.
    pub(super) fn call_kernel(
        &mut self,
        function: KernelFunction,
        name: &str,
        state: &mut MachineState,
    ) -> Result<(), Stop> {
        let why = &format!("it depends on the kernel function {name}");
        let result = match function {
            KernelFunction::Harmless | KernelFunction::Throw => self.unknown(8, why),
            KernelFunction::Object => self.scratch_or_null(why),
            KernelFunction::SavesFlags(register) => {
                self.fill(register, Some(SAVED_FLAGS), "it depends on the flags of the processor", state);
                self.unknown(8, why)
            }
            KernelFunction::CopiesDynptr => {
                self.fill(2, Some(DYNPTR), why, state);
                self.unknown(8, why)
            }
            KernelFunction::Slice => {
                let size = state.registers[4].as_constant();
                self.fill(3, size, why, state);
                self.scratch_or_null(why)
            }
            KernelFunction::NewIterator
            | KernelFunction::NextNumber
            | KernelFunction::DestroyIterator
            | KernelFunction::NewBits
            | KernelFunction::NextBit
            | KernelFunction::DestroyBits => self.iterate(function, state)?,
        };
        state.end_call(result);
        Ok(())
    }

    fn iterate(&mut self, function: KernelFunction, state: &mut MachineState) -> Result<Value, Stop> {
        let iterator = state.registers[1].clone();
        let is_stack = matches!(&iterator, Value::Pointer(to) if matches!(to.base, Base::Stack(_)));
        if !is_stack {
            return Err(Stop("an iterator is not on the stack".into()));
        }
        match function {
            KernelFunction::NewIterator => self.new_iterator(&iterator, state),
            KernelFunction::NextNumber => self.next_number(&iterator, state),
            KernelFunction::NewBits => self.new_bits(&iterator, state),
            KernelFunction::NextBit => self.next_bit(&iterator, state),
            KernelFunction::DestroyBits => {
                self.store(state, &iterator, 0, 8, &0.into())?;
                Ok(Value::Unset)
            }
            _ => {
                self.set_iterator(&iterator, &Word::ZERO, &Word::ZERO, state)?;
                Ok(Value::Unset)
            }
        }
    }

    fn new_iterator(&mut self, iterator: &Value, state: &mut MachineState) -> Result<Value, Stop> {
        let start = state.registers[2].word(self.symbols).sign_extended(32);
        let end = state.registers[3].word(self.symbols).sign_extended(32);
        let diagram = &mut self.symbols.diagram;
        let count = end.sub(&start, diagram);
        let is_backward = end.signed_less_than(&start, diagram);
        let is_long = Word::Constant(MAX_LOOPS).less_than(&count, diagram);
        let is_wrong = diagram.or(is_backward, is_long);
        let before = start.sub(&Word::Constant(1), diagram);
        let current = Word::ite(is_wrong, &Word::ZERO, &before, diagram);
        let end = Word::ite(is_wrong, &Word::ZERO, &end, diagram);
        self.set_iterator(iterator, &current, &end, state)?;
        // The upper half of a negative int is what the compiler left there.
        let error = self.unknown(8, "it depends on an error of bpf_iter_num_new");
        Ok(error.merged_with(&0.into(), is_wrong, self.symbols))
    }

    fn next_number(&mut self, iterator: &Value, state: &mut MachineState) -> Result<Value, Stop> {
        let current = self.load(state, iterator, 0, 4).word(self.symbols);
        let end = self.load(state, iterator, 4, 4).word(self.symbols);
        let diagram = &mut self.symbols.diagram;
        let next = current.add(&Word::Constant(1), diagram).sign_extended(32);
        let is_over = !next.signed_less_than(&end.sign_extended(32), diagram);
        let current = Word::ite(is_over, &Word::ZERO, &next, diagram);
        let end = Word::ite(is_over, &Word::ZERO, &end, diagram);
        self.set_iterator(iterator, &current, &end, state)?;
        let alternatives = vec![(!is_over, iterator.clone()), (is_over, 0.into())];
        Ok(Value::of_alternatives(alternatives, self.symbols))
    }

    fn set_iterator(
        &mut self,
        iterator: &Value,
        current: &Word,
        end: &Word,
        state: &mut MachineState,
    ) -> Result<(), Stop> {
        self.store(state, iterator, 0, 4, &Value::Scalar(current.clone()))?;
        self.store(state, iterator, 4, 4, &Value::Scalar(end.clone()))
    }
}
