//! Programs whose exact answer has no compact form: products of whole numbers.
//! The decoder may give up on them, but has to say so.

use super::lists;
use super::rules::{major, minor};
use super::stacks::{LEVELS, Placement, Stack};
use crate::support::asm::{Asm, alu, cond, size};
use crate::support::bpf::MULTI;
use crate::support::rng::Rng;
use crate::support::source::Source;

/// A heavy program, often beside a light one.
pub fn stack(rng: &mut Rng) -> Stack {
    let mut sources = vec![program(rng)];
    if rng.chance(60) {
        sources.insert(rng.below(2) as usize, lists::slurm(rng));
    }
    let place = |source| Placement { level: LEVELS - 1, flags: MULTI, link: false, replace: false, source };
    Stack(sources.into_iter().map(place).collect())
}

/// A bit of a product decides, or is computed and thrown away.
fn program(rng: &mut Rng) -> Source {
    let (major, minor) = (major(rng), minor(rng));
    let mut asm = Asm::new();
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    let light = asm.label();
    asm.jump_if(cond::EQ, 2, major as i32, light);
    asm.movr(4, 2);
    for _ in 0..rng.between(1, 4) {
        let (op, from) =
            (rng.pick(&[alu::MUL, alu::MUL, alu::ADD, alu::XOR, alu::MOD]), rng.pick(&[2, 3, 4]));
        asm.op64r(op, 4, from);
    }
    asm.op64(alu::RSH, 4, rng.below(24) as i32);
    asm.op64(alu::AND, 4, if rng.chance(80) { 1 } else { 0 });
    asm.movr(0, 4);
    asm.exit();
    asm.bind(light);
    asm.mov(0, rng.below(2) as i32);
    asm.exit();
    Source { may_be_unknown: true, hints: vec![(major, minor)], ..asm.finish("heavy") }
}
