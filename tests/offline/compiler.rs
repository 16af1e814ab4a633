//! Compares the compiler of policies with the decoder: a program that is compiled
//! from a policy must be decoded as that policy.

use std::collections::BTreeSet;

use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::generate::random::{self, PLAIN};
use crate::support::generate::writers::{self, CgroupIds};
use crate::support::rng::Rng;
use gpumap::bytecode::{Insn, opcode};
use gpumap::observation::{Answer, HexBytes, Program};
use gpumap::policy::{Combination, CompileError, Context, Decoder, Policy};

const CASES: u64 = 120;

fn decode(decoder: &mut Decoder, insns: &[Insn]) -> Policy {
    let bytes = insns.iter().flat_map(|insn| insn.bytes()).collect();
    let program = Program { xlated: Answer::Known(HexBytes(bytes)), ..Program::default() };
    let context = Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Combination::Retval };
    decoder.policy(&[&program], &context)
}

/// Compiles a program's policy, makes sure that it is read again as the same,
/// and returns the new program.
fn round_trip(insns: &[Insn], what: &str) -> Vec<Insn> {
    let decoder = &mut Decoder::new();
    let policy = decode(decoder, insns);
    assert!(decoder.is_known(policy), "{what}: {:?}", decoder.reasons(policy));
    let compiled = decoder.compile(policy).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(decode(decoder, &compiled), policy, "{what}: {compiled:?}");
    compiled
}

/// Make sure that every writer's policy, and policies that nobody writes by
/// hand, survive being compiled.
#[test]
fn compiled_policies_are_read_as_they_were() {
    let number = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let first = number("GPUMAP_SEED").unwrap_or(1);
    for seed in first..first + number("GPUMAP_CASES").unwrap_or(CASES) {
        let mut rng = Rng::new(seed);
        let source = if seed.is_multiple_of(3) {
            random::program(&mut rng, PLAIN, 10)
        } else {
            writers::any(&mut rng, CgroupIds { cgroup_id: 1 })
        };
        if source.maps.is_empty() {
            round_trip(&source.insns, &format!("seed {seed}"));
        }
    }
}

/// A program that loads the minor number into r5.
fn about_minors(code: impl FnOnce(&mut Asm)) -> Vec<Insn> {
    let mut asm = Asm::new();
    asm.ldx(size::W, 5, 1, 8);
    code(&mut asm);
    asm.finish("about minors").insns
}

/// Make sure that a policy of one verdict is two instructions.
#[test]
fn constant_policies_are_short() {
    for verdict in [0, 1] {
        let mut asm = Asm::new();
        asm.verdict(verdict);
        assert_eq!(round_trip(&asm.finish("constant").insns, "constant").len(), 2);
    }
}

/// Make sure that a pattern of bits is tested as bits: there are half a million
/// ranges of odd numbers.
#[test]
fn patterns_are_tested_by_their_bits() {
    let odd = about_minors(|asm| {
        let allow = asm.label();
        asm.jump_if(cond::SET, 5, 1, allow);
        asm.verdict(0);
        asm.bind(allow);
        asm.verdict(1);
    });
    assert_eq!(round_trip(&odd, "odd minors").len(), 6);
    let hashed = about_minors(|asm| {
        asm.op64(alu::MUL, 5, 0x9e37);
        asm.op64(alu::RSH, 5, 3);
        asm.op64(alu::AND, 5, 1);
        asm.movr(0, 5);
        asm.exit();
    });
    round_trip(&hashed, "hashed minors");
}

/// Denies `count` minor numbers without a pattern (Knuth's multiplicative hash).
fn scattered(count: u32) -> (Vec<Insn>, Vec<u32>) {
    let numbers: Vec<u32> = (0..count).map(|number| number.wrapping_mul(0x9e37_79b1) >> 12).collect();
    let insns = about_minors(|asm| {
        let deny = asm.label();
        numbers.iter().for_each(|number| asm.jump_if(cond::EQ, 5, number.cast_signed(), deny));
        asm.verdict(1);
        asm.bind(deny);
        asm.verdict(0);
    });
    (insns, numbers)
}

/// Make sure that a thousand rules take two tests each at most.
#[test]
fn many_rules_are_searched_by_halves() {
    let compiled = round_trip(&scattered(1_000).0, "scattered minors");
    assert!(compiled.len() < 4_000, "{} instructions", compiled.len());
}

/// Runs a compiled program that tests the minor number alone.
fn run(insns: &[Insn], minor: u32) -> i32 {
    let (mut at, mut result) = (0, 0);
    loop {
        let insn = insns[at];
        let number = insn.imm.cast_unsigned();
        let jumps = match insn.code {
            0x61 => false,
            0xb7 => {
                result = insn.imm;
                false
            }
            0x95 => return result,
            0x05 => true,
            0x06 => {
                at += usize::try_from(insn.imm).unwrap();
                false
            }
            0xa5 => minor < number,
            0x35 => minor >= number,
            0x45 => minor & number != 0,
            code => panic!("{code:#x}"),
        };
        at += 1 + if jumps { usize::try_from(insn.off).unwrap() } else { 0 };
    }
}

/// Make sure that jumps beyond the reach of 16 bits arrive. So many rules in
/// this form are more than the decoder follows, so the program is run instead.
#[test]
fn long_jumps_arrive() {
    let (insns, numbers) = scattered(14_000);
    let decoder = &mut Decoder::new();
    let policy = decode(decoder, &insns);
    let compiled = decoder.compile(policy).expect("a program");
    assert!(compiled.iter().any(|insn| insn.code == opcode::JMP32 | opcode::JA), "{}", compiled.len());
    let denied: BTreeSet<u32> = numbers.iter().copied().collect();
    for number in numbers {
        for minor in [number, number ^ 1, number.saturating_sub(1)] {
            assert_eq!(run(&compiled, minor), i32::from(!denied.contains(&minor)), "{minor}");
        }
    }
}

/// Make sure that a policy which is not wholly known is not compiled.
#[test]
fn unknown_policies_are_refused() {
    let mut asm = Asm::new();
    asm.call(helper::PRANDOM);
    asm.op64(alu::AND, 0, 1);
    asm.exit();
    let decoder = &mut Decoder::new();
    let policy = decode(decoder, &asm.finish("random").insns);
    let refused = decoder.compile(policy);
    assert!(matches!(&refused, Err(CompileError::Unknown(reasons)) if !reasons.is_empty()), "{refused:?}");
}
