//! Random loops, all bounded: over a counter, over bits, over a table, as often
//! as the question says.

use super::state::{Gen, STACK, Value};
use crate::support::asm::{alu, cond, size};

impl Gen<'_> {
    pub fn loops(&mut self) {
        match self.rng.below(4) {
            0 => self.loop_fixed(),
            1 => self.loop_bits(),
            2 => self.loop_table(),
            _ => self.loop_data(),
        }
    }

    /// The same arithmetic some times over.
    fn loop_fixed(&mut self) {
        let sum = self.narrow();
        let times = i32::try_from(self.rng.between(2, 9)).unwrap();
        let (factor, addend) = (self.constant(), self.constant());
        let value = self.value(sum);
        self.frame.reserve(sum);
        self.countdown(times, |this| {
            this.asm.op64(alu::MUL, sum, factor);
            this.asm.op64(alu::XOR, sum, addend);
        });
        self.frame.release(sum);
        self.set(sum, value);
    }

    /// Counts the bits of a narrow value.
    fn loop_bits(&mut self) {
        let from = self.narrow();
        let value = self.value(from);
        let sum = self.target_but(&[from]);
        let bit = self.target_but(&[from, sum]);
        let index = self.target_but(&[from, sum, bit]);
        self.asm.mov(sum, 0);
        self.asm.mov(index, 0);
        let top = self.asm.here();
        self.asm.movr(bit, from);
        self.asm.op64r(alu::RSH, bit, index);
        self.asm.op64(alu::AND, bit, 1);
        self.asm.op64r(alu::ADD, sum, bit);
        self.asm.op64(alu::ADD, index, 1);
        let times = i32::try_from(self.rng.between(2, 8)).unwrap();
        self.asm.jump_if(cond::LT, index, times, top);
        for reg in [sum, bit] {
            self.set(reg, value);
        }
        self.set(index, Value::default());
    }

    /// Looks a field up in a table on the stack, with a computed address.
    fn loop_table(&mut self) {
        let numbers = self.rng.between(2, 8);
        for slot in 0..numbers {
            let number = self.constant();
            let offset = -STACK + 4 * i16::try_from(slot).unwrap();
            self.asm.st(size::W, 10, offset, number);
            self.frame.stack[usize::try_from(offset + STACK).unwrap()..][..4].fill(0);
        }
        if self.rng.chance(30) {
            return self.table_at_index();
        }
        let wanted = self.target();
        self.load_field(wanted);
        let index = self.target_but(&[wanted]);
        let pointer = self.target_but(&[wanted, index]);
        let inputs = self.value(wanted).inputs;
        let found = self.asm.label();
        self.asm.mov(index, 0);
        let top = self.asm.here();
        self.asm.movr(pointer, index);
        self.asm.op64(alu::LSH, pointer, 2);
        self.asm.op64r(alu::ADD, pointer, 10);
        self.asm.ldx(size::W, pointer, pointer, -STACK);
        self.asm.jump_ifr(cond::EQ, pointer, wanted, found);
        self.asm.op64(alu::ADD, index, 1);
        self.asm.jump_if(cond::LT, index, numbers as i32, top);
        self.asm.bind(found);
        // The index tells which, or that there is none.
        self.set(index, Value { inputs, hard: 2 });
        self.set(pointer, Value { inputs, hard: 2 });
    }

    /// Reads the table at an index that depends on the question.
    fn table_at_index(&mut self) {
        let pointer = self.target();
        self.load_narrow(pointer);
        self.asm.op64(alu::AND, pointer, 7);
        let value = self.value(pointer);
        self.asm.op64(alu::LSH, pointer, 2);
        self.asm.op64r(alu::ADD, pointer, 10);
        self.asm.ldx(size::W, pointer, pointer, -STACK);
        let inputs = self.frame.stack[..32].iter().fold(value.inputs, |all, byte| all | byte);
        self.set(pointer, Value { inputs, hard: 1 });
    }

    /// As many rounds as a field of the question says.
    fn loop_data(&mut self) {
        if self.joins < 3 {
            return self.loop_bits();
        }
        self.joins -= 3;
        let (limit, sum) = (self.target(), 0);
        let sum = if limit == sum { self.target_but(&[limit]) } else { self.target_but(&[limit, sum]) };
        let index = self.target_but(&[limit, sum]);
        self.load_narrow(limit);
        self.asm.op64(alu::AND, limit, 7);
        let value = self.value(limit);
        self.asm.mov(sum, 1);
        self.asm.mov(index, 0);
        let (top, done) = (self.asm.here(), self.asm.label());
        self.asm.jump_ifr(cond::GE, index, limit, done);
        self.asm.op64(alu::MUL, sum, 3);
        self.asm.op64r(alu::XOR, sum, index);
        self.asm.op64(alu::ADD, index, 1);
        self.asm.jump_if(cond::LT, index, 8, top);
        self.asm.bind(done);
        for reg in [sum, index] {
            self.set(reg, value);
        }
    }
}
