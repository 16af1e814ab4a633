//! Arithmetic and comparisons on numbers.

use gpumap::bytecode::Insn;

use super::Unmodelled;

/// The new value of the destination of an ALU or ALU64 instruction.
pub fn compute(insn: Insn, dst: u64, src: u64) -> Result<u64, Unmodelled> {
    let wide = insn.code & 7 == 7;
    let operation = insn.code & 0xf0;
    if operation == 0xd0 {
        return Ok(swap(insn, dst));
    }
    if operation == 0xb0 {
        return move_value(insn, src, wide);
    }
    if wide {
        Ok(wide_op(operation, insn.off == 1, dst, src))
    } else {
        Ok(narrow_op(operation, insn.off == 1, dst, src))
    }
}

/// to_le (0xd4), to_be (0xdc), bswap (0xd7).
fn swap(insn: Insn, value: u64) -> u64 {
    let swapped = insn.code == 0xdc || insn.code == 0xd7;
    match (insn.imm, swapped) {
        (16, true) => u64::from((value as u16).swap_bytes()),
        (32, true) => u64::from((value as u32).swap_bytes()),
        (_, true) => value.swap_bytes(),
        (16, false) => u64::from(value as u16),
        (32, false) => u64::from(value as u32),
        (_, false) => value,
    }
}

fn move_value(insn: Insn, src: u64, wide: bool) -> Result<u64, Unmodelled> {
    let extended = match insn.off {
        0 => src,
        8 => src as i8 as u64,
        16 => src as i16 as u64,
        32 => src as i32 as u64,
        other => return Err(Unmodelled(format!("a move with offset {other}"))),
    };
    Ok(if wide { extended } else { u64::from(extended as u32) })
}

fn wide_op(operation: u8, signed: bool, a: u64, b: u64) -> u64 {
    match (operation, signed) {
        (0x00, _) => a.wrapping_add(b),
        (0x10, _) => a.wrapping_sub(b),
        (0x20, _) => a.wrapping_mul(b),
        (0x30, false) => a.checked_div(b).unwrap_or(0),
        (0x30, true) if b == 0 => 0,
        (0x30, true) => (a as i64).wrapping_div(b as i64) as u64,
        (0x40, _) => a | b,
        (0x50, _) => a & b,
        (0x60, _) => a << (b & 63),
        (0x70, _) => a >> (b & 63),
        (0x80, _) => a.wrapping_neg(),
        (0x90, _) if b == 0 => a,
        (0x90, false) => a % b,
        (0x90, true) => (a as i64).wrapping_rem(b as i64) as u64,
        (0xa0, _) => a ^ b,
        (_, _) => ((a as i64) >> (b & 63)) as u64,
    }
}

fn narrow_op(operation: u8, signed: bool, a: u64, b: u64) -> u64 {
    let (a, b) = (a as u32, b as u32);
    u64::from(match (operation, signed) {
        (0x00, _) => a.wrapping_add(b),
        (0x10, _) => a.wrapping_sub(b),
        (0x20, _) => a.wrapping_mul(b),
        (0x30, false) => a.checked_div(b).unwrap_or(0),
        (0x30, true) if b == 0 => 0,
        (0x30, true) => (a as i32).wrapping_div(b as i32) as u32,
        (0x40, _) => a | b,
        (0x50, _) => a & b,
        (0x60, _) => a << (b & 31),
        (0x70, _) => a >> (b & 31),
        (0x80, _) => a.wrapping_neg(),
        (0x90, _) if b == 0 => a,
        (0x90, false) => a % b,
        (0x90, true) => (a as i32).wrapping_rem(b as i32) as u32,
        (0xa0, _) => a ^ b,
        (_, _) => ((a as i32) >> (b & 31)) as u32,
    })
}

/// Whether a conditional jump is taken.
pub fn taken(code: u8, a: u64, b: u64) -> bool {
    let wide = code & 7 == 5;
    let (a, b) = if wide { (a, b) } else { (u64::from(a as u32), u64::from(b as u32)) };
    let (signed_a, signed_b) =
        if wide { (a as i64, b as i64) } else { (i64::from(a as i32), i64::from(b as i32)) };
    match code & 0xf0 {
        0x10 => a == b,
        0x20 => a > b,
        0x30 => a >= b,
        0x40 => a & b != 0,
        0x50 => a != b,
        0x60 => signed_a > signed_b,
        0x70 => signed_a >= signed_b,
        0xa0 => a < b,
        0xb0 => a <= b,
        0xc0 => signed_a < signed_b,
        _ => signed_a <= signed_b,
    }
}
