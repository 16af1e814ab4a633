//! Moves of addresses in a listing that does not show which of several moves they are.
//!
//! A move that extends a sign makes a number of an address, and the verifier lets no
//! program use that number as an address again. So a move is plain if what it leaves is
//! used as an address afterwards.

use std::collections::BTreeSet;

use crate::bytecode::{Arithmetic, Operand, Operation};

use super::flow::successors;
use super::helpers::{self, Effect, KernelFunction};

/// Passes before a contrived tangle of jumps is given up.
const MAX_PASSES: usize = 100;
/// r0 to r5: what a call destroys.
const CALL: u16 = 0b11_1111;
/// r1 to r5.
const ARGUMENTS: u16 = 0b11_1110;

/// The slots of unclear moves whose results are used as addresses. `name` gives the name
/// of a helper, `function` a function of the kernel.
pub fn plain_moves<'n>(
    operations: &[Operation],
    name: impl Fn(i32) -> Option<&'n str>,
    function: impl Fn(i32) -> Option<KernelFunction>,
) -> BTreeSet<usize> {
    let unclear = |pc: &usize| matches!(operations[*pc], Operation::Unclear { kind: Arithmetic::Move, .. });
    let moves: Vec<usize> = (0..operations.len()).filter(unclear).collect();
    if moves.is_empty() {
        return BTreeSet::new();
    }
    let mut used = vec![0u16; operations.len()];
    let mut changed = true;
    for _ in 0..MAX_PASSES {
        changed = false;
        for pc in (0..operations.len()).rev() {
            let before = before(operations, pc, &used, &name, &function);
            changed |= before != used[pc];
            used[pc] = before;
        }
        if !changed {
            break;
        }
    }
    let is_used = |pc: &usize| match operations[*pc] {
        Operation::Unclear { dst, .. } => after(operations, *pc, &used) & bit(dst) != 0,
        _ => false,
    };
    if changed { BTreeSet::new() } else { moves.into_iter().filter(is_used).collect() }
}

fn bit(register: usize) -> u16 {
    1 << register
}

/// The registers that some path from behind `pc` uses as addresses.
fn after(operations: &[Operation], pc: usize, used: &[u16]) -> u16 {
    successors(operations, pc)
        .into_iter()
        .flatten()
        .filter_map(|to| used.get(to))
        .fold(0, |sum, one| sum | one)
}

/// The registers that some path from `pc` on uses as addresses.
fn before<'n>(
    operations: &[Operation],
    pc: usize,
    used: &[u16],
    name: impl Fn(i32) -> Option<&'n str>,
    function: impl Fn(i32) -> Option<KernelFunction>,
) -> u16 {
    let after = after(operations, pc, used);
    let passed_on = |dst: usize, from: u16| if after & bit(dst) != 0 { from } else { 0 };
    match operations[pc] {
        Operation::Arithmetic { kind: Arithmetic::Move | Arithmetic::MovePerCpu, width: 64, dst, source }
        | Operation::Unclear { kind: Arithmetic::Move, width: 64, dst, source } => {
            after & !bit(dst) | passed_on(dst, source_bit(source))
        }
        // The verifier adds no number without bounds to an address, and a part of an
        // address has none.
        Operation::Arithmetic { kind: Arithmetic::Add, width: 64, dst, source } => {
            after | passed_on(dst, source_bit(source))
        }
        Operation::Arithmetic { kind: Arithmetic::Sub, width: 64, .. } => after,
        Operation::Arithmetic { dst, .. }
        | Operation::Unclear { dst, .. }
        | Operation::SwapBytes { dst, .. }
        | Operation::LoadConstant { dst, .. }
        | Operation::LoadMap { dst, .. }
        | Operation::LoadMapValue { dst, .. }
        | Operation::LoadSubprogram { dst, .. }
        | Operation::LoadUnknown { dst } => after & !bit(dst),
        Operation::Load { dst, base, .. } => after & !bit(dst) | bit(base),
        Operation::Store { base, .. } => after | bit(base),
        Operation::Atomic { base, fetches, .. } => after & !fetches.map_or(0, bit) | bit(base),
        Operation::CallHelper { helper } => after & !CALL | name(helper).map_or(0, of_helper),
        Operation::CallKernel { function: distance } => {
            after & !CALL | function(distance).map_or(0, of_function)
        }
        Operation::CallLocal { target } => {
            after & !CALL | used.get(target).map_or(0, |used| used & ARGUMENTS)
        }
        Operation::Jump { .. } | Operation::Branch { .. } | Operation::Exit | Operation::Nothing => after,
        Operation::Unsupported { .. } => 0,
    }
}

fn source_bit(source: Operand) -> u16 {
    match source {
        Operand::Register(register) => bit(register),
        Operand::Immediate(_) => 0,
    }
}

/// The arguments of a helper that are addresses of memory.
fn of_helper(name: &str) -> u16 {
    if helpers::lookup(name).is_some() {
        return bit(2);
    }
    match helpers::effect(name) {
        Some(Effect::Fills(to, _) | Effect::FillsBytes(to, _)) => bit(to),
        Some(Effect::MakesDynptr { to }) => bit(to),
        Some(Effect::Takes | Effect::Changes) => bit(2),
        _ if helpers::only_calls_back(name) => bit(3),
        _ => 0,
    }
}

/// The same of a function of the kernel.
fn of_function(function: KernelFunction) -> u16 {
    match function {
        KernelFunction::NewIterator
        | KernelFunction::NextNumber
        | KernelFunction::DestroyIterator
        | KernelFunction::NewBits
        | KernelFunction::NextBit
        | KernelFunction::DestroyBits => bit(1),
        KernelFunction::SavesFlags(to) => bit(to),
        KernelFunction::CopiesDynptr => bit(1) | bit(2),
        KernelFunction::Slice => bit(1),
        KernelFunction::Throw | KernelFunction::Harmless | KernelFunction::Object => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a move is plain whose result leads to memory, also behind a branch
    /// and in another register, and that others are not.
    #[test]
    fn moves_of_addresses() {
        let unclear = |dst, source| Operation::Unclear {
            kind: Arithmetic::Move,
            width: 64,
            dst,
            source: Operand::Register(source),
        };
        let load = |base| Operation::Load { dst: 0, base, offset: 0, size: 4, signed: false };
        let operations = [
            unclear(6, 1),
            unclear(7, 1),
            unclear(2, 6),
            Operation::Branch {
                comparison: crate::bytecode::Comparison::Equal,
                width: 64,
                dst: 7,
                source: Operand::Immediate(0),
                target: 6,
            },
            load(2),
            unclear(1, 10),
            Operation::Exit,
        ];
        let plain = plain_moves(&operations, |_| None, |_| None);
        assert_eq!(plain.into_iter().collect::<Vec<_>>(), [0, 2]);
    }
}
