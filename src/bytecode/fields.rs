//! Which fields an instruction uses. The kernel refuses a program that puts anything
//! into another field (`check_alu_op`, `check_cond_jmp_op`, `resolve_pseudo_ldimm64`,
//! `kernel/bpf/verifier.c`): newer kernels give such bits a meaning, so gpumap takes
//! none of them for nothing.

use super::{Insn, opcode};

/// Fields of an instruction as bits.
type Fields = u8;
const DST: Fields = 1;
const SRC: Fields = 2;
const OFF: Fields = 4;
const IMM: Fields = 8;

/// Why `insn` is none that gpumap knows: a field holds something that has no meaning
/// there. Nothing if all that it holds is used.
pub(super) fn without_meaning(insn: Insn) -> Option<&'static str> {
    let used = used(insn);
    let is_spare = |field: Fields, holds: bool| used & field == 0 && holds;
    match () {
        () if is_spare(DST, insn.dst != 0) => Some("unknown to gpumap: it has a destination register"),
        () if is_spare(SRC, insn.src != 0) => Some("unknown to gpumap: it has a source register"),
        () if is_spare(OFF, insn.off != 0) => Some("unknown to gpumap: it has an offset"),
        () if is_spare(IMM, insn.imm != 0) => Some("unknown to gpumap: it has an immediate"),
        () => None,
    }
}

fn used(insn: Insn) -> Fields {
    match insn.class() {
        opcode::LD if insn.is_wide() => DST | SRC | IMM,
        opcode::LD => SRC | IMM,
        opcode::LDX => DST | SRC | OFF,
        opcode::ST if insn.mode() == opcode::NOSPEC => 0,
        opcode::ST => DST | OFF | IMM,
        opcode::STX if matches!(insn.mode(), opcode::ATOMIC | opcode::PROBE_ATOMIC) => DST | SRC | OFF | IMM,
        opcode::STX => DST | SRC | OFF,
        opcode::JMP | opcode::JMP32 => jump(insn),
        _ => arithmetic(insn),
    }
}

fn arithmetic(insn: Insn) -> Fields {
    let source = if insn.uses_register() { SRC } else { IMM };
    match insn.op() {
        opcode::NEG => DST,
        opcode::END => DST | IMM,
        opcode::DIV | opcode::MOD => DST | OFF | source,
        opcode::MOV if is_zero_extension(insn) => DST | SRC | IMM,
        opcode::MOV if insn.uses_register() && insn.off == opcode::ADDR_SPACE_CAST => DST | SRC | OFF | IMM,
        opcode::MOV if insn.uses_register() => DST | SRC | OFF,
        _ => DST | source,
    }
}

/// What the verifier adds where the machine does not clear the upper half
/// (`BPF_ZEXT_REG`, `linux/filter.h`).
fn is_zero_extension(insn: Insn) -> bool {
    let plain =
        Insn { code: opcode::ALU | opcode::MOV | opcode::X, dst: insn.dst, src: insn.dst, off: 0, imm: 1 };
    insn == plain
}

fn jump(insn: Insn) -> Fields {
    match (insn.class(), insn.op()) {
        (opcode::JMP, opcode::CALL) if insn.src == 0 => IMM,
        // The distance is in one of the two, a number of the kernel in the other.
        (_, opcode::CALL) => SRC | OFF | IMM,
        (_, opcode::EXIT) => 0,
        (opcode::JMP, opcode::JA) if insn.uses_register() => DST,
        (opcode::JMP, opcode::JA) => OFF,
        (_, opcode::JA) => IMM,
        (_, opcode::JCOND) => SRC | OFF,
        _ if insn.uses_register() => DST | SRC | OFF,
        _ => DST | OFF | IMM,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Operation;
    use super::*;

    /// Valid instructions, each with the fields that the kernel requires to be 0.
    const FORMS: [(Insn, Fields); 29] = [
        (insn(0x07, 3, 0, 0, 5), SRC | OFF),
        (insn(0x0f, 3, 4, 0, 0), OFF | IMM),
        (insn(0x37, 3, 0, 1, 5), SRC),
        (insn(0x9c, 3, 4, 1, 0), IMM),
        (insn(0x67, 3, 0, 0, 5), SRC | OFF),
        (insn(0x87, 3, 0, 0, 0), SRC | OFF | IMM),
        (insn(0x84, 3, 0, 0, 0), SRC | OFF | IMM),
        (insn(0xb7, 3, 0, 0, 5), SRC | OFF),
        (insn(0xbf, 3, 4, 8, 0), IMM),
        (insn(0xbf, 3, 4, -1, 0), IMM),
        (insn(0xbc, 3, 4, 0, 0), IMM),
        (insn(0xd4, 3, 0, 0, 16), SRC | OFF),
        (insn(0xd7, 3, 0, 0, 32), SRC | OFF),
        (insn(0x61, 3, 4, 8, 0), IMM),
        (insn(0x91, 3, 4, 8, 0), IMM),
        (insn(0x62, 3, 0, 8, 5), SRC),
        (insn(0x63, 3, 4, 8, 0), IMM),
        (insn(0xc2, 0, 0, 0, 0), DST | SRC | OFF | IMM),
        (insn(0x05, 0, 0, 2, 0), DST | SRC | IMM),
        (insn(0x06, 0, 0, 0, 2), DST | SRC | OFF),
        (insn(0x55, 3, 0, 2, 5), SRC),
        (insn(0x5d, 3, 4, 2, 0), IMM),
        (insn(0xc6, 3, 0, 2, 5), SRC),
        (insn(0xae, 3, 4, 2, 0), IMM),
        (insn(0x85, 0, 0, 0, 5), DST | OFF),
        (insn(0x85, 0, 1, 0, 2), DST),
        (insn(0x85, 0, 2, 0, 5), DST | OFF),
        (insn(0x95, 0, 0, 0, 0), DST | SRC | OFF | IMM),
        (insn(0x18, 3, 1, 0, 5), OFF),
    ];

    const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
        Insn { code, dst, src, off, imm }
    }

    fn first(insns: [Insn; 2]) -> Operation {
        Operation::decode_all(&insns)[0]
    }

    fn is_known(insns: [Insn; 2]) -> bool {
        !matches!(first(insns), Operation::Unsupported { .. })
    }

    /// `insn` with one bit changed of those after the opcode.
    fn flipped(insn: Insn, bit: usize) -> Insn {
        let bytes = (u64::from_le_bytes(insn.bytes()) ^ 1 << (8 + bit)).to_le_bytes();
        Insn::parse_all(&bytes).unwrap()[0]
    }

    /// Make sure that an instruction with any bit where there should be none is
    /// unknown, and is named.
    #[test]
    fn no_bit_is_passed_over() {
        let fields = [(DST, 0..4), (SRC, 4..8), (OFF, 8..24), (IMM, 24..56)];
        let none = Insn::default();
        for (insn, spare) in FORMS {
            assert!(is_known([insn, none]), "{insn:?}");
            for (field, bits) in fields.clone() {
                for bit in bits.filter(|_| spare & field != 0) {
                    let wrong = first([flipped(insn, bit), none]);
                    let code = insn.code;
                    assert!(
                        matches!(wrong, Operation::Unsupported { code: named, .. } if named == code),
                        "{insn:?}, {bit}"
                    );
                }
            }
            if insn.is_wide() {
                assert!((0..56).all(|bit| !is_known([insn, flipped(none, bit)])), "{insn:?}");
            }
        }
    }

    /// Make sure that what the verifier itself writes is read.
    #[test]
    fn the_verifiers_own() {
        let none = Insn::default();
        assert!(is_known([insn(0xbc, 3, 3, 0, 1), none]), "a zero extension");
        assert!(!is_known([insn(0xbc, 3, 4, 0, 1), none]), "no zero extension");
        assert!(!is_known([insn(0xbf, 3, 3, 0, 1), none]), "no zero extension");
        assert!(is_known([insn(0xbf, 3, 4, 1, 1 << 16), none]), "a cast to an arena");
        assert!(!is_known([insn(0xbf, 3, 4, 1, 2), none]), "no cast");
        assert!(is_known([insn(0x85, 0, 1, 7, 3), none]), "a call with its number");
        assert!(is_known([insn(0x18, 3, 4, 0, 7), insn(0, 0, 0, 0, 3)]), "a function with its number");
    }

    /// Make sure that gotox and its like are no other jump.
    #[test]
    fn unusual_jumps() {
        for (insn, name) in [(insn(0x0d, 3, 0, 0, 0), "gotox"), (insn(0xe5, 0, 0, 2, 0), "may_goto")] {
            let found = first([insn, Insn::default()]);
            assert!(
                matches!(found, Operation::Unsupported { why, .. } if why.starts_with(name)),
                "{found:?}"
            );
        }
        for code in [0x0e, 0x86, 0x8d, 0x96, 0x9d, 0xe6, 0xed, 0x8c, 0x8f, 0xdf, 0x99, 0xca] {
            assert!(!is_known([insn(code, 0, 0, 0, 0), Insn::default()]), "{code:#x}");
        }
    }
}
