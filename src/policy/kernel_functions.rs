//! Functions of the kernel that programs call (kfuncs), as far as gpumap runs them.
//! Most change nothing that a program sees. The others are open-coded iterators.
//!
//! That over numbers, which `bpf_for` writes, is eight bytes on the program's stack: the
//! current number and the end, 32 bits each (`bpf_iter_num_new`, `_next` and `_destroy`,
//! `kernel/bpf/bpf_iter.c`, Linux 6.4).
//!
//! That over the set bits of a word (`bpf_iter_bits_new`, `_next` and `_destroy`,
//! `kernel/bpf/helpers.c`, Linux 6.11) is sixteen. No program reads them, so here they are
//! the bits that are left, whether the places of the bits are not known, and the place of
//! the current one, which is where the kernel has it. More words than one are in memory of
//! the kernel's own, and are not followed.

use super::calls::DYNPTR;
use super::compute;
use super::diagram::Bdd;
use super::helpers::KernelFunction;
use super::machine::{Machine, Stop};
use super::state::MachineState;
use super::value::{Base, Value};
use super::word::Word;
use crate::bytecode::Arithmetic;

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

/// Where an iterator has whether the places of its bits are not known.
const HAS_NO_PLACES: i64 = 8;

/// Where it has the place of the current bit.
const CURRENT_BIT: i64 = 12;

impl Machine<'_> {
    /// `bpf_iter_bits_new`.
    pub(super) fn new_bits(&mut self, iterator: &Value, state: &mut MachineState) -> Result<Value, Stop> {
        if state.registers[3].as_constant().map(|words| words as u32) != Some(1) {
            return Err(Stop("the program goes through the bits of other memory than one word".into()));
        }
        let from = state.registers[2].clone();
        let is_own = matches!(&from, Value::Pointer(from) if self.is_own_memory(from, 8));
        let (bits, result) = match is_own {
            true => (self.load(state, &from, 0, 8), 0.into()),
            // Where nothing can be read, no bits are left.
            false => {
                let why = "it depends on memory of the kernel";
                (self.unknown(8, why), self.unknown(8, why))
            }
        };
        self.begin_bits(iterator, &bits, state)?;
        Ok(result)
    }

    /// A word of which nobody knows how many bits are set. They are the low ones, so that
    /// the bits that are left after any number of rounds have a small diagram.
    fn unknown_count(&mut self, why: &str) -> Word {
        let mut bits = self.symbols.unknown_word(64, why).bits();
        for place in 1..64 {
            bits[place] = self.symbols.diagram.and(bits[place], bits[place - 1]);
        }
        Word::from_bits(bits)
    }

    fn begin_bits(&mut self, iterator: &Value, bits: &Value, state: &mut MachineState) -> Result<(), Stop> {
        let bits = bits.word(self.symbols);
        let why = self.symbols.why_plainly_unknown(&bits);
        let bits = why.as_deref().map_or(bits, |why| self.unknown_count(why));
        self.store(state, iterator, 0, 8, &Value::Scalar(bits))?;
        self.store(state, iterator, HAS_NO_PLACES, 4, &u64::from(why.is_some()).into())?;
        self.store(state, iterator, CURRENT_BIT, 4, &u64::MAX.into())
    }

    /// `bpf_iter_bits_next`.
    pub(super) fn next_bit(&mut self, iterator: &Value, state: &mut MachineState) -> Result<Value, Stop> {
        let bits = self.load(state, iterator, 0, 8).word(self.symbols).bits();
        let current = self.place_of_lowest(&bits, iterator, state);
        let diagram = &mut self.symbols.diagram;
        // Whether one of the bits below is set, and the bits without the lowest.
        let (mut found, mut left) = (Bdd::FALSE, [Bdd::FALSE; 64]);
        for (bit, left) in bits.iter().zip(&mut left) {
            *left = diagram.and(*bit, found);
            found = diagram.or(*bit, found);
        }
        self.store(state, iterator, 0, 8, &Value::Scalar(Word::from_bits(left)))?;
        self.store(state, iterator, CURRENT_BIT, 4, &Value::Scalar(current))?;
        let place = Value::Scalar(Word::Constant(CURRENT_BIT.cast_unsigned()));
        let current = compute::arithmetic(Arithmetic::Add, 64, iterator, &place, self.symbols);
        Ok(Value::of_alternatives(vec![(found, current), (!found, 0.into())], self.symbols))
    }

    /// The place of the lowest of `bits`.
    fn place_of_lowest(&mut self, bits: &[Bdd; 64], iterator: &Value, state: &MachineState) -> Word {
        let has_none = self.load(state, iterator, HAS_NO_PLACES, 4).word(self.symbols);
        let known = match has_none.as_constant() {
            Some(1) => Word::ZERO,
            _ => self.known_place(bits, iterator, state),
        };
        if has_none.as_constant() == Some(0) {
            return known;
        }
        let any = self.symbols.unknown_word(32, "it depends on which bits of a number are set");
        Word::ite(has_none.bit(0), &any, &known, &mut self.symbols.diagram)
    }

    /// The same where the places are known. At the end it is 64, or the place of the last
    /// bit (before Linux 6.12).
    fn known_place(&mut self, bits: &[Bdd; 64], iterator: &Value, state: &MachineState) -> Word {
        let before = self.load(state, iterator, CURRENT_BIT, 4).word(self.symbols);
        let is_left = self.symbols.unknown_bit("it depends on where an iterator has ended");
        let diagram = &mut self.symbols.diagram;
        let end = Word::ite(is_left, &before, &Word::Constant(64), diagram);
        bits.iter().enumerate().rev().fold(end, |lowest, (place, bit)| {
            Word::ite(*bit, &Word::Constant(place as u64), &lowest, diagram)
        })
    }
}
