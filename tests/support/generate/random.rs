//! Random structured programs that the verifier mostly accepts.

use super::state::{Features, Frame, Gen, MINOR, SPILL, STACK, Value};
use crate::support::asm::{alu, cond, size};
use crate::support::rng::Rng;
use crate::support::source::Source;

/// Arithmetic, branches, stack, loops: no maps, no calls.
pub const PLAIN: Features = Features {
    v4: true,
    maps: false,
    calls: false,
    atomics: false,
    retval: false,
    unmodelled: false,
    rbpf: false,
};
/// What the rbpf crate can run.
pub const RBPF: Features = Features { v4: false, rbpf: true, ..PLAIN };
/// Everything whose result is certain.
pub const FULL: Features = Features { maps: true, calls: true, atomics: true, ..PLAIN };

/// A random program of about `size` statements.
pub fn program(rng: &mut Rng, features: Features, size: u32) -> Source {
    let mut generator = Gen::new(rng, features);
    generator.begin();
    for _ in 0..generator.rng.between(size / 2, size) {
        generator.statement(0);
    }
    generator.finish_main();
    generator.write_functions();
    let gpl = true;
    let (unmodelled, pool) = (generator.unmodelled, generator.pool.clone());
    let source = generator.asm.finish("random");
    Source {
        gpl,
        attach_type: features.retval,
        may_be_unknown: unmodelled,
        hints: pool.iter().flat_map(|&major| pool.iter().map(move |&minor| (major, minor))).collect(),
        ..source
    }
}

impl Gen<'_> {
    /// The context goes to r9 and to the stack, the stack gets contents.
    fn begin(&mut self) {
        self.asm.movr(9, 1);
        self.frame.reserve(9);
        self.asm.stx(size::DW, 10, SPILL, 9);
        self.clear_stack();
        for _ in 0..self.rng.between(2, 4) {
            let reg = self.target();
            self.load_field(reg);
        }
    }

    /// Gives every stack byte a constant.
    pub fn clear_stack(&mut self) {
        for slot in 1..=STACK / 8 {
            let imm = if self.rng.chance(50) { 0 } else { self.rng.any_i32() };
            self.asm.st(size::DW, 10, -8 * slot, imm);
        }
    }

    /// The verdict, in one of the ways compilers and people write it.
    fn finish_main(&mut self) {
        match self.rng.below(4) {
            0 => self.verdict_of_bit(),
            1 => self.verdict_list(),
            2 => self.verdict_preset(),
            _ => self.verdict_branches(),
        }
    }

    fn verdict_of_bit(&mut self) {
        let reg = self.scalar();
        self.asm.movr(0, reg);
        let shift = self.rng.below(4);
        if shift != 0 {
            self.asm.op64(alu::RSH, 0, shift as i32);
        }
        self.asm.op64(alu::AND, 0, 1);
        self.asm.exit();
    }

    fn verdict_list(&mut self) {
        for _ in 0..self.rng.between(1, 5) {
            self.early_verdict();
        }
        let last = self.rng.below(2);
        self.asm.verdict(last as i32);
    }

    fn verdict_preset(&mut self) {
        let end = self.asm.label();
        let first = i32::try_from(self.rng.below(2)).unwrap();
        self.asm.mov(0, first);
        self.frame.reserve(0);
        for _ in 0..self.rng.between(1, 3) {
            self.test(end);
        }
        self.asm.mov(0, 1 - first);
        self.asm.bind(end);
        self.asm.exit();
    }

    fn verdict_branches(&mut self) {
        let other = self.asm.label();
        let first = i32::try_from(self.rng.below(2)).unwrap();
        self.test(other);
        self.asm.verdict(first);
        self.asm.bind(other);
        self.asm.verdict32(1 - first);
    }

    /// Writes the subprograms that calls asked for (they may ask for more).
    fn write_functions(&mut self) {
        while let Some((label, depth)) = self.functions.pop() {
            self.asm.bind(label);
            self.write_function(depth);
        }
    }

    /// Arguments: two scalars and a block of 16 bytes of the caller's stack.
    fn write_function(&mut self, depth: u32) {
        self.frame = Frame::new(None, depth);
        self.joins = 2;
        // What the arguments depend on is the caller's affair: it passes only
        // narrow ones.
        for argument in [1, 2] {
            self.set(argument, Value::of(0b111));
        }
        self.frame.reserve(9);
        self.frame.reserve(7);
        self.asm.movr(7, 3);
        self.frame.block = Some(7);
        self.clear_stack();
        for _ in 0..self.rng.between(1, 4) {
            self.function_statement();
        }
        let early = self.asm.label();
        self.test(early);
        let after_test = self.frame.clone();
        let one = self.scalar();
        self.asm.movr(0, one);
        self.asm.exit();
        self.asm.bind(early);
        self.frame = after_test;
        let other = self.scalar();
        self.asm.movr(0, other);
        if self.rng.chance(50) {
            self.asm.op64(alu::ADD, 0, 1);
        }
        self.asm.exit();
    }

    fn function_statement(&mut self) {
        match self.rng.below(6) {
            0 => self.block_access(),
            1 => self.stack_traffic(),
            2 => self.branch(2),
            3 => self.call(),
            _ => self.alu(),
        }
    }

    /// Reads or writes the caller's stack through the pointer.
    fn block_access(&mut self) {
        let Some(block) = self.frame.block else { return };
        let size = self.rng.pick(&[size::B, size::H, size::W, size::DW]);
        let bytes = size::bytes(size);
        let offset = i16::try_from(self.rng.below(u32::try_from(16 / bytes).unwrap())).unwrap() * bytes;
        if self.rng.chance(50) {
            let reg = self.scalar();
            self.asm.stx(size, block, offset, reg);
        } else {
            let reg = self.target();
            self.asm.ldx(size, reg, block, offset);
            self.set(reg, Value { inputs: MINOR, hard: 3 });
        }
    }

    /// `if this device, this verdict`.
    pub fn early_verdict(&mut self) {
        let next = self.asm.label();
        let before = self.frame.clone();
        for _ in 0..self.rng.between(1, 2) {
            if self.rng.chance(60) {
                self.test_field(next)
            } else {
                self.test(next)
            };
        }
        let verdict = i32::try_from(self.rng.below(2)).unwrap();
        if self.frame.depth == 0 {
            self.asm.verdict(verdict);
        } else {
            self.asm.mov(0, verdict);
            self.asm.exit();
        }
        // Registers loaded between the tests are not set on every way here.
        let cause = 0;
        self.frame.join(&before, cause);
        for (mine, old) in self.frame.live.iter_mut().zip(before.live) {
            if old.is_none() {
                *mine = None;
            }
        }
        self.asm.bind(next);
    }

    /// Counts down with a jump back.
    pub fn countdown(&mut self, times: i32, body: impl Fn(&mut Self)) {
        let counter = self.target();
        self.asm.mov(counter, times);
        self.frame.reserve(counter);
        let top = self.asm.here();
        body(self);
        self.asm.op64(alu::SUB, counter, 1);
        self.asm.jump_if(cond::NE, counter, 0, top);
        self.frame.release(counter);
        self.set(counter, Value::default());
    }
}
