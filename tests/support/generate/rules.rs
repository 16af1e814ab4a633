//! Random device rules, and the pieces that several writers share.

use crate::support::asm::{Asm, Label, alu, cond, size};
use crate::support::rng::Rng;

/// `BPF_DEVCG_DEV_BLOCK`.
pub const BLOCK: i32 = 1;
/// `BPF_DEVCG_DEV_CHAR`.
pub const CHAR: i32 = 2;
/// Mknod, read and write: a rule with this mask has no access test.
pub const RWM: i32 = 7;

/// One line of a device list; `None` is a wildcard.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub kind: Option<i32>,
    pub major: Option<u32>,
    pub minor: Option<u32>,
    pub access: i32,
    pub allow: bool,
}

/// A list that a site could have.
pub fn list(rng: &mut Rng, most: u32) -> Vec<Rule> {
    (0..rng.below(most + 1)).map(|_| rule(rng)).collect()
}

pub fn rule(rng: &mut Rng) -> Rule {
    Rule {
        kind: Some(if rng.chance(80) { CHAR } else { BLOCK }),
        major: rng.chance(90).then(|| major(rng)),
        minor: rng.chance(80).then(|| minor(rng)),
        access: if rng.chance(50) { RWM } else { i32::try_from(rng.between(1, 7)).unwrap() },
        allow: rng.chance(50),
    }
}

pub fn major(rng: &mut Rng) -> u32 {
    match rng.below(10) {
        0..6 => rng.pick(&[195, 226, 1, 5, 10, 136, 235, 8, 510]),
        6 => rng.below(4),
        _ => rng.below(4096),
    }
}

pub fn minor(rng: &mut Rng) -> u32 {
    match rng.below(10) {
        0..6 => rng.below(9),
        6 | 7 => rng.pick(&[128, 254, 255, 256, 1023, 0xfffff]),
        _ => rng.below(1 << 20),
    }
}

/// Devices for the probe points: what the rules name.
pub fn hints(rules: &[Rule]) -> Vec<(u32, u32)> {
    rules.iter().map(|rule| (rule.major.unwrap_or(3), rule.minor.unwrap_or(3))).collect()
}

/// The usual prologue: r2 type, r3 access, r4 major, r5 minor.
pub fn prologue(asm: &mut Asm) {
    asm.ldx(size::W, 2, 1, 0);
    asm.op32(alu::AND, 2, 0xffff);
    prologue_rest(asm);
}

/// The old prologue with a half-word load.
pub fn prologue_half(asm: &mut Asm) {
    asm.ldx(size::H, 2, 1, 0);
    prologue_rest(asm);
}

fn prologue_rest(asm: &mut Asm) {
    asm.ldx(size::W, 3, 1, 0);
    asm.op32(alu::RSH, 3, 16);
    asm.ldx(size::W, 4, 1, 4);
    asm.ldx(size::W, 5, 1, 8);
}

/// How a writer tests the access bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The request has to be a subset of the mask.
    Subset,
    /// The request has to touch the mask.
    Overlap,
}

/// Goes to `next` unless the request matches the mask; no test for `rwm`.
pub fn access_test(asm: &mut Asm, test: Access, scratch: u8, mask: i32, next: Label) {
    if mask == RWM {
        return;
    }
    asm.op32r(alu::MOV, scratch, 3);
    asm.op32(alu::AND, scratch, mask);
    match test {
        Access::Subset => asm.jump_ifr(cond::NE, scratch, 3, next),
        Access::Overlap => asm.jump_if(cond::EQ, scratch, 0, next),
    }
}

/// Goes to `next` unless the numbers match.
pub fn number_tests(asm: &mut Asm, rule: &Rule, next: Label) {
    if let Some(major) = rule.major {
        asm.jump_if(cond::NE, 4, major as i32, next);
    }
    if let Some(minor) = rule.minor {
        asm.jump_if(cond::NE, 5, minor as i32, next);
    }
}

/// Goes to `next` unless the type matches.
pub fn type_test(asm: &mut Asm, rule: &Rule, next: Label) {
    if let Some(kind) = rule.kind {
        asm.jump_if(cond::NE, 2, kind, next);
    }
}
