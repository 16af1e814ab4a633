//! Random statements: branches, stack traffic, calls.

use super::state::{Gen, SPILL, STACK, Value};
use crate::support::asm::{Label, alu, helper, size};

impl Gen<'_> {
    /// One statement; `depth` counts enclosing branches.
    pub fn statement(&mut self, depth: u32) {
        match self.rng.below(24) {
            0..6 => self.alu(),
            6 | 7 => {
                let reg = self.target();
                self.load_field(reg);
            }
            8..11 => self.early_verdict(),
            11..14 => self.branch(depth),
            14 | 15 => self.stack_traffic(),
            16 => self.spilled_context(),
            17 => self.loops(),
            18 if self.features.calls => self.call(),
            19 if self.features.atomics => self.atomic(),
            20 | 21 if self.features.maps => self.map_statement(),
            22 if self.features.retval => self.retval(),
            23 if self.features.unmodelled => self.unmodelled_helper(),
            _ => self.alu(),
        }
    }

    /// `if … { } else { }`; the ways meet again.
    pub fn branch(&mut self, depth: u32) {
        if depth >= 3 || self.joins == 0 {
            return self.alu();
        }
        self.joins -= 1;
        let (other, end) = (self.asm.label(), self.asm.label());
        let cause = self.test(other);
        let before = self.frame.clone();
        self.statements(depth);
        let first = std::mem::replace(&mut self.frame, before);
        self.jump(end);
        self.asm.bind(other);
        if self.rng.chance(60) {
            self.statements(depth);
        }
        self.asm.bind(end);
        self.frame.join(&first, cause);
    }

    fn statements(&mut self, depth: u32) {
        for _ in 0..self.rng.between(1, 3) {
            if self.frame.depth == 0 { self.statement(depth + 1) } else { self.alu() }
        }
    }

    /// Stores of one size, loads of another that overlap them.
    pub fn stack_traffic(&mut self) {
        if self.rng.chance(50) {
            return self.load_stack();
        }
        let (size, bytes, offset) = self.stack_slot();
        let mut inputs = 0;
        if self.rng.chance(80) {
            let reg = self.scalar();
            inputs = self.value(reg).inputs;
            self.asm.stx(size, 10, offset, reg);
        } else {
            let imm = self.constant();
            self.asm.st(size, 10, offset, imm);
        }
        for byte in 0..bytes {
            self.frame.stack[usize::try_from(offset + byte + STACK).unwrap()] = inputs;
        }
    }

    fn load_stack(&mut self) {
        let (size, bytes, offset) = self.stack_slot();
        let first = usize::try_from(offset + STACK).unwrap();
        let slots = &self.frame.stack[first..first + usize::try_from(bytes).unwrap()];
        let inputs = slots.iter().fold(0, |all, byte| all | byte);
        let reg = self.target();
        let signed = self.features.v4 && size != size::DW && self.rng.chance(30);
        if signed {
            self.asm.raw(0x81 | size, reg, 10, offset, 0);
        } else {
            self.asm.ldx(size, reg, 10, offset);
        }
        let value = Value::of(inputs);
        self.set(reg, if value.narrow() { value } else { Value { hard: 2, ..value } });
    }

    fn stack_slot(&mut self) -> (u8, i16, i16) {
        let size = self.rng.pick(&[size::B, size::H, size::W, size::DW]);
        let bytes = size::bytes(size);
        // Half of the traffic meets in the same 16 bytes.
        let room = if self.rng.chance(50) { 16 } else { STACK };
        let slot = i16::try_from(self.rng.below(u32::try_from(room / bytes).unwrap())).unwrap();
        (size, bytes, -STACK + slot * bytes)
    }

    /// The context pointer comes back from the stack.
    fn spilled_context(&mut self) {
        if self.frame.ctx.is_none() {
            return self.alu();
        }
        let pointer = self.target();
        self.frame.reserve(pointer);
        self.asm.ldx(size::DW, pointer, 10, SPILL);
        let old = self.frame.ctx.replace(pointer);
        let reg = self.target();
        self.load_field(reg);
        self.frame.ctx = old;
        self.frame.release(pointer);
    }

    /// A bpf-to-bpf call with two scalars and 16 bytes of stack.
    pub fn call(&mut self) {
        if !self.features.calls || self.frame.depth >= 3 || self.functions.len() > 3 {
            return self.alu();
        }
        let (a, b) = (self.narrow(), self.narrow());
        let value = self.value(a).with(self.value(b));
        self.asm.stx(size::DW, 10, -STACK - 24, a);
        self.asm.movr(2, b);
        self.asm.ldx(size::DW, 1, 10, -STACK - 24);
        let block = 8 * i16::try_from(self.rng.below(7)).unwrap();
        self.asm.movr(3, 10);
        self.asm.op64(alu::ADD, 3, i32::from(block - STACK));
        let function = self.asm.label();
        self.functions.push((function, self.frame.depth + 1));
        self.asm.call_local(function);
        self.clobber_call();
        let bytes = &mut self.frame.stack[usize::try_from(block).unwrap()..][..16];
        let inputs = bytes.iter().fold(value.inputs, |all, byte| all | byte);
        bytes.fill(inputs);
        self.set(0, Value { inputs, hard: 3 });
    }

    /// An atomic operation on the stack, with or without fetching.
    fn atomic(&mut self) {
        let size = self.rng.pick(&[size::W, size::DW]);
        let bytes = size::bytes(size);
        let offset =
            -STACK + bytes * i16::try_from(self.rng.below(u32::try_from(STACK / bytes).unwrap())).unwrap();
        let operation = self.rng.pick(&[0x00, 0x40, 0x50, 0xa0, 0x01, 0x41, 0x51, 0xa1, 0xe1, 0xf1]);
        let source = self.narrow();
        let first = usize::try_from(offset + STACK).unwrap();
        let bytes = usize::try_from(bytes).unwrap();
        let old = Value::of(self.frame.stack[first..first + bytes].iter().fold(0, |all, byte| all | byte));
        let mut both = old.with(self.value(source));
        if !both.narrow() {
            return self.alu();
        }
        if operation == 0xf1 {
            if source == 0 || self.frame.reserved & 1 != 0 {
                return;
            }
            self.load_narrow(0);
            both = both.with(self.value(0));
        }
        self.asm.raw(0xc3 | size, 10, source, offset, operation);
        self.frame.stack[first..first + bytes].fill(both.inputs);
        if operation == 0xf1 {
            self.set(0, both);
        } else if operation & 1 != 0 {
            self.set(source, both);
        }
    }

    /// Reads or sets the error that the programs so far agreed on.
    fn retval(&mut self) {
        if self.rng.chance(30) {
            self.asm.call(helper::GET_RETVAL);
            self.clobber_call();
            self.set(0, Value::default());
            return;
        }
        let next = self.asm.label();
        let before = self.frame.clone();
        self.test(next);
        let error = self.rng.pick(&[0, 0, 0, 0, 0, -1, -13, 5]);
        self.asm.mov(1, error);
        self.asm.call(helper::SET_RETVAL);
        self.asm.bind(next);
        self.frame.join(&before, 0);
        self.clobber_call();
    }

    /// A result that gpumap cannot know: time, chance, the caller's uid.
    fn unmodelled_helper(&mut self) {
        let number = self.rng.pick(&[helper::KTIME, helper::PRANDOM, helper::UID_GID]);
        self.asm.call(number);
        self.clobber_call();
        self.set(0, Value::default());
        self.unmodelled = true;
        // Masked so that the verdict mostly does not depend on it: bits of
        // uid and gid above 2^20 are 0 for root, time and chance are any.
        if number != helper::UID_GID {
            self.asm.op64(alu::AND, 0, 0);
        }
    }

    /// A jump, short or (v4) long.
    fn jump(&mut self, to: Label) {
        if self.features.v4 && self.rng.chance(40) { self.asm.jump_long(to) } else { self.asm.jump(to) }
    }
}
