//! What an instruction does, with every field checked: the form the decoder
//! works on.
//!
//! The rules are those of `linux/bpf.h`, mostly standardised in RFC 9669.

use super::{Insn, fields, opcode};

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
    /// A move, division or remainder of which a listing does not show which of its
    /// kinds it is; `kind` is the plain one.
    Unclear { kind: Arithmetic, width: usize, dst: usize, source: Operand },
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
    /// The address of a variable of the kernel; takes two slots.
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
    /// Not an instruction gpumap runs: its opcode, and what it is.
    Unsupported { code: u8, why: &'static str },
}

/// The dump keeps call distances in 16 signed bits; in longer programs they
/// may have been cut.
const MAX_CALL_DISTANCE: usize = i16::MAX as usize;
/// The frame pointer, which nothing writes.
const FRAME: u8 = 10;
/// The last register: the kernel's own in new kernels (7.2). In older ones r11 is, which has
/// since become where arguments on the stack are found (`BPF_REG_AX`, `linux/filter.h`).
const LAST: u8 = 12;

impl Operation {
    /// What stands at the second slot of a two-slot load.
    pub const MIDDLE: Self = Self::Unsupported { code: 0, why: "the middle of a 64-bit load" };

    /// The operation at each slot; the second slots of two-slot loads are
    /// `Unsupported`, nothing may jump there.
    pub fn decode_all(insns: &[Insn]) -> Vec<Self> {
        let mut operations = Vec::with_capacity(insns.len());
        while let Some(insn) = insns.get(operations.len()) {
            let pc = operations.len();
            operations.push(match Self::decode(*insn, insns.get(pc + 1).copied(), pc) {
                Ok(Self::CallLocal { .. }) if insns.len() > MAX_CALL_DISTANCE => {
                    unsupported(*insn, "a call over a distance that the dump cannot express")
                }
                Ok(operation) => operation,
                Err(why) => unsupported(*insn, why),
            });
            if operations[pc].slots() == 2 {
                operations.push(Self::MIDDLE);
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
            Self::Arithmetic { .. }
            | Self::Unclear { .. }
            | Self::SwapBytes { .. }
            | Self::Load { .. }
            | Self::Store { .. }
            | Self::Atomic { .. }
            | Self::Jump { .. }
            | Self::Branch { .. }
            | Self::CallHelper { .. }
            | Self::CallLocal { .. }
            | Self::CallKernel { .. }
            | Self::Exit
            | Self::Nothing
            | Self::Unsupported { .. } => 1,
        }
    }

    fn decode(insn: Insn, next: Option<Insn>, pc: usize) -> Decoded {
        if insn.code == opcode::NOT_SHOWN {
            return Err("not shown in the log that the program was read from");
        }
        if insn.is_wide() && insn.off == opcode::NOT_SHOWN_OFFSET {
            return Err("a 64-bit load, and a verifier's log does not show what it loads");
        }
        if insn.dst > LAST || insn.src > LAST {
            return Err("unknown to gpumap: it has a register above r12");
        }
        if let Some(why) = fields::without_meaning(insn) {
            return Err(why);
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

/// An operation, or what else the instruction is.
type Decoded = Result<Operation, &'static str>;

fn unsupported(insn: Insn, why: &'static str) -> Operation {
    Operation::Unsupported { code: insn.code, why }
}

/// The register that an instruction writes: any but the frame pointer.
fn written(insn: Insn) -> Result<usize, &'static str> {
    if insn.dst == FRAME { Err("a change of the frame pointer") } else { Ok(insn.dst.into()) }
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

fn load_constant(insn: Insn, next: Option<Insn>, pc: usize) -> Decoded {
    if !insn.is_wide() {
        return Err("an access to a packet");
    }
    let high = match next {
        Some(next) if (Insn { imm: 0, ..next }) == Insn::default() => next.imm.cast_unsigned(),
        _ => return Err("a 64-bit load without a second half that gpumap knows"),
    };
    let (dst, low) = (written(insn)?, insn.imm.cast_unsigned());
    // The dump names maps by id whatever the rights of the reader.
    match insn.src {
        0 => Ok(Operation::LoadConstant { dst, value: u64::from(high) << 32 | u64::from(low) }),
        opcode::PSEUDO_MAP if high == 0 => Ok(Operation::LoadMap { dst, map: low }),
        opcode::PSEUDO_MAP_VALUE => Ok(Operation::LoadMapValue { dst, map: low, offset: high }),
        opcode::PSEUDO_BTF_ID => Ok(Operation::LoadUnknown { dst }),
        // The second half has the function's number.
        opcode::PSEUDO_FUNC => match after(pc, insn.imm.into()) {
            Some(target) => Ok(Operation::LoadSubprogram { dst, target }),
            None => Err("the address of a function outside of the program"),
        },
        opcode::PSEUDO_MAP_IDX | opcode::PSEUDO_MAP_IDX_VALUE => {
            Err("a load of a map by its place in a list that the loader had")
        }
        _ => Err("a 64-bit load of a kind that gpumap does not know"),
    }
}

fn load(insn: Insn) -> Decoded {
    // A probed load differs only where the address is bad, and gpumap follows no
    // pointer that could be.
    let signed = match (insn.mode(), insn.size()) {
        (opcode::MEM | opcode::PROBE_MEM | opcode::PROBE_MEM32, _) => false,
        (opcode::MEMSX | opcode::PROBE_MEMSX | opcode::PROBE_MEM32SX, opcode::B | opcode::H | opcode::W) => {
            true
        }
        _ => return Err("a load of an unknown mode"),
    };
    let base = insn.src.into();
    Ok(Operation::Load { dst: written(insn)?, base, offset: insn.off, size: bytes(insn), signed })
}

fn store(insn: Insn, source: Operand) -> Decoded {
    match insn.mode() {
        opcode::MEM | opcode::PROBE_MEM32 => {
            Ok(Operation::Store { base: insn.dst.into(), offset: insn.off, size: bytes(insn), source })
        }
        opcode::NOSPEC if insn.code == opcode::ST | opcode::NOSPEC => Ok(Operation::Nothing),
        _ => Err("a store of an unknown mode"),
    }
}

fn atomic(insn: Insn) -> Decoded {
    const ADD: i32 = opcode::ADD as i32;
    const OR: i32 = opcode::OR as i32;
    const AND: i32 = opcode::AND as i32;
    const XOR: i32 = opcode::XOR as i32;
    let kind = match insn.imm {
        // Since Linux 6.15, of any size: a plain load or store in all that
        // one program can see of it.
        opcode::LOAD_ACQ => {
            let base = insn.src.into();
            let (dst, size) = (written(insn)?, bytes(insn));
            return Ok(Operation::Load { dst, base, offset: insn.off, size, signed: false });
        }
        opcode::STORE_REL => {
            let source = Operand::Register(insn.src.into());
            return Ok(Operation::Store {
                base: insn.dst.into(),
                offset: insn.off,
                size: bytes(insn),
                source,
            });
        }
        opcode::XCHG => AtomicKind::Exchange,
        opcode::CMPXCHG => AtomicKind::CompareExchange,
        imm => AtomicKind::Arithmetic(match imm & !opcode::FETCH {
            ADD => Arithmetic::Add,
            OR => Arithmetic::Or,
            AND => Arithmetic::And,
            XOR => Arithmetic::Xor,
            _ => return Err("an atomic access of an unknown kind"),
        }),
    };
    let size = match bytes(insn) {
        size @ (4 | 8) => size,
        _ => return Err("an atomic access of an unknown size"),
    };
    let source = insn.src.into();
    let fetches = match kind {
        AtomicKind::CompareExchange => Some(0),
        AtomicKind::Exchange | AtomicKind::Arithmetic(_) => (insn.imm & opcode::FETCH != 0).then_some(source),
    };
    Ok(Operation::Atomic { kind, base: insn.dst.into(), offset: insn.off, size, source, fetches })
}

fn arithmetic(insn: Insn, width: usize) -> Decoded {
    if insn.off == opcode::NOT_SHOWN_OFFSET {
        let kind = match insn.op() {
            opcode::MOV => Arithmetic::Move,
            opcode::DIV => Arithmetic::Div,
            opcode::MOD => Arithmetic::Mod,
            _ => return Err("an unknown arithmetic instruction"),
        };
        return Ok(Operation::Unclear { kind, width, dst: written(insn)?, source: operand(insn) });
    }
    let kind = match (insn.op(), insn.off) {
        (opcode::ADD, 0) => Arithmetic::Add,
        (opcode::SUB, 0) => Arithmetic::Sub,
        (opcode::MUL, 0) => Arithmetic::Mul,
        (opcode::DIV, 0) => Arithmetic::Div,
        (opcode::DIV, 1) => Arithmetic::SignedDiv,
        (opcode::OR, 0) => Arithmetic::Or,
        (opcode::AND, 0) => Arithmetic::And,
        (opcode::LSH, 0) => shift(insn, width, Arithmetic::ShiftLeft)?,
        (opcode::RSH, 0) => shift(insn, width, Arithmetic::ShiftRight)?,
        (opcode::NEG, 0) if !insn.uses_register() => Arithmetic::Negate,
        (opcode::MOD, 0) => Arithmetic::Mod,
        (opcode::MOD, 1) => Arithmetic::SignedMod,
        (opcode::XOR, 0) => Arithmetic::Xor,
        (opcode::MOV, 0) => Arithmetic::Move,
        (opcode::MOV, _) => unusual_move(insn, width)?,
        (opcode::ARSH, 0) => shift(insn, width, Arithmetic::ShiftRightSigned)?,
        (opcode::END, 0) => return swap(insn, width),
        _ => return Err("an unknown arithmetic instruction"),
    };
    Ok(Operation::Arithmetic { kind, width, dst: written(insn)?, source: operand(insn) })
}

fn shift(insn: Insn, width: usize, kind: Arithmetic) -> Result<Arithmetic, &'static str> {
    let is_short = usize::try_from(insn.imm).is_ok_and(|by| by < width);
    if insn.uses_register() || is_short { Ok(kind) } else { Err("a shift by more bits than there are") }
}

/// A move whose offset is not 0; only those of registers may have one.
fn unusual_move(insn: Insn, width: usize) -> Result<Arithmetic, &'static str> {
    match (insn.off, width) {
        (8, _) => Ok(Arithmetic::MoveSigned(8)),
        (16, _) => Ok(Arithmetic::MoveSigned(16)),
        (32, 64) => Ok(Arithmetic::MoveSigned(32)),
        (opcode::ADDR_PERCPU, 64) => Ok(Arithmetic::MovePerCpu),
        (opcode::ADDR_SPACE_CAST, 64) if matches!(insn.imm, opcode::TO_KERNEL | opcode::TO_USER) => {
            Ok(Arithmetic::MoveSpace)
        }
        _ => Err("a move with an unknown offset"),
    }
}

/// ALU class: to little (a truncation here) or to big endian; ALU64 class:
/// unconditional.
fn swap(insn: Insn, class_width: usize) -> Decoded {
    let width = match insn.imm {
        16 => 16,
        32 => 32,
        64 => 64,
        _ => return Err("a byte swap of an unknown width"),
    };
    let reverse = match (class_width, insn.uses_register()) {
        (32, false) => false,
        (32, true) | (64, false) => true,
        _ => return Err("an unknown byte swap"),
    };
    Ok(Operation::SwapBytes { dst: written(insn)?, width, reverse })
}

fn jump(insn: Insn, width: usize, pc: usize) -> Decoded {
    let comparison = match insn.op() {
        opcode::JA => return goto(insn, pc),
        opcode::CALL => return call(insn, pc),
        opcode::EXIT if insn.code == opcode::JMP | opcode::EXIT => return Ok(Operation::Exit),
        opcode::JCOND if insn.code == opcode::JMP | opcode::JCOND && insn.src == opcode::MAY_GOTO => {
            return Err("may_goto, which depends on how long a loop takes");
        }
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
        _ => return Err("an unknown jump"),
    };
    let target = after(pc, insn.off.into()).ok_or(OUTSIDE)?;
    Ok(Operation::Branch { comparison, width, dst: insn.dst.into(), source: operand(insn), target })
}

const OUTSIDE: &str = "a jump out of the program";

fn goto(insn: Insn, pc: usize) -> Decoded {
    let distance = match (insn.class(), insn.uses_register()) {
        (opcode::JMP, false) => insn.off.into(),
        (opcode::JMP32, false) => insn.imm.into(),
        (opcode::JMP, true) => return Err("gotox, a jump through a table, which gpumap does not follow"),
        _ => return Err("an unknown jump"),
    };
    after(pc, distance).map(|target| Operation::Jump { target }).ok_or(OUTSIDE)
}

fn after(pc: usize, distance: i64) -> Option<usize> {
    usize::try_from(i64::try_from(pc).ok()? + 1 + distance).ok()
}

fn call(insn: Insn, pc: usize) -> Decoded {
    if insn.code != opcode::JMP | opcode::CALL {
        return Err("an indirect call");
    }
    match insn.src {
        0 => Ok(Operation::CallHelper { helper: insn.imm }),
        opcode::PSEUDO_CALL => {
            // The JIT leaves the distance in `off` and a number in `imm`.
            let distance = if insn.off != 0 { insn.off.into() } else { insn.imm.into() };
            after(pc, distance)
                .map(|target| Operation::CallLocal { target })
                .ok_or("a call out of the program")
        }
        opcode::PSEUDO_KFUNC if insn.off != 0 => Err("a call of a function of a kernel module"),
        opcode::PSEUDO_KFUNC => Ok(Operation::CallKernel { function: insn.imm }),
        _ => Err("an unknown kind of call"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: [u8; 8]) -> Operation {
        let insn = Insn::parse_all(&bytes).unwrap()[0];
        Operation::decode(insn, None, 10).unwrap_or_else(|why| unsupported(insn, why))
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
        assert!(matches!(decode([0xb7, 0x0d, 0, 0, 0, 0, 0, 0]), Operation::Unsupported { .. }));
        assert!(matches!(decode([0x05, 0, 0xf0, 0xff, 0, 0, 0, 0]), Operation::Unsupported { .. }));
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
