//! Many programs in one decoder: what is known of one that is asked alone is known
//! of it beside the others; no privileges needed.

use crate::support::asm::{Asm, alu, cond, size};
use gpumap::observation::{Answer, HexBytes, Program};
use gpumap::policy::{Combination, Context, Decoder};

const PROGRAMS: u32 = 32;
/// Those of them that can be drawn.
const DRAWN: u32 = 8;

const CONTEXT: Context<'static> =
    Context { maps: &[], cgroups: &[], cgroup_id: None, combination: Combination::Retval };

/// A program that multiplies numbers by a constant of its own, for one driver, and
/// decides by a part of the result.
fn multiplies(number: u32) -> Program {
    let mut asm = Asm::new();
    let (others, denied) = (asm.label(), asm.label());
    asm.ldx(size::W, 3, 1, 4);
    asm.ldx(size::W, 4, 1, 8);
    asm.jump_if(cond::NE, 3, 195, others);
    asm.op64(alu::AND, 4, 0xffff);
    asm.op64(alu::MUL, 4, (2 * number + 0x4651).cast_signed());
    asm.op64(alu::RSH, 4, 7);
    asm.op64(alu::MOD, 4, 29);
    asm.jump_if(cond::EQ, 4, 3, denied);
    asm.bind(others);
    asm.verdict(1);
    asm.bind(denied);
    asm.verdict(0);
    let xlated = Answer::Known(HexBytes(asm.finish("").bytes()));
    Program { id: number + 1, xlated, ..Program::default() }
}

/// A program that is too complex to be drawn.
fn hashes(number: u32) -> Program {
    let mut asm = Asm::new();
    asm.ldx(size::W, 3, 1, 4);
    asm.ldx(size::W, 4, 1, 8);
    asm.op64(alu::LSH, 3, 20);
    asm.op64r(alu::OR, 3, 4);
    asm.op64(alu::MUL, 3, (2 * number + 0x4651).cast_signed());
    asm.op64(alu::XOR, 3, 0x5bd1);
    asm.op64(alu::MOD, 3, 5);
    let even = asm.label();
    asm.jump_if(cond::NE, 3, 0, even);
    asm.verdict(0);
    asm.bind(even);
    asm.verdict(1);
    let xlated = Answer::Known(HexBytes(asm.finish("").bytes()));
    Program { id: number + 1, xlated, ..Program::default() }
}

/// Make sure that programs that can be drawn alone are drawn after many that cannot,
/// and that all is done in a bounded time.
#[test]
fn complex_programs_leave_others_their_share() {
    let drawn: Vec<Program> = (0..DRAWN).map(multiplies).collect();
    let all: Vec<Program> = (DRAWN..PROGRAMS).map(hashes).chain(drawn.iter().cloned()).collect();
    let decoder = &mut Decoder::of_programs(&all, &gpumap::analyse::TimeLimit::default());
    let mut unknown = Vec::new();
    for program in &all {
        let policy = decoder.policy(&[program], &CONTEXT);
        if !decoder.is_known(policy) && program.id <= DRAWN {
            unknown.push(program.id);
        }
    }
    assert!(unknown.is_empty(), "unknown beside others: {unknown:?}");
}
