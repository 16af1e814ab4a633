//! Array lookups in programs whose constants the kernel has blinded
//! (`net.core.bpf_jit_harden`): the map's id is hidden behind its address.
//!
//! The inlined lookup is known by its full shape, with the map's own size and
//! stride in it (`array_map_gen_lookup`, `kernel/bpf/arraymap.c`):
//!
//! ```text
//! r1 += step; r0 = u32[r2]; if r0 >= max_entries goto +n;
//! r0 *= stride; r0 += r1; goto +1; r0 ^= r0
//! ```

use crate::bytecode::{Arithmetic, Comparison, Operand, Operation};

use super::code::Code;
use super::state::AX;
use super::table::{Table, TableKind};

impl Code<'_> {
    /// The array map that the addition at `pc` begins a lookup in, if the
    /// program has no other map and names it nowhere.
    pub(super) fn blinded_array(&self, pc: usize) -> Option<usize> {
        let [table] = self.maps.as_slice() else { return None };
        let is_array = table.kind == TableKind::Array && !table.per_cpu;
        (is_array && self.is_blinded() && self.is_lookup(pc, table)).then_some(0)
    }

    fn is_lookup(&self, pc: usize, table: &Table<'_>) -> bool {
        let loads_index = Operation::Load { dst: 0, base: 2, offset: 0, size: 4, signed: false };
        let is_guard = |at: usize| match self.operations.get(at) {
            Some(Operation::Branch {
                comparison: Comparison::GreaterEqual,
                width: 64,
                dst: 0,
                source: Operand::Register(register),
                target,
            }) if AX.contains(register) => Some(*target),
            _ => None,
        };
        let Some(none) = is_guard(pc + 4) else { return false };
        let scaled = self.after_mask(pc + 5);
        let Some(added) = self.after_scaling(scaled, table.stride() as u64) else { return false };
        self.operations.get(pc + 1) == Some(&loads_index)
            && self.constant(pc + 2) == Some(table.max_entries)
            && self.operations.get(added) == Some(&alu(Arithmetic::Add, 64, 0, 1))
            && self.operations.get(added + 1) == Some(&Operation::Jump { target: added + 3 })
            && none == added + 2
            && self.operations.get(none) == Some(&alu(Arithmetic::Xor, 64, 0, 0))
    }

    /// Past the speculation mask on the index, if there is one.
    fn after_mask(&self, at: usize) -> usize {
        let masks = |register| self.operations.get(at + 2) == Some(&alu(Arithmetic::And, 32, 0, register));
        if AX.into_iter().any(masks) && self.constant(at).is_some() { at + 3 } else { at }
    }

    /// Past the multiplication of r0 by `stride`, as a shift or a product.
    fn after_scaling(&self, at: usize, stride: u64) -> Option<usize> {
        match self.operations.get(at)? {
            Operation::Arithmetic {
                kind: Arithmetic::ShiftLeft,
                width: 64,
                dst: 0,
                source: Operand::Immediate(by @ 0..64),
            } => (1 << by == stride).then_some(at + 1),
            _ => {
                let multiplies =
                    |register| self.operations.get(at + 2) == Some(&alu(Arithmetic::Mul, 64, 0, register));
                (AX.into_iter().any(multiplies) && self.constant(at) == Some(stride)).then_some(at + 3)
            }
        }
    }

    /// The constant that two instructions from `at` on put together in AX.
    fn constant(&self, at: usize) -> Option<u64> {
        let part = |at: usize, wanted: Arithmetic| match self.operations.get(at) {
            Some(Operation::Arithmetic { kind, dst, source: Operand::Immediate(value), .. })
                if *kind == wanted && AX.contains(dst) =>
            {
                Some(*value)
            }
            _ => None,
        };
        Some((part(at, Arithmetic::Move)? ^ part(at + 1, Arithmetic::Xor)?) & u64::from(u32::MAX))
    }
}

fn alu(kind: Arithmetic, width: usize, dst: usize, source: usize) -> Operation {
    Operation::Arithmetic { kind, width, dst, source: Operand::Register(source) }
}
