//! Asks the kernel which bits of an instruction it takes: what it refuses to load for
//! the bits alone, gpumap does not know either.

use gpumap::bytecode::{Insn, Operation};

use crate::support::kernel::needs;
use crate::support::{bpf, host};

/// Instructions that load, with r1 as the context and a number in all others: opcode,
/// destination, source, offset, immediate.
const FORMS: &[(u8, u8, u8, i16, i32)] = &[
    (0x07, 3, 0, 0, 5),
    (0x0f, 3, 4, 0, 0),
    (0x04, 3, 0, 0, 5),
    (0x1c, 3, 4, 0, 0),
    (0x27, 3, 0, 0, 5),
    (0x37, 3, 0, 0, 5),
    (0x37, 3, 0, 1, 5),
    (0x3c, 3, 4, 1, 0),
    (0x9f, 3, 4, 0, 0),
    (0x67, 3, 0, 0, 5),
    (0x7c, 3, 4, 0, 0),
    (0xc7, 3, 0, 0, 5),
    (0x87, 3, 0, 0, 0),
    (0x84, 3, 0, 0, 0),
    (0xa7, 3, 0, 0, 5),
    (0xb7, 3, 0, 0, 5),
    (0xb4, 3, 0, 0, 5),
    (0xbf, 3, 4, 0, 0),
    (0xbf, 3, 4, 8, 0),
    (0xbf, 3, 4, 32, 0),
    (0xbc, 3, 4, 16, 0),
    (0xd4, 3, 0, 0, 16),
    (0xdc, 3, 0, 0, 32),
    (0xd7, 3, 0, 0, 64),
    (0x61, 3, 1, 4, 0),
    (0x69, 3, 10, -8, 0),
    (0x79, 3, 10, -8, 0),
    (0x91, 3, 10, -8, 0),
    (0x81, 3, 10, -8, 0),
    (0x62, 10, 0, -8, 5),
    (0x7a, 10, 0, -8, 5),
    (0x63, 10, 4, -8, 0),
    (0x7b, 10, 4, -8, 0),
    (0xdb, 10, 4, -8, 0),
    (0xdb, 10, 4, -8, 1),
    (0xc3, 10, 4, -8, 0x51),
    (0xdb, 10, 4, -8, 0xe1),
    (0xdb, 10, 4, -8, 0xf1),
    (0xdb, 3, 10, -8, 0x100),
    (0xdb, 10, 4, -8, 0x110),
    (0x05, 0, 0, 1, 0),
    (0x06, 0, 0, 0, 1),
    (0x0d, 3, 0, 0, 0),
    (0xe5, 0, 0, 1, 0),
    (0x15, 3, 0, 1, 5),
    (0x5d, 3, 4, 1, 0),
    (0x45, 3, 0, 1, 5),
    (0xc6, 3, 0, 1, 5),
    (0xae, 3, 4, 1, 0),
    (0x85, 0, 0, 0, 5),
    (0x95, 0, 0, 0, 0),
    (0x18, 3, 0, 0, 5),
];

/// What the verifier says of bits that it knows no meaning of (`kernel/bpf/verifier.c`).
const NO_MEANING: [&str; 6] = [
    "reserved fields",
    "unknown opcode",
    "invalid BPF_",
    "invalid bpf_ld_imm64",
    "unrecognized bpf_ld_imm64",
    "unknown insn class",
];

fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn { code, dst, src, off, imm }
}

/// A program around `middle`, which may write any register but r10.
fn program(middle: &[Insn]) -> (Vec<Insn>, usize) {
    let mut insns = vec![insn(0x7a, 10, 0, -8, 1), insn(0x7a, 10, 0, -16, 1)];
    insns.extend((0..10).filter(|register| *register != 1).map(|register| insn(0xb7, register, 0, 0, 1)));
    let place = insns.len();
    insns.extend(middle);
    insns.extend([insn(0xb7, 2, 0, 0, 1), insn(0xb7, 0, 0, 0, 1), insn(0x95, 0, 0, 0, 0)]);
    (insns, place)
}

/// Whether the kernel refuses the program for the bits of an instruction.
fn has_no_meaning(insns: &[Insn]) -> bool {
    let bytes: Vec<u8> = insns.iter().flat_map(|insn| insn.bytes()).collect();
    let refused = bpf::load_bytes("fields", &bytes, true, true).err();
    refused.is_some_and(|log| NO_MEANING.iter().any(|says| log.contains(says)))
}

/// Whether only the verifier itself writes such an instruction: a load, store or atomic
/// access in a mode of its own, a speculation barrier.
fn is_verifiers_own(insn: Insn) -> bool {
    match insn.class() {
        0x01 => [0x20, 0x40, 0xa0, 0xc0].contains(&insn.mode()),
        0x02 => insn.mode() == 0xa0 || insn.code == 0xc2,
        0x03 => [0xa0, 0xe0].contains(&insn.mode()),
        _ => false,
    }
}

/// Make sure that gpumap gives no meaning to an instruction that the kernel knows none
/// of: every instruction with every single bit changed.
#[test]
fn bits_without_meaning() {
    let Some(_host) = host::shared() else { return };
    if !needs(6, 15, "every instruction that gpumap reads") {
        return;
    }
    let mut refused = 0;
    for &(code, dst, src, off, imm) in FORMS {
        let first = insn(code, dst, src, off, imm);
        let whole = if first.is_wide() { vec![first, Insn::default()] } else { vec![first] };
        for bit in 0..whole.len() * 64 {
            let mut bytes: Vec<u8> = whole.iter().flat_map(|insn| insn.bytes()).collect();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let (insns, place) = program(&Insn::parse_all(&bytes).expect("whole slots"));
            if is_verifiers_own(insns[place]) || !has_no_meaning(&insns) {
                continue;
            }
            refused += 1;
            let read = Operation::decode_all(&insns)[place];
            // The lowest offset is the mark of listings for one that they do not show.
            let is_known = !matches!(read, Operation::Unsupported { .. } | Operation::Unclear { .. });
            assert!(!is_known, "{first:?}, bit {bit}: {read:?}");
        }
    }
    assert!(refused > 800, "the kernel refused {refused}");
}
