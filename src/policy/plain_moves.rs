//! Moves of addresses in a listing that does not show which of several moves they are.
//!
//! A move that extends a sign makes a number of an address, and the verifier lets no
//! program use that number as an address again. So a move is plain if what it leaves is
//! used as an address on a path that the verifier takes. Which those are is not known
//! before the program runs here, and need not be: where such a use comes in a run, the
//! kernel has gone there too. What a run could learn from a move that is not plain is a
//! comparison. So there the use has to follow on every path on which the address is not
//! null.

use std::collections::BTreeSet;

use crate::bytecode::{Arithmetic, Comparison, Operand, Operation};

use super::flow::{bit, source_bit, successors};
use super::helpers::{self, Effect, KernelFunction};

/// Passes before a contrived tangle of jumps is given up.
const MAX_PASSES: usize = 100;
/// r0 to r5: what a call destroys.
const CALL: u16 = 0b11_1111;
/// r1 to r5.
const ARGUMENTS: u16 = 0b11_1110;
/// r0 to r10.
const ALL: u16 = 0b111_1111_1111;

/// Sets of registers, one for each slot, of what the paths from there do with them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Some path uses the register as an address.
    Somewhere,
    /// Every path does.
    Everywhere,
    /// Some path looks at the register as at a number, and may then end without the other.
    Compared,
}

/// A program, and what its calls take.
struct Program<'o, N, F> {
    operations: &'o [Operation],
    /// The name of a helper.
    name: N,
    /// A function of the kernel.
    function: F,
}

/// The slots of unclear moves whose results are addresses if the value that they move is
/// one. `name` gives the name of a helper, `function` a function of the kernel.
pub fn plain_moves<'n>(
    operations: &[Operation],
    name: impl Fn(i32) -> Option<&'n str>,
    function: impl Fn(i32) -> Option<KernelFunction>,
) -> BTreeSet<usize> {
    let unclear =
        |operation: &Operation| matches!(operation, Operation::Unclear { kind: Arithmetic::Move, .. });
    if !operations.iter().any(unclear) {
        return BTreeSet::new();
    }
    let program = Program { operations, name, function };
    let none = vec![0; operations.len()];
    let Some(somewhere) = program.solved(Use::Somewhere, &none) else { return BTreeSet::new() };
    let Some(everywhere) = program.solved(Use::Everywhere, &none) else { return BTreeSet::new() };
    let Some(compared) = program.solved(Use::Compared, &everywhere) else { return BTreeSet::new() };
    let is_plain = |pc: &usize| match operations[*pc] {
        Operation::Unclear { kind: Arithmetic::Move, dst, .. } => {
            let after = |which, sets: &[u16]| program.after(*pc, which, sets) & bit(dst) != 0;
            after(Use::Somewhere, &somewhere) && !after(Use::Compared, &compared)
        }
        _ => false,
    };
    (0..operations.len()).filter(is_plain).collect()
}

impl<'n, N: Fn(i32) -> Option<&'n str>, F: Fn(i32) -> Option<KernelFunction>> Program<'_, N, F> {
    /// The sets of registers before each slot; `None` if it takes too long.
    fn solved(&self, which: Use, everywhere: &[u16]) -> Option<Vec<u16>> {
        let mut sets = vec![if which == Use::Everywhere { ALL } else { 0 }; self.operations.len()];
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for pc in (0..self.operations.len()).rev() {
                let before = self.before(pc, which, &sets, everywhere);
                changed |= before != sets[pc];
                sets[pc] = before;
            }
            if !changed {
                return Some(sets);
            }
        }
        None
    }

    /// The registers behind `pc`.
    fn after(&self, pc: usize, which: Use, sets: &[u16]) -> u16 {
        let next = successors(self.operations, pc).into_iter().flatten();
        let mut next = next.map(|to| sets.get(to).copied().unwrap_or(0));
        let Some(first) = next.next() else { return 0 };
        next.fold(first, |all, one| if which == Use::Everywhere { all & one } else { all | one })
    }

    /// The registers from `pc` on.
    fn before(&self, pc: usize, which: Use, sets: &[u16], everywhere: &[u16]) -> u16 {
        let after = self.after(pc, which, sets);
        let passed_on = |dst: usize, from: u16| if after & bit(dst) != 0 { from } else { 0 };
        let (addresses, numbers) = match which {
            Use::Compared => (0, self.compared(pc, everywhere)),
            Use::Somewhere | Use::Everywhere => (self.addresses(pc), 0),
        };
        let kept = match self.operations[pc] {
            Operation::Arithmetic {
                kind: Arithmetic::Move | Arithmetic::MovePerCpu,
                width: 64,
                dst,
                source,
            }
            | Operation::Unclear { kind: Arithmetic::Move, width: 64, dst, source } => {
                after & !bit(dst) | passed_on(dst, source_bit(source))
            }
            // The verifier adds a number with bounds to an address: which of the two registers
            // was the address is not certain.
            Operation::Arithmetic {
                kind: Arithmetic::Add | Arithmetic::Sub,
                width: 64,
                dst,
                source: Operand::Register(source),
            } if which == Use::Everywhere => after & !bit(dst) & !bit(source),
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
            | Operation::LoadUnknown { dst }
            | Operation::Load { dst, .. } => after & !bit(dst),
            Operation::Atomic { fetches, .. } => after & !fetches.map_or(0, bit),
            // The path ends there.
            Operation::CallKernel { function }
                if which == Use::Everywhere && (self.function)(function) == Some(KernelFunction::Throw) =>
            {
                0
            }
            Operation::CallHelper { .. } | Operation::CallKernel { .. } => after & !CALL,
            Operation::CallLocal { target } => {
                after & !CALL | sets.get(target).map_or(0, |used| used & ARGUMENTS)
            }
            Operation::Store { .. }
            | Operation::Jump { .. }
            | Operation::Branch { .. }
            | Operation::Exit
            | Operation::Nothing => after,
            Operation::Unsupported { .. } => 0,
        };
        kept | addresses | numbers
    }

    /// The registers that an instruction uses as addresses.
    fn addresses(&self, pc: usize) -> u16 {
        match self.operations[pc] {
            Operation::Load { base, .. } | Operation::Store { base, .. } | Operation::Atomic { base, .. } => {
                bit(base)
            }
            Operation::CallHelper { helper } => of_helper(helper, (self.name)(helper)),
            Operation::CallKernel { function } => (self.function)(function).map_or(0, of_function),
            _ => 0,
        }
    }

    /// The registers that an instruction looks at as at numbers, or puts where the paths
    /// are not followed: into memory, to another function as what may come back.
    fn compared(&self, pc: usize, everywhere: &[u16]) -> u16 {
        match self.operations[pc] {
            Operation::Branch { comparison, width: 64, dst, source: Operand::Immediate(0), target } => {
                let not_null = match comparison {
                    Comparison::Equal => pc + 1,
                    Comparison::NotEqual => target,
                    _ => return bit(dst),
                };
                bit(dst) & !everywhere.get(not_null).copied().unwrap_or(0)
            }
            Operation::Branch { dst, source, .. }
            | Operation::Arithmetic {
                kind: Arithmetic::Sub,
                width: 64,
                dst,
                source: source @ Operand::Register(_),
            } => bit(dst) | source_bit(source),
            Operation::Store { source, .. } => source_bit(source),
            Operation::Atomic { source, .. } => bit(source),
            Operation::CallLocal { .. } => ARGUMENTS,
            Operation::CallHelper { helper } if (self.name)(helper).is_some_and(helpers::only_calls_back) => {
                ARGUMENTS
            }
            _ => 0,
        }
    }
}

/// The arguments of a helper that are addresses, of memory or of maps.
fn of_helper(helper: i32, name: Option<&str>) -> u16 {
    if helpers::is_tail_call(helper, name) {
        return bit(1) | bit(2);
    }
    let Some(name) = name else { return 0 };
    if helpers::lookup(name).is_some() {
        return bit(1) | bit(2);
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

    fn unclear(dst: usize, source: usize) -> Operation {
        Operation::Unclear { kind: Arithmetic::Move, width: 64, dst, source: Operand::Register(source) }
    }

    fn load(base: usize) -> Operation {
        Operation::Load { dst: 0, base, offset: 0, size: 4, signed: false }
    }

    fn if_null(dst: usize, target: usize) -> Operation {
        let source = Operand::Immediate(0);
        Operation::Branch { comparison: Comparison::Equal, width: 64, dst, source, target }
    }

    fn plain(operations: &[Operation]) -> Vec<usize> {
        plain_moves(operations, |_| None, |_| None).into_iter().collect()
    }

    /// Make sure that a move is plain whose result leads to memory, also behind a branch
    /// and in another register, and that others are not.
    #[test]
    fn moves_of_addresses() {
        let operations = [
            unclear(6, 1),
            unclear(7, 1),
            unclear(2, 6),
            if_null(7, 6),
            load(2),
            unclear(1, 10),
            Operation::Exit,
        ];
        assert_eq!(plain(&operations), [0, 2]);
    }

    /// Make sure that a move whose result is compared is plain only if every path on which
    /// it is not null uses it as an address: else the verifier may have gone another one.
    #[test]
    fn compared_moves() {
        let always = [unclear(6, 0), if_null(6, 3), load(6), Operation::Exit];
        assert_eq!(plain(&always), [0]);
        let perhaps = [unclear(6, 0), if_null(6, 4), if_null(3, 4), load(6), Operation::Exit];
        assert!(plain(&perhaps).is_empty());
        let add =
            Operation::Arithmetic { kind: Arithmetic::Add, width: 64, dst: 2, source: Operand::Register(6) };
        let step = [unclear(6, 0), if_null(6, 4), add, load(2), Operation::Exit];
        assert!(plain(&step).is_empty());
        let copied = [unclear(6, 0), unclear(7, 6), if_null(7, 4), load(6), Operation::Exit];
        assert!(plain(&copied).is_empty());
        let kept = [
            unclear(6, 0),
            Operation::Store { base: 10, offset: -8, size: 8, source: Operand::Register(6) },
            load(6),
            Operation::Exit,
        ];
        assert!(plain(&kept).is_empty());
    }
}
