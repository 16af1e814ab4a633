//! Random arithmetic and random conditions.

use super::state::{Gen, Value};
use crate::support::asm::{Label, alu, cond, size};

impl Gen<'_> {
    /// One arithmetic instruction (or two).
    pub fn alu(&mut self) {
        let reg = self.scalar();
        let value = self.value(reg);
        match self.rng.below(10) {
            0 => self.copy(reg),
            1 | 2 => self.with_register(reg),
            3 => self.shift_by_register(reg),
            4 => self.swap(reg),
            5 if value.narrow() || value.hard < 2 => self.hard_constant(reg),
            _ => self.easy_constant(reg),
        }
    }

    /// A 32-bit or 64-bit operation with a constant.
    fn op(&mut self, op: u8, reg: u8, imm: i32) {
        if self.rng.chance(50) {
            self.asm.op64(op, reg, imm);
        } else {
            self.asm.op32(op, reg, imm);
            self.zero_extend(op, reg);
        }
    }

    fn op_register(&mut self, op: u8, dst: u8, src: u8) {
        if self.rng.chance(50) {
            self.asm.op64r(op, dst, src);
        } else {
            self.asm.op32r(op, dst, src);
            self.zero_extend(op, dst);
        }
    }

    /// rbpf 0.3 sign-extends the results of some 32-bit operations.
    fn zero_extend(&mut self, op: u8, reg: u8) {
        if self.features.rbpf && matches!(op, alu::ADD | alu::SUB | alu::MUL | alu::MOD) {
            self.asm.op32r(alu::MOV, reg, reg);
        }
    }

    fn copy(&mut self, reg: u8) {
        let (dst, value) = (self.target(), self.value(reg));
        if self.features.v4 && self.rng.chance(50) {
            if self.rng.chance(50) {
                let width = self.rng.pick(&[8, 16, 32]);
                self.asm.raw(0xbf, dst, reg, width, 0);
            } else {
                let width = self.rng.pick(&[8, 16]);
                self.asm.raw(0xbc, dst, reg, width, 0);
            }
        } else {
            self.op_register(alu::MOV, dst, reg);
        }
        self.set(dst, value);
    }

    fn with_register(&mut self, dst: u8) {
        let src = self.scalar();
        // `scalar` may have loaded something into `dst`.
        let (a, b) = (self.value(dst), self.value(src));
        let both = a.with(b);
        let same = (a.inputs | b.inputs) == a.inputs || b.inputs == 0;
        if both.narrow() {
            let op = self.rng.pick(&[
                alu::ADD,
                alu::SUB,
                alu::MUL,
                alu::DIV,
                alu::OR,
                alu::AND,
                alu::MOD,
                alu::XOR,
                alu::LSH,
                alu::RSH,
                alu::ARSH,
            ]);
            self.op_register_signed(op, dst, src);
            self.set(dst, both);
        } else if same && both.hard < 2 {
            let op = self.rng.pick(&[alu::ADD, alu::SUB, alu::OR, alu::AND, alu::XOR]);
            self.op_register(op, dst, src);
            self.set(dst, Value { hard: both.hard + 1, ..both });
        } else {
            self.easy_constant(dst);
        }
    }

    fn op_register_signed(&mut self, op: u8, dst: u8, src: u8) {
        if self.features.v4 && matches!(op, alu::DIV | alu::MOD) && self.rng.chance(50) {
            let class = self.rng.pick(&[0x0c, 0x0f]);
            self.asm.raw(op | class, dst, src, 1, 0);
        } else {
            self.op_register(op, dst, src);
        }
    }

    /// A shift by a narrow value: bit sets, powers of two.
    fn shift_by_register(&mut self, dst: u8) {
        let src = self.narrow();
        let both = self.value(dst).with(self.value(src));
        if !both.narrow() {
            return self.easy_constant(dst);
        }
        if self.rng.chance(70) && src != dst {
            self.asm.op64(alu::AND, src, 31);
        }
        let op = self.rng.pick(&[alu::LSH, alu::RSH, alu::ARSH]);
        self.op_register(op, dst, src);
        self.set(dst, both);
    }

    /// Byte order and sign.
    fn swap(&mut self, reg: u8) {
        let width = self.rng.pick(&[16, 32, 64]);
        match self.rng.below(4) {
            0 if self.features.v4 => self.asm.raw(alu::END | 0x07, reg, 0, 0, width),
            1 => self.asm.raw(alu::END | 0x04, reg, 0, 0, width),
            2 => self.asm.raw(alu::END | 0x0c, reg, 0, 0, width),
            _ if self.features.rbpf => self.asm.op32(alu::NEG, reg, 0),
            _ => {
                let class = self.rng.pick(&[0x04, 0x07]);
                self.asm.raw(alu::NEG | class, reg, 0, 0, 0);
            }
        }
    }

    /// Multiplication and division by constants.
    fn hard_constant(&mut self, reg: u8) {
        let value = self.value(reg);
        let op = self.rng.pick(&[alu::MUL, alu::DIV, alu::MOD]);
        let imm = if value.narrow() && self.rng.chance(50) {
            self.rng.any_i32() | 1
        } else {
            i32::try_from(self.rng.between(2, 12)).unwrap()
        };
        let imm = if value.narrow() && self.rng.chance(5) { -1 } else { imm };
        if self.features.v4 && op != alu::MUL && self.rng.chance(50) {
            let class = self.rng.pick(&[0x04, 0x07]);
            self.asm.raw(op | class, reg, 0, 1, imm);
        } else {
            self.op(op, reg, imm);
        }
        self.set(reg, Value { hard: value.hard + 1, ..value });
    }

    fn easy_constant(&mut self, reg: u8) {
        let shift = self.rng.chance(30);
        if shift {
            let op = self.rng.pick(&[alu::LSH, alu::RSH, alu::ARSH]);
            let amount = if self.rng.chance(80) { self.rng.below(9) } else { self.rng.below(32) };
            return self.op(op, reg, amount as i32);
        }
        let op = self.rng.pick(&[alu::ADD, alu::SUB, alu::AND, alu::OR, alu::XOR]);
        if self.rng.chance(12) {
            let wide = self.target_but(&[reg]);
            let value = if self.rng.chance(50) { self.rng.next() } else { u64::from(self.rng.next() as u32) };
            self.asm.ld64(wide, value);
            self.set(wide, Value::default());
            return self.op_register(op, reg, wide);
        }
        let imm = match op {
            alu::AND if self.rng.chance(60) => (1 << self.rng.between(1, 20)) - 1,
            _ => self.constant(),
        };
        self.op(op, reg, imm);
    }

    /// A number that is likely to matter.
    pub fn constant(&mut self) -> i32 {
        match self.rng.below(10) {
            0 => self.rng.any_i32(),
            1 => -i32::try_from(self.rng.below(300)).unwrap(),
            2 | 3 => self.rng.below(8) as i32,
            _ => self.rng.pick(&self.pool.clone()) as i32,
        }
    }

    /// A jump to `to` on a random condition; returns the inputs of the
    /// decision.
    pub fn test(&mut self, to: Label) -> u64 {
        match self.rng.below(8) {
            0 => self.test_bit_set(to),
            1 => self.test_range(to),
            2 => self.test_registers(to),
            _ => self.test_constant(to),
        }
    }

    fn test_constant(&mut self, to: Label) -> u64 {
        let reg = if self.rng.chance(30) {
            let reg = self.target();
            self.load_field(reg);
            reg
        } else {
            self.scalar()
        };
        let (condition, imm) = (self.rng.pick(&cond::ALL), self.constant());
        for _ in 0..if self.rng.chance(8) { 2 } else { 1 } {
            if self.rng.chance(60) {
                self.asm.jump_if(condition, reg, imm, to);
            } else {
                self.asm.jump_if32(condition, reg, imm, to);
            }
        }
        self.value(reg).inputs
    }

    fn test_registers(&mut self, to: Label) -> u64 {
        let (a, b) = (self.scalar(), self.scalar());
        let (left, right) = (self.value(a), self.value(b));
        let both = left.with(right);
        let comparable =
            both.narrow() || left.inputs == right.inputs || left.inputs == 0 || right.inputs == 0;
        if !comparable || both.hard > 2 {
            return self.test_constant(to);
        }
        let condition = self.rng.pick(&cond::ALL);
        if self.rng.chance(60) {
            self.asm.jump_ifr(condition, a, b, to);
        } else {
            self.asm.jump_if32r(condition, a, b, to);
        }
        both.inputs
    }

    /// `1 << x & mask`, as compilers write `switch`.
    fn test_bit_set(&mut self, to: Label) -> u64 {
        let index = self.narrow();
        let bits = self.target_but(&[index]);
        let inputs = self.value(index).inputs;
        self.asm.mov(bits, 1);
        self.asm.op64r(alu::LSH, bits, index);
        let mask = self.rng.any_i32();
        if self.rng.chance(50) {
            self.asm.op64(alu::AND, bits, mask);
            self.asm.jump_if(cond::NE, bits, 0, to);
        } else {
            self.asm.jump_if(cond::SET, bits, mask, to);
        }
        self.set(bits, Value::of(inputs));
        inputs
    }

    /// `x - first <= last - first`, unsigned: a range by wrap-around.
    fn test_range(&mut self, to: Label) -> u64 {
        let from = self.scalar();
        let reg = self.target_but(&[from]);
        let value = self.value(from);
        let (first, length) = (self.constant(), self.rng.below(40) as i32);
        self.asm.movr(reg, from);
        if self.rng.chance(50) {
            self.asm.op64(alu::ADD, reg, first.wrapping_neg());
            self.asm.jump_if(cond::LE, reg, length, to);
        } else {
            self.asm.op32(alu::ADD, reg, first.wrapping_neg());
            self.zero_extend(alu::ADD, reg);
            self.asm.jump_if32(cond::GT, reg, length, to);
        }
        self.set(reg, value);
        value.inputs
    }

    /// Compares a field with a number of the pool: the bread and butter.
    pub fn test_field(&mut self, to: Label) -> u64 {
        let reg = self.target();
        match (self.frame.ctx, self.rng.chance(50)) {
            (Some(ctx), true) => {
                self.asm.ldx(size::W, reg, ctx, 4);
                self.set(reg, Value::of(super::state::MAJOR));
            }
            (Some(ctx), false) => {
                self.asm.ldx(size::W, reg, ctx, 8);
                self.set(reg, Value::of(super::state::MINOR));
            }
            (None, _) => return self.test_constant(to),
        }
        let (condition, imm) = (self.rng.pick(&cond::ALL), self.constant());
        self.asm.jump_if(condition, reg, imm, to);
        self.value(reg).inputs
    }
}
