//! Tests single questions where the policy as a whole is too complex.

use super::{exact, finish};
use crate::support::asm::{Asm, alu, cond, size};
use crate::support::host;

/// `((major << 20 | minor) * k ^ c) % 5` decides about one driver; all other
/// drivers are allowed.
fn hash(asm: &mut Asm, only: Option<i32>) {
    let allow = asm.label();
    asm.ldx(size::W, 2, 1, 4);
    asm.ldx(size::W, 3, 1, 8);
    if let Some(major) = only {
        asm.jump_if(cond::NE, 2, major, allow);
    }
    asm.op64(alu::LSH, 2, 20);
    asm.op64r(alu::OR, 2, 3);
    asm.ld64(4, 0x9e37_79b9_7f4a_7c15);
    asm.op64r(alu::MUL, 2, 4);
    asm.ld64(4, 0x1234_5678_9abc_def1);
    asm.op64r(alu::XOR, 2, 4);
    asm.op64(alu::MOD, 2, 5);
    asm.jump_if(cond::NE, 2, 0, allow);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
}

/// Make sure that every single question is answered, and as the kernel does.
#[test]
fn a_hash_of_the_numbers() {
    let Some(_host) = host::shared() else { return };
    for only in [None, Some(195)] {
        let mut asm = Asm::new();
        hash(&mut asm, only);
        exact(&finish(asm, "hash"));
    }
}
