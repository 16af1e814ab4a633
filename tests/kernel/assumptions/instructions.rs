//! Tests every instruction at the ends of its range: each bit of the result is
//! compared with the kernel's, for a program as it is loaded and for one whose
//! constants the kernel has blinded.

use gpumap::model::{Device, DeviceType};

use super::{array, finish, judge};
use crate::support::asm::{Asm, alu, cond, size};
use crate::support::bench::Bench;
use crate::support::kernel::{needs, release};
use crate::support::source::{MapSpec, Source};
use crate::support::sysctl::Setting;
use crate::support::{bpf, host};

/// Numbers at which instructions differ.
const NUMBERS: [u64; 9] = [
    0,
    1,
    3,
    u64::MAX,
    0x8000_0000,
    0x8000_0000_0000_0000,
    0xffff_ffff_8000_0000,
    0x7fff_ffff,
    0x0123_4567_89ab_cdef,
];
/// Operations that have a signed form.
const DIVISION: [u8; 2] = [alu::DIV, alu::MOD];

/// A minor number for each bit of the result.
fn devices() -> Vec<Device> {
    (0..64).map(|minor| Device { kind: DeviceType::Char, major: 195, minor }).collect()
}

/// The map of [`NUMBERS`], which the verifier takes for unknown.
fn numbers() -> MapSpec {
    let bytes: Vec<u8> = NUMBERS.iter().flat_map(|number| number.to_le_bytes()).collect();
    MapSpec { entries: vec![(vec![0; 4], bytes)], ..array(NUMBERS.len() as u32 * 8) }
}

/// Folds r3 into the result.
fn fold(asm: &mut Asm) {
    asm.op64(alu::MUL, 8, 0x2545_f491);
    asm.op64r(alu::XOR, 8, 3);
}

/// Returns the bit of the result (r8) that the minor number names; r6 is the
/// context.
fn return_bit(asm: &mut Asm) {
    asm.ldx(size::W, 2, 6, 8);
    asm.op64(alu::AND, 2, 63);
    asm.op64r(alu::RSH, 8, 2);
    asm.op64(alu::AND, 8, 1);
    asm.movr(0, 8);
    asm.exit();
}

/// A program that leaves a result in r8.
fn program(shape: &str, body: impl FnOnce(&mut Asm)) -> Source {
    let mut asm = Asm::new();
    asm.movr(6, 1);
    asm.mov(8, 0);
    body(&mut asm);
    return_bit(&mut asm);
    finish(asm, shape)
}

/// All pairs of numbers through `operation` on r3 and r4.
fn on_pairs(shape: &str, operation: impl Fn(&mut Asm)) -> Source {
    program(shape, |asm| {
        for left in NUMBERS {
            for right in NUMBERS {
                asm.ld64(3, left);
                asm.ld64(4, right);
                operation(asm);
                fold(asm);
            }
        }
    })
}

/// One number with each through `operation`; the verifier does not know them, so
/// that it leaves comparisons as they are.
fn on_hidden_pairs(shape: &str, left: i16, operation: impl Fn(&mut Asm)) -> Source {
    program(shape, |asm| {
        let map = asm.map(numbers());
        asm.ld_map_value(7, map, 0);
        for right in 0..NUMBERS.len() as i16 {
            asm.ldx(size::DW, 3, 7, left * 8);
            asm.ldx(size::DW, 4, 7, right * 8);
            operation(asm);
            fold(asm);
        }
    })
}

/// Asks the kernel about all programs, as they are and blinded; every answer
/// must be the kernel's, and known where constants are not blinded.
fn all(sources: &[Source]) {
    let asked = |source: &Source| {
        let loaded = bpf::load(source).unwrap_or_else(|log| {
            panic!("{}: {}", source.shape, log.lines().rev().take(4).collect::<Vec<_>>().join(" / "))
        });
        let facts = Bench::new().expect("scratch cgroups and an oracle").ask(&[&loaded], &devices());
        let allowed = facts.allowed.iter().filter(|allowed| !allowed.is_empty()).count();
        assert!(
            source.may_be_unknown || (4..=60).contains(&allowed),
            "{}: {allowed} bits are set",
            source.shape
        );
        judge(&facts)
    };
    for source in sources {
        assert_eq!(asked(source), 0, "{}: unknown answers", source.shape);
    }
    let _hardened = Setting::change("net/core/bpf_jit_harden", "2").expect("the kernel's setting");
    // A blinded program loads the address of a map's values as a number: what
    // it reads there is not known.
    for source in sources.iter().filter(|source| source.maps.is_empty()) {
        assert_eq!(asked(source), 0, "{}: unknown answers when blinded", source.shape);
    }
}

/// Whether this kernel has the fourth version of the instruction set: signed division,
/// moves that extend the sign, swaps of bytes whatever their order, long jumps.
fn has_version_4() -> bool {
    release() >= (6, 6)
}

/// Make sure that arithmetic at the ends of its range is the kernel's: the
/// smallest number divided by -1, division by 0, shifts by the width.
#[test]
fn arithmetic() {
    let Some(_host) = host::exclusive() else { return };
    let operations = [
        alu::ADD,
        alu::SUB,
        alu::MUL,
        alu::DIV,
        alu::MOD,
        alu::OR,
        alu::AND,
        alu::XOR,
        alu::LSH,
        alu::RSH,
        alu::ARSH,
        alu::MOV,
    ];
    let mut sources = Vec::new();
    for class in [0x0c, 0x0f] {
        for operation in operations {
            for signed in [0, 1] {
                if signed == 1 && !(has_version_4() && DIVISION.contains(&operation)) {
                    continue;
                }
                sources.push(on_pairs(
                    &format!("operation {operation:#x}, class {class:#x}, {signed}"),
                    |asm| {
                        // A shift by the width or more is refused.
                        if [alu::LSH, alu::RSH, alu::ARSH].contains(&operation) {
                            asm.op64(alu::AND, 4, if class == 0x0f { 63 } else { 31 });
                        }
                        asm.raw(operation | class, 3, 4, signed, 0);
                    },
                ));
            }
        }
        sources.push(on_pairs("negation", |asm| {
            asm.op64r(alu::XOR, 3, 4);
            asm.raw(alu::NEG | class & 0x07, 3, 0, 0, 0);
        }));
        for bits in [8, 16, 32] {
            if has_version_4() && (class == 0x0f || bits < 32) {
                sources.push(on_pairs("sign-extending move", |asm| {
                    asm.op64r(alu::XOR, 4, 3);
                    asm.raw(alu::MOV | class, 3, 4, bits, 0);
                }));
            }
        }
    }
    all(&sources);
}

/// Make sure that constants are extended as the kernel extends them.
#[test]
fn arithmetic_with_constants() {
    let Some(_host) = host::exclusive() else { return };
    let constants = [-1, i32::MIN, i32::MAX, 2, 7, -8];
    let mut sources = Vec::new();
    for class in [0x04, 0x07] {
        for operation in
            [alu::ADD, alu::SUB, alu::MUL, alu::DIV, alu::MOD, alu::OR, alu::AND, alu::XOR, alu::MOV]
        {
            for signed in [0, 1] {
                if signed == 1 && !(has_version_4() && DIVISION.contains(&operation)) {
                    continue;
                }
                sources.push(program(
                    &format!("constant {operation:#x}, class {class:#x}, {signed}"),
                    |asm| {
                        for left in NUMBERS {
                            for constant in constants {
                                asm.ld64(3, left);
                                asm.raw(operation | class, 3, 0, signed, constant);
                                fold(asm);
                            }
                        }
                    },
                ));
            }
        }
    }
    all(&sources);
}

/// Make sure that bytes are swapped as the kernel swaps them.
#[test]
fn byte_swaps() {
    let Some(_host) = host::exclusive() else { return };
    let mut sources = Vec::new();
    let swaps = [("to little", 0xd4), ("to big", 0xdc), ("always", 0xd7)];
    for (name, code) in swaps.into_iter().filter(|(_, code)| *code != 0xd7 || has_version_4()) {
        for width in [16, 32, 64] {
            sources.push(on_pairs(&format!("{name}, {width} bits"), |asm| {
                asm.op64r(alu::ADD, 3, 4);
                asm.raw(code, 3, 0, 0, width);
            }));
        }
    }
    all(&sources);
}

/// Make sure that every comparison of every width is the kernel's.
#[test]
fn comparisons() {
    let Some(_host) = host::exclusive() else { return };
    let mut sources = Vec::new();
    for condition in cond::ALL {
        for class in [0x0d, 0x0e] {
            for left in 0..NUMBERS.len() as i16 {
                let shape = format!("condition {condition:#x}, class {class:#x}, number {left}");
                sources.push(on_hidden_pairs(&shape, left, |asm| {
                    asm.mov(5, 1);
                    asm.raw(condition | class, 3, 4, 1, 0);
                    asm.mov(5, 0);
                    asm.movr(3, 5);
                    asm.op64(alu::ADD, 3, 77);
                }));
            }
        }
    }
    all(&sources);
}

/// Make sure that parts of the stack are read as they were written: halves of a
/// number, with and without sign, at places that only the question knows.
#[test]
fn parts_of_the_stack() {
    let Some(_host) = host::exclusive() else { return };
    if !needs(6, 6, "loads that extend the sign") {
        return;
    }
    let fill = |asm: &mut Asm| {
        asm.ld64(3, 0x89ab_cdef_fedc_8081);
        asm.stx(size::DW, 10, -8, 3);
        asm.ld64(3, 0x8070_6050_4030_2010);
        asm.stx(size::DW, 10, -16, 3);
        asm.st(size::H, 10, -12, -2);
        asm.st(size::B, 10, -10, -3);
        asm.st(size::B, 10, -9, 0x7f);
    };
    let mut sources = Vec::new();
    // Loads, and loads with sign (mode 0x80), of all sizes.
    sources.push(program("loads", |asm| {
        fill(asm);
        for code in [0x61, 0x81] {
            for width in [size::B, size::H, size::W, size::DW] {
                if (code, width) == (0x81, size::DW) {
                    continue;
                }
                for place in (-16..0).filter(|place| place % size::bytes(width) == 0) {
                    asm.raw(code | width, 3, 10, place, 0);
                    fold(asm);
                }
            }
        }
    }));
    sources.push(program("a place of the question", |asm| {
        fill(asm);
        asm.ldx(size::W, 4, 6, 8);
        asm.op64(alu::AND, 4, 12);
        asm.movr(5, 10);
        asm.op64r(alu::ADD, 5, 4);
        asm.ldx(size::W, 3, 5, -16);
        fold(asm);
        asm.st(size::W, 5, -16, 0x1234_5678);
        asm.ldx(size::DW, 3, 10, -8);
        fold(asm);
        asm.ldx(size::DW, 3, 10, -16);
        fold(asm);
    }));
    all(&sources);
}

/// Make sure that the pieces of the question are read as the kernel keeps it.
#[test]
fn pieces_of_the_question() {
    let Some(_host) = host::exclusive() else { return };
    let source = program("pieces", |asm| {
        for (width, place) in [
            (size::B, 0),
            (size::B, 1),
            (size::B, 2),
            (size::B, 3),
            (size::H, 0),
            (size::H, 2),
            (size::W, 0),
            (size::W, 4),
            (size::W, 8),
        ] {
            asm.ldx(width, 3, 6, place);
            asm.op64(alu::MUL, 3, 0x7531);
            asm.op64r(alu::XOR, 8, 3);
            asm.op64(alu::LSH, 8, 3);
        }
    });
    all(&[source]);
}

/// Make sure that atomic accesses of all kinds and sizes leave what the
/// kernel's leave, in memory and in registers.
#[test]
fn atomic_accesses() {
    let Some(_host) = host::exclusive() else { return };
    if !needs(5, 12, "atomic accesses that fetch") {
        return;
    }
    const FETCH: i32 = 1;
    let kinds =
        [0x00, FETCH, 0x40, 0x40 | FETCH, 0x50, 0x50 | FETCH, 0xa0, 0xa0 | FETCH, 0xe0 | FETCH, 0xf0 | FETCH];
    let mut sources = Vec::new();
    for width in [size::W, size::DW] {
        for kind in kinds {
            for expected in [0x8081_8283_u64, 5] {
                sources.push(program(&format!("atomic {kind:#x}, size {width:#x}, {expected:#x}"), |asm| {
                    asm.ld64(3, 0x8485_8687_8081_8283);
                    asm.stx(size::DW, 10, -8, 3);
                    asm.ld64(4, 0x7172_7374_f5f6_f7f8);
                    asm.ld64(0, if width == size::DW { 0x8485_8687_0000_0000 | expected } else { expected });
                    asm.raw(0xc3 | width, 10, 4, -8, kind);
                    for register in [0, 4] {
                        asm.movr(3, register);
                        fold(asm);
                    }
                    asm.ldx(size::DW, 3, 10, -8);
                    fold(asm);
                }));
            }
        }
    }
    all(&sources);
}

/// Make sure that long jumps lead where they lead, and that code which the
/// verifier takes out is not missed.
#[test]
fn jumps_and_dead_code() {
    let Some(_host) = host::exclusive() else { return };
    if !needs(6, 6, "long jumps") {
        return;
    }
    let source = program("jumps", |asm| {
        let (over, dead, end) = (asm.label(), asm.label(), asm.label());
        asm.mov(3, 0x5a5a);
        asm.ldx(size::W, 4, 6, 4);
        asm.jump_if(cond::EQ, 4, 195, over);
        asm.mov(3, 1);
        asm.jump_long(end);
        asm.bind(over);
        asm.mov(5, 3);
        asm.jump_if(cond::NE, 5, 3, dead);
        asm.raw(0x05, 0, 0, 0, 0);
        asm.op64(alu::MUL, 3, 0x0123_4567);
        asm.jump_long(end);
        asm.bind(dead);
        asm.mov(3, 2);
        asm.bind(end);
        fold(asm);
        fold(asm);
    });
    all(&[source]);
}
