//! Analyses a program before it runs: where paths meet, which registers are still
//! used, whether it loops.

use crate::bytecode::{Arithmetic, Operand, Operation};

/// The bit of [`Flow::live`] for memory; those of registers are lower.
pub const MEMORY: u16 = 1 << 15;

/// The flow of one program.
#[derive(Debug)]
pub struct Flow {
    /// Slots where more than one path can arrive.
    pub joins: Vec<bool>,
    /// For each slot, the registers that some path from there may read, and
    /// [`MEMORY`] if one may read memory.
    pub live: Vec<u16>,
    /// Whether some jump goes back.
    pub loops: bool,
}

impl Flow {
    /// Analyses `operations`.
    pub fn of(operations: &[Operation]) -> Self {
        let (joins, loops) = joins(operations);
        Self { joins, live: live(operations), loops }
    }
}

impl Flow {
    /// Other programs lead to these slots, and perhaps back to earlier ones.
    pub fn enter(&mut self, begins: impl Iterator<Item = usize>, is_circular: bool) {
        self.loops |= is_circular;
        for begin in begins {
            if let Some(join) = self.joins.get_mut(begin) {
                *join = true;
            }
        }
    }
}

/// The slots that may follow `pc`; calls are stepped over.
pub fn successors(operations: &[Operation], pc: usize) -> [Option<usize>; 2] {
    let next = Some(pc + operations[pc].slots());
    match operations[pc] {
        Operation::Jump { target } => [Some(target), None],
        Operation::Branch { target, .. } => [next, Some(target)],
        Operation::Exit | Operation::Unsupported { .. } => [None, None],
        Operation::Arithmetic { .. }
        | Operation::Unclear { .. }
        | Operation::SwapBytes { .. }
        | Operation::LoadConstant { .. }
        | Operation::LoadMap { .. }
        | Operation::LoadMapValue { .. }
        | Operation::LoadSubprogram { .. }
        | Operation::LoadUnknown { .. }
        | Operation::Load { .. }
        | Operation::Store { .. }
        | Operation::Atomic { .. }
        | Operation::CallHelper { .. }
        | Operation::CallLocal { .. }
        | Operation::CallKernel { .. }
        | Operation::Nothing => [next, None],
    }
}

fn joins(operations: &[Operation]) -> (Vec<bool>, bool) {
    let mut arrivals = vec![0u8; operations.len()];
    let mut loops = false;
    let calls_back = operations.iter().any(|operation| matches!(operation, Operation::LoadSubprogram { .. }));
    for pc in 0..operations.len() {
        for to in successors(operations, pc).into_iter().flatten() {
            loops |= to <= pc;
            if let Some(count) = arrivals.get_mut(to) {
                *count = count.saturating_add(1);
            }
        }
        // Helpers may call a function as often as they like.
        if let Operation::LoadSubprogram { target, .. } = operations[pc] {
            loops = true;
            if let Some(count) = arrivals.get_mut(target) {
                *count = 2;
            }
        }
        if calls_back
            && matches!(operations[pc], Operation::CallHelper { .. })
            && let Some(count) = arrivals.get_mut(pc + 1)
        {
            *count = 2;
        }
        if let Operation::CallLocal { target } = operations[pc] {
            // A function is entered by calls, and its returns meet after each.
            for to in [target, pc + 1] {
                if let Some(count) = arrivals.get_mut(to) {
                    *count = 2;
                }
            }
        }
    }
    (arrivals.into_iter().map(|count| count > 1).collect(), loops)
}

/// Passes before a contrived tangle of jumps is given up. Then all registers count
/// as used, which costs time but no exactness.
const MAX_PASSES: usize = 100;

fn live(operations: &[Operation]) -> Vec<u16> {
    let mut live = vec![0u16; operations.len()];
    // Without loops the first backward pass settles everything.
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        for pc in (0..operations.len()).rev() {
            let after = successors(operations, pc)
                .into_iter()
                .flatten()
                .filter_map(|to| live.get(to))
                .fold(0, |sum, registers| sum | registers);
            let (reads, writes) = effects(&operations[pc]);
            let before = reads | after & !writes;
            changed |= before != live[pc];
            live[pc] = before;
        }
        if !changed {
            return live;
        }
    }
    vec![u16::MAX; operations.len()]
}

/// The bit of a register.
pub(super) fn bit(register: usize) -> u16 {
    1 << register
}

/// The bit of the register that an operand is; none of a number.
pub(super) fn source_bit(source: Operand) -> u16 {
    match source {
        Operand::Register(register) => bit(register),
        Operand::Immediate(_) => 0,
    }
}

/// r1 to r5: what a call may read and destroys.
const ARGUMENTS: u16 = 0b11_1110;

/// What an operation reads, registers and memory, and the registers that it
/// overwrites.
fn effects(operation: &Operation) -> (u16, u16) {
    match *operation {
        Operation::Arithmetic { kind: Arithmetic::Move | Arithmetic::MoveSigned(_), dst, source, .. }
        | Operation::Unclear { kind: Arithmetic::Move, dst, source, .. } => (source_bit(source), bit(dst)),
        Operation::Arithmetic { dst, source, .. } | Operation::Unclear { dst, source, .. } => {
            (bit(dst) | source_bit(source), bit(dst))
        }
        Operation::SwapBytes { dst, .. } => (bit(dst), bit(dst)),
        Operation::LoadConstant { dst, .. }
        | Operation::LoadMap { dst, .. }
        | Operation::LoadMapValue { dst, .. }
        | Operation::LoadSubprogram { dst, .. }
        | Operation::LoadUnknown { dst } => (0, bit(dst)),
        Operation::Load { dst, base, .. } => (MEMORY | bit(base), bit(dst)),
        Operation::Store { base, source, .. } => (bit(base) | source_bit(source), 0),
        Operation::Atomic { base, source, fetches, .. } => {
            let expected = fetches.filter(|register| *register == 0).map_or(0, bit);
            (MEMORY | bit(base) | bit(source) | expected, 0)
        }
        Operation::Branch { dst, source, .. } => (bit(dst) | source_bit(source), 0),
        Operation::CallHelper { .. } | Operation::CallLocal { .. } | Operation::CallKernel { .. } => {
            (MEMORY | ARGUMENTS, ARGUMENTS | bit(0))
        }
        Operation::Exit => (bit(0), 0),
        Operation::Jump { .. } | Operation::Nothing | Operation::Unsupported { .. } => (0, 0),
    }
}
