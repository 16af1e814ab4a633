//! What an instruction does, with every field checked: the form the decoder
//! works on.
//!
//! The rules are those of `linux/bpf.h`, mostly standardised in RFC 9669.

use super::{Insn, opcode};

/// The second operand of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A register.
    Register(usize),
    /// A constant, sign-extended to 64 bits.
    Immediate(u64),
}

/// Arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `dst += src`
    Add,
    /// `dst -= src`
    Sub,
    /// `dst *= src`
    Mul,
    /// `dst /= src`, 0 if `src` is 0.
    Div,
    /// Signed division.
    SignedDiv,
    /// `dst %= src`, unchanged if `src` is 0.
    Mod,
    /// Signed remainder.
    SignedMod,
    /// `dst |= src`
    Or,
    /// `dst &= src`
    And,
    /// `dst <<= src`
    ShiftLeft,
    /// `dst >>= src`
    ShiftRight,
    /// `dst s>>= src`
    ShiftRightSigned,
    /// `dst ^= src`
    Xor,
    /// `dst = -dst`
    Negate,
    /// `dst = src`
    Move,
    /// `dst = (s8/s16/s32) src`: the source's low bits, this many, with sign.
    MoveSigned(usize),
    /// `dst =` the address of this CPU's copy of what src points to: only the
    /// kernel writes these, into inlined helpers.
    MovePerCpu,
    /// `dst = src` in another address space: the start of arena memory differs
    /// between kernel and user space.
    MoveSpace,
}

/// Comparisons of conditional jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// Unsigned `>`
    Greater,
    /// Unsigned `>=`
    GreaterEqual,
    /// Unsigned `<`
    Less,
    /// Unsigned `<=`
    LessEqual,
    /// Signed `>`
    SignedGreater,
    /// Signed `>=`
    SignedGreaterEqual,
    /// Signed `<`
    SignedLess,
    /// Signed `<=`
    SignedLessEqual,
    /// `dst & src != 0`
    AnyBit,
}

/// The effect of an atomic access on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicKind {
    /// Combines memory and register.
    Arithmetic(Arithmetic),
    /// Stores the register.
    Exchange,
    /// Stores the register if memory equals r0.
    CompareExchange,
}

/// One instruction. The fields have the names the descriptions use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant describes its fields")]
pub enum Operation {
    /// Arithmetic on the low `width` bits (32 or 64), the result
    /// zero-extended.
    Arithmetic { kind: Arithmetic, width: usize, dst: usize, source: Operand },
    /// The low `width` bits, bytes swapped if `reverse`, zero-extended.
    SwapBytes { dst: usize, width: usize, reverse: bool },
    /// A 64-bit constant; takes two slots.
    LoadConstant { dst: usize, value: u64 },
    /// The address of a map by id; takes two slots.
    LoadMap { dst: usize, map: u32 },
    /// The address `offset` bytes into a map's first value; takes two slots.
    LoadMapValue { dst: usize, map: u32, offset: u32 },
    /// The address of a subprogram for a helper to call; takes two slots.
    LoadSubprogram { dst: usize, target: usize },
    /// Another kind of 64-bit load that gpumap does not know; takes two slots.
    LoadUnknown { dst: usize },
    /// `dst = *(base + offset)`, `size` bytes.
    Load { dst: usize, base: usize, offset: i16, size: usize, signed: bool },
    /// `*(base + offset) = source`, `size` bytes.
    Store { base: usize, offset: i16, size: usize, source: Operand },
    /// A read-modify-write of memory; `fetches` names the register that gets
    /// the old value (r0 for compare-and-exchange).
    Atomic { kind: AtomicKind, base: usize, offset: i16, size: usize, source: usize, fetches: Option<usize> },
    /// An unconditional jump.
    Jump { target: usize },
    /// A conditional jump on the low `width` bits.
    Branch { comparison: Comparison, width: usize, dst: usize, source: Operand, target: usize },
    /// A call of a helper, by the distance of its function in the kernel.
    CallHelper { helper: i32 },
    /// A call of another function of the program.
    CallLocal { target: usize },
    /// A call of a kernel function by its number in the kernel's types.
    CallKernel { function: i32 },
    /// The end of the program or of a function.
    Exit,
    /// No effect (a speculation barrier).
    Nothing,
    /// Not an instruction gpumap knows: the reason.
    Unsupported(&'static str),
}

/// The dump keeps call distances in 16 signed bits; in longer programs they
/// may have been cut.
const MAX_CALL_DISTANCE: usize = i16::MAX as usize;

impl Operation {
    /// The operation at each slot; the second slots of two-slot loads are
    /// `Unsupported`, nothing may jump there.
    pub fn decode_all(insns: &[Insn]) -> Vec<Self> {
        let mut operations = Vec::with_capacity(insns.len());
        while let Some(insn) = insns.get(operations.len()) {
            let pc = operations.len();
            operations.push(match Self::decode(*insn, insns.get(pc + 1).copied(), pc) {
                Self::CallLocal { .. } if insns.len() > MAX_CALL_DISTANCE => {
                    Self::Unsupported("a call over a distance that the dump cannot express")
                }
                operation => operation,
            });
            if operations[pc].slots() == 2 {
                operations.push(Self::Unsupported("a jump into the middle of a 64-bit load"));
            }
        }
        operations
    }

    /// The number of 8-byte slots that the instruction takes.
    pub fn slots(&self) -> usize {
        match self {
            Self::LoadConstant { .. }
            | Self::LoadMap { .. }
            | Self::LoadMapValue { .. }
            | Self::LoadSubprogram { .. }
            | Self::LoadUnknown { .. } => 2,
            _ => 1,
        }
    }

    fn decode(insn: Insn, next: Option<Insn>, pc: usize) -> Self {
        if insn.dst > 11 || insn.src > 11 {
            return Self::Unsupported("a register above r11");
        }
        match insn.class() {
            opcode::LD => load_constant(insn, next, pc),
            opcode::LDX => load(insn),
            opcode::ST => store(insn, Operand::Immediate(insn.imm as i64 as u64)),
            opcode::STX if matches!(insn.mode(), opcode::ATOMIC | opcode::PROBE_ATOMIC) => atomic(insn),
            opcode::STX => store(insn, Operand::Register(insn.src.into())),
            opcode::ALU => arithmetic(insn, 32),
            opcode::JMP => jump(insn, 64, pc),
            opcode::JMP32 => jump(insn, 32, pc),
            _ => arithmetic(insn, 64),
        }
    }
}

/// Bytes that a load or store moves.
fn bytes(insn: Insn) -> usize {
    match insn.size() {
        opcode::B => 1,
        opcode::H => 2,
        opcode::W => 4,
        _ => 8,
    }
}

fn operand(insn: Insn) -> Operand {
    if insn.uses_register() {
        Operand::Register(insn.src.into())
    } else {
        Operand::Immediate(insn.imm as i64 as u64)
    }
}

fn load_constant(insn: Insn, next: Option<Insn>, pc: usize) -> Operation {
    let Some(next) = next.filter(|next| insn.is_wide() && next.code == 0) else {
        return Operation::Unsupported("an incomplete 64-bit load or a packet access");
    };
    let dst = insn.dst.into();
    let (low, high) = (insn.imm as u32, next.imm as u32);
    // The dump names maps by id whatever the rights of the reader.
    match insn.src {
        0 => Operation::LoadConstant { dst, value: u64::from(high) << 32 | u64::from(low) },
        opcode::PSEUDO_MAP => Operation::LoadMap { dst, map: low },
        opcode::PSEUDO_MAP_VALUE => Operation::LoadMapValue { dst, map: low, offset: high },
        opcode::PSEUDO_FUNC => match after(pc, insn.imm.into()) {
            Some(target) => Operation::LoadSubprogram { dst, target },
            None => Operation::LoadUnknown { dst },
        },
        _ => Operation::LoadUnknown { dst },
    }
}

fn load(insn: Insn) -> Operation {
    // Modes MEM, MEMSX, PROBE_MEM, PROBE_MEMSX. A probed load differs only
    // where the address is bad, and gpumap follows no pointer that could be.
    let signed = match insn.mode() {
        opcode::MEM | opcode::PROBE_MEM | opcode::PROBE_MEM32 => false,
        opcode::MEMSX | opcode::PROBE_MEMSX => true,
        _ => return Operation::Unsupported("a load of an unknown mode"),
    };
    let (dst, base) = (insn.dst.into(), insn.src.into());
    Operation::Load { dst, base, offset: insn.off, size: bytes(insn), signed }
}

fn store(insn: Insn, source: Operand) -> Operation {
    match insn.mode() {
        opcode::MEM | opcode::PROBE_MEM32 => {
            Operation::Store { base: insn.dst.into(), offset: insn.off, size: bytes(insn), source }
        }
        opcode::NOSPEC => Operation::Nothing,
        _ => Operation::Unsupported("a store of an unknown mode"),
    }
}

fn atomic(insn: Insn) -> Operation {
    match insn.imm {
        // Since Linux 6.15, of any size: a plain load or store in all that
        // one program can see of it.
        opcode::LOAD_ACQ => {
            let (dst, base) = (insn.dst.into(), insn.src.into());
            return Operation::Load { dst, base, offset: insn.off, size: bytes(insn), signed: false };
        }
        opcode::STORE_REL => {
            let source = Operand::Register(insn.src.into());
            return Operation::Store { base: insn.dst.into(), offset: insn.off, size: bytes(insn), source };
        }
        _ => {}
    }
    let size = match bytes(insn) {
        size @ (4 | 8) => size,
        _ => return Operation::Unsupported("an atomic access of an unknown size"),
    };
    const ADD: i32 = opcode::ADD as i32;
    const OR: i32 = opcode::OR as i32;
    const AND: i32 = opcode::AND as i32;
    const XOR: i32 = opcode::XOR as i32;
    let kind = match insn.imm & !opcode::FETCH {
        ADD => AtomicKind::Arithmetic(Arithmetic::Add),
        OR => AtomicKind::Arithmetic(Arithmetic::Or),
        AND => AtomicKind::Arithmetic(Arithmetic::And),
        XOR => AtomicKind::Arithmetic(Arithmetic::Xor),
        _ if insn.imm == opcode::XCHG => AtomicKind::Exchange,
        _ if insn.imm == opcode::CMPXCHG => AtomicKind::CompareExchange,
        _ => return Operation::Unsupported("an atomic access of an unknown kind"),
    };
    let source = insn.src.into();
    let fetches = match kind {
        AtomicKind::CompareExchange => Some(0),
        _ => (insn.imm & opcode::FETCH != 0).then_some(source),
    };
    Operation::Atomic { kind, base: insn.dst.into(), offset: insn.off, size, source, fetches }
}

fn arithmetic(insn: Insn, width: usize) -> Operation {
    let signed = match insn.off {
        0 => false,
        1 => true,
        _ if insn.op() == opcode::MOV => true,
        _ => return Operation::Unsupported("arithmetic with an unknown offset"),
    };
    let kind = match (insn.op(), signed) {
        (opcode::ADD, false) => Arithmetic::Add,
        (opcode::SUB, false) => Arithmetic::Sub,
        (opcode::MUL, false) => Arithmetic::Mul,
        (opcode::DIV, false) => Arithmetic::Div,
        (opcode::DIV, true) => Arithmetic::SignedDiv,
        (opcode::OR, false) => Arithmetic::Or,
        (opcode::AND, false) => Arithmetic::And,
        (opcode::LSH, false) => Arithmetic::ShiftLeft,
        (opcode::RSH, false) => Arithmetic::ShiftRight,
        (opcode::NEG, false) => Arithmetic::Negate,
        (opcode::MOD, false) => Arithmetic::Mod,
        (opcode::MOD, true) => Arithmetic::SignedMod,
        (opcode::XOR, false) => Arithmetic::Xor,
        (opcode::MOV, false) => Arithmetic::Move,
        (opcode::MOV, true) => return move_signed(insn, width),
        (opcode::ARSH, false) => Arithmetic::ShiftRightSigned,
        (opcode::END, false) => return swap(insn, width),
        _ => return Operation::Unsupported("an unknown arithmetic opcode"),
    };
    Operation::Arithmetic { kind, width, dst: insn.dst.into(), source: operand(insn) }
}

fn move_signed(insn: Insn, width: usize) -> Operation {
    let bits = match insn.off {
        8 => 8,
        16 => 16,
        32 if width == 64 => 32,
        opcode::ADDR_PERCPU | opcode::ADDR_SPACE_CAST if width == 64 && insn.uses_register() => {
            let kind = match insn.off {
                opcode::ADDR_PERCPU => Arithmetic::MovePerCpu,
                _ => Arithmetic::MoveSpace,
            };
            return Operation::Arithmetic { kind, width, dst: insn.dst.into(), source: operand(insn) };
        }
        _ => return Operation::Unsupported("a move with an unknown offset"),
    };
    if !insn.uses_register() {
        return Operation::Unsupported("a sign-extending move of a constant");
    }
    let kind = Arithmetic::MoveSigned(bits);
    Operation::Arithmetic { kind, width, dst: insn.dst.into(), source: operand(insn) }
}

/// ALU class: to little (a truncation here) or to big endian; ALU64 class:
/// unconditional.
fn swap(insn: Insn, class_width: usize) -> Operation {
    let width = match insn.imm {
        16 => 16,
        32 => 32,
        64 => 64,
        _ => return Operation::Unsupported("a byte swap of an unknown width"),
    };
    let reverse = match (class_width, insn.uses_register()) {
        (32, false) => false,
        (32, true) | (64, false) => true,
        _ => return Operation::Unsupported("an unknown byte swap"),
    };
    Operation::SwapBytes { dst: insn.dst.into(), width, reverse }
}

fn jump(insn: Insn, width: usize, pc: usize) -> Operation {
    let comparison = match insn.op() {
        opcode::JA if width == 64 => return goto(pc, insn.off.into()),
        opcode::JA => return goto(pc, insn.imm.into()),
        opcode::CALL | opcode::EXIT if width == 32 => return Operation::Unsupported("an unknown jump"),
        opcode::CALL => return call(insn, pc),
        opcode::EXIT => return Operation::Exit,
        opcode::JEQ => Comparison::Equal,
        opcode::JNE => Comparison::NotEqual,
        opcode::JGT => Comparison::Greater,
        opcode::JGE => Comparison::GreaterEqual,
        opcode::JLT => Comparison::Less,
        opcode::JLE => Comparison::LessEqual,
        opcode::JSGT => Comparison::SignedGreater,
        opcode::JSGE => Comparison::SignedGreaterEqual,
        opcode::JSLT => Comparison::SignedLess,
        opcode::JSLE => Comparison::SignedLessEqual,
        opcode::JSET => Comparison::AnyBit,
        _ => return Operation::Unsupported("an unknown jump"),
    };
    match after(pc, insn.off.into()) {
        Some(target) => {
            Operation::Branch { comparison, width, dst: insn.dst.into(), source: operand(insn), target }
        }
        None => Operation::Unsupported("a jump out of the program"),
    }
}

fn goto(pc: usize, distance: i64) -> Operation {
    match after(pc, distance) {
        Some(target) => Operation::Jump { target },
        None => Operation::Unsupported("a jump out of the program"),
    }
}

fn after(pc: usize, distance: i64) -> Option<usize> {
    usize::try_from(i64::try_from(pc).ok()? + 1 + distance).ok()
}

fn call(insn: Insn, pc: usize) -> Operation {
    if insn.uses_register() {
        return Operation::Unsupported("an indirect call");
    }
    match insn.src {
        0 => Operation::CallHelper { helper: insn.imm },
        opcode::PSEUDO_CALL => {
            // The JIT leaves the distance in `off` and a number in `imm`.
            let distance = if insn.off != 0 { insn.off.into() } else { insn.imm.into() };
            after(pc, distance).map_or(Operation::Unsupported("a call out of the program"), |target| {
                Operation::CallLocal { target }
            })
        }
        opcode::PSEUDO_KFUNC if insn.off != 0 => {
            Operation::Unsupported("a call of a function of a kernel module")
        }
        opcode::PSEUDO_KFUNC => Operation::CallKernel { function: insn.imm },
        _ => Operation::Unsupported("an unknown kind of call"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: [u8; 8]) -> Operation {
        Operation::decode(Insn::parse_all(&bytes).unwrap()[0], None, 10)
    }

    /// Make sure that the fields of common instructions land where they belong.
    #[test]
    fn decodes_fields() {
        assert_eq!(
            decode([0x55, 0x04, 0x03, 0, 0xc3, 0, 0, 0]),
            Operation::Branch {
                comparison: Comparison::NotEqual,
                width: 64,
                dst: 4,
                source: Operand::Immediate(195),
                target: 14
            }
        );
        assert_eq!(
            decode([0x61, 0x12, 4, 0, 0, 0, 0, 0]),
            Operation::Load { dst: 2, base: 1, offset: 4, size: 4, signed: false }
        );
        assert_eq!(
            decode([0xb4, 0x0b, 0, 0, 0xff, 0xff, 0xff, 0xff]),
            Operation::Arithmetic {
                kind: Arithmetic::Move,
                width: 32,
                dst: 11,
                source: Operand::Immediate(u64::MAX)
            }
        );
        assert!(matches!(decode([0xb7, 0x0c, 0, 0, 0, 0, 0, 0]), Operation::Unsupported(_)));
        assert!(matches!(decode([0x05, 0, 0xf0, 0xff, 0, 0, 0, 0]), Operation::Unsupported(_)));
    }

    /// Make sure that no byte string upsets the decoding.
    #[test]
    fn takes_any_bytes() {
        for code in 0..=255u8 {
            for fill in [0, 0x1b, 0x7f, 0xff] {
                let insns = Insn::parse_all(&[code, fill, fill, fill, fill, 0, 0, fill].repeat(3)).unwrap();
                let operations = Operation::decode_all(&insns);
                assert!(operations.len() >= insns.len());
            }
        }
    }
}
