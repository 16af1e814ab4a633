//! What the random generator knows while it writes: which registers and stack
//! bytes hold scalars, and on which input bits each depends.
//!
//! The knowledge keeps programs decodable in principle: a product of the whole
//! major and the whole minor number has no compact answer, in any
//! representation, so values that depend on many input bits get only simple
//! operations.

use crate::support::asm::{Asm, Label, alu, size};
use crate::support::rng::Rng;

/// Which kinds of statement to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Instruction set v4: sdiv, movsx, bswap, gotol, sign-extending loads.
    pub v4: bool,
    pub maps: bool,
    pub calls: bool,
    pub atomics: bool,
    /// Get/set_retval.
    pub retval: bool,
    /// Helpers whose result nobody can predict.
    pub unmodelled: bool,
    /// Keep to what the rbpf crate computes correctly.
    pub rbpf: bool,
}

/// What a value may depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// Bits of the input: type 0-1, access 2-4, major 5-16, minor 17-36.
    pub inputs: u64,
    /// Operations so far that make a wide value's diagram large.
    pub hard: u8,
}

pub const TYPE: u64 = 0b11;
pub const ACCESS: u64 = 0b111 << 2;
pub const MAJOR: u64 = 0xfff << 5;
pub const MINOR: u64 = 0xf_ffff << 17;

/// A function of this many input bits is small whatever it is.
pub const NARROW: u32 = 9;

impl Value {
    pub fn of(inputs: u64) -> Self {
        Self { inputs, hard: 0 }
    }

    pub fn narrow(self) -> bool {
        self.inputs.count_ones() <= NARROW
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { inputs: self.inputs | other.inputs, hard: self.hard.max(other.hard) }
    }
}

/// Bytes of stack that programs use, below r10.
pub const STACK: i16 = 64;
/// Where the context pointer is spilled.
pub const SPILL: i16 = -72;

/// The state of one function.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Scalars in r0 to r8.
    pub live: [Option<Value>; 9],
    pub stack: [u64; STACK as usize],
    /// The register with the context.
    pub ctx: Option<u8>,
    /// A register that points to a block of 16 bytes of the caller's stack.
    pub block: Option<u8>,
    /// Registers that hold pointers or counters.
    pub reserved: u16,
    /// How deep in calls this function is.
    pub depth: u32,
}

impl Frame {
    pub fn new(ctx: Option<u8>, depth: u32) -> Self {
        Self { live: [None; 9], stack: [0; STACK as usize], ctx, block: None, reserved: 0, depth }
    }

    pub fn reserve(&mut self, reg: u8) {
        self.reserved |= 1 << reg;
        if let Some(slot) = self.live.get_mut(usize::from(reg)) {
            *slot = None;
        }
    }

    pub fn release(&mut self, reg: u8) {
        self.reserved &= !(1 << reg);
    }

    /// What holds whichever of two ways was taken; `cause` are the inputs of
    /// the decision. Values that differ by too many inputs are forgotten.
    pub fn join(&mut self, other: &Self, cause: u64) {
        for (mine, theirs) in self.live.iter_mut().zip(other.live) {
            *mine = match (*mine, theirs) {
                (Some(a), Some(b)) if a == b => Some(a.with(Value::of(cause))),
                (Some(a), Some(b)) => Some(a.with(b).with(Value::of(cause))),
                _ => None,
            }
            .filter(|value| value.inputs.count_ones() <= 24)
            .map(|value| if value.narrow() { value } else { Value { hard: 9, ..value } });
        }
        for (mine, theirs) in self.stack.iter_mut().zip(other.stack) {
            *mine |= theirs | cause;
        }
        self.reserved |= other.reserved;
    }
}

/// A program being generated.
pub struct Gen<'a> {
    pub rng: &'a mut Rng,
    pub asm: Asm,
    pub frame: Frame,
    pub features: Features,
    /// Numbers the program likes to compare with.
    pub pool: Vec<u32>,
    /// How many more times ways may meet again with different values.
    pub joins: u32,
    /// Subprograms still to be written.
    pub functions: Vec<(Label, u32)>,
    /// Something unpredictable was used.
    pub unmodelled: bool,
}

impl<'a> Gen<'a> {
    pub fn new(rng: &'a mut Rng, features: Features) -> Self {
        let mut pool = Vec::new();
        for _ in 0..rng.between(3, 7) {
            let number = if rng.chance(50) { super::rules::major(rng) } else { super::rules::minor(rng) };
            pool.push(number);
        }
        let frame = Frame::new(Some(9), 0);
        Self {
            rng,
            asm: Asm::new(),
            frame,
            features,
            pool,
            joins: 7,
            functions: Vec::new(),
            unmodelled: false,
        }
    }

    /// A register to write: not reserved.
    pub fn target(&mut self) -> u8 {
        loop {
            let reg = u8::try_from(self.rng.below(9)).unwrap();
            if self.frame.reserved & 1 << reg == 0 {
                return reg;
            }
        }
    }

    /// A register to write that is none of `others`.
    pub fn target_but(&mut self, others: &[u8]) -> u8 {
        loop {
            let reg = self.target();
            if !others.contains(&reg) {
                return reg;
            }
        }
    }

    pub fn value(&self, reg: u8) -> Value {
        self.frame.live[usize::from(reg)].expect("a live register")
    }

    pub fn set(&mut self, reg: u8, value: Value) {
        self.frame.live[usize::from(reg)] = Some(value);
    }

    /// A register with a scalar.
    pub fn scalar(&mut self) -> u8 {
        let live: Vec<u8> = (0..9).filter(|reg| self.frame.live[usize::from(*reg)].is_some()).collect();
        if live.is_empty() || self.rng.chance(15) {
            let reg = self.target();
            self.load_any(reg);
            return reg;
        }
        self.rng.pick(&live)
    }

    /// A register with a scalar that depends on few input bits.
    pub fn narrow(&mut self) -> u8 {
        let all: Vec<u8> = (0..9)
            .filter(|reg| {
                self.frame.live[usize::from(*reg)].is_some_and(|value| value.narrow() && value.inputs != 0)
            })
            .collect();
        if all.is_empty() || self.rng.chance(30) {
            let reg = self.target();
            self.load_narrow(reg);
            return reg;
        }
        self.rng.pick(&all)
    }

    fn load_any(&mut self, dst: u8) {
        match self.rng.below(4) {
            0 => self.load_narrow(dst),
            1 => {
                let value = self.rng.pick(&self.pool.clone());
                self.asm.mov(dst, value as i32);
                self.set(dst, Value::default());
            }
            _ => self.load_field(dst),
        }
    }

    /// One of the four fields of the question, in one of the ways to load it.
    pub fn load_field(&mut self, dst: u8) {
        let Some(ctx) = self.frame.ctx else { return self.load_narrow(dst) };
        let inputs = match self.rng.below(10) {
            0 => {
                let size = self.rng.pick(&[size::H, size::B]);
                self.asm.ldx(size, dst, ctx, 0);
                TYPE
            }
            1 => {
                self.asm.ldx(size::W, dst, ctx, 0);
                self.asm.op32(alu::AND, dst, 0xffff);
                TYPE
            }
            2 => {
                let (size, offset) =
                    self.rng.pick(&[(size::H, 2), (size::H, 2), (size::B, 2), (size::B, 2), (size::B, 3)]);
                self.asm.ldx(size, dst, ctx, offset);
                ACCESS
            }
            3 => {
                self.asm.ldx(size::W, dst, ctx, 0);
                self.asm.op32(alu::RSH, dst, 16);
                ACCESS
            }
            4 => {
                self.asm.ldx(size::W, dst, ctx, 0);
                TYPE | ACCESS
            }
            5 | 6 => {
                self.asm.ldx(size::W, dst, ctx, 4);
                MAJOR
            }
            _ => {
                self.asm.ldx(size::W, dst, ctx, 8);
                MINOR
            }
        };
        self.set(dst, Value::of(inputs));
    }

    /// A few bits of major or minor; a constant where there is no context.
    pub fn load_narrow(&mut self, dst: u8) {
        let Some(ctx) = self.frame.ctx else {
            let value = self.rng.any_i32();
            self.asm.mov(dst, value);
            return self.set(dst, Value::default());
        };
        let (offset, base, width) = if self.rng.chance(50) { (4, 5, 12) } else { (8, 17, 20) };
        let count = self.rng.between(1, 6);
        let shift = if self.rng.chance(60) { 0 } else { self.rng.below(width - count) };
        self.asm.ldx(size::W, dst, ctx, offset);
        if shift != 0 {
            self.asm.op64(alu::RSH, dst, shift as i32);
        }
        self.asm.op64(alu::AND, dst, (1 << count) - 1);
        self.set(dst, Value::of(((1 << count) - 1) << (base + shift)));
    }

    /// Forgets what a call destroys.
    pub fn clobber_call(&mut self) {
        self.frame.live[..6].fill(None);
    }
}
