//! The instructions of one program, read.

use std::collections::{BTreeMap, BTreeSet};

use super::as_loaded::{self, Step};
use super::helpers::{self, KernelFunction};
use super::hidden;
use super::plain_moves::plain_moves;
use super::written::replaced;
use crate::bytecode::{Arithmetic, Insn, Operand, Operation};
use crate::observation::Program;

/// Longest program the kernel loads (`BPF_COMPLEXITY_LIMIT_INSNS`,
/// `linux/bpf.h`).
pub const MAX_INSNS: usize = 1_000_000;

/// The instructions of one program, or of several one after the other.
#[derive(Clone, Debug)]
pub struct Part {
    /// What each slot does.
    pub operations: Vec<Operation>,
    /// Symbols behind helper calls.
    pub calls: BTreeMap<i32, String>,
    /// The calls without a name that can only be lookups.
    pub lookups: BTreeMap<usize, Step>,
    /// The moves that are not clear, but plain where they move an address.
    pub plain_moves: BTreeSet<usize>,
}

impl Part {
    /// The instructions of `program`; the reason if they are not known.
    pub fn of(program: &Program) -> Result<Self, String> {
        if let Some(why) = replaced(program) {
            return Err(why);
        }
        let bytes = program.xlated.known().ok_or_else(|| {
            let why = program.xlated.missing().unwrap_or_default();
            format!("the instructions of program {} could not be read: {why}", program.id)
        })?;
        let insns = Insn::parse_all(&bytes.0)
            .filter(|insns| !insns.is_empty() && insns.len() <= MAX_INSNS)
            .ok_or_else(|| {
            format!("program {} has {} bytes, which is no program", program.id, bytes.0.len())
        })?;
        let (insns, calls) = match hidden::named(program, &insns) {
            Some(named) => (named.insns.clone(), named.calls.clone()),
            None => (insns, program.calls.clone()),
        };
        let operations = Operation::decode_all(&insns);
        let name = |helper| calls.get(&helper).map(String::as_str);
        Ok(Self {
            lookups: nameless_lookups(&operations, &insns, &calls),
            plain_moves: plain_moves(&operations, name, |call| helpers::known_function(&calls, call)),
            operations,
            calls,
        })
    }

    /// Whether an instruction names a map.
    pub fn names_maps(&self) -> bool {
        let names_map = |operation: &Operation| {
            matches!(operation, Operation::LoadMap { .. } | Operation::LoadMapValue { .. })
        };
        each(&self.operations).any(names_map)
    }

    /// Whether the program may throw an exception.
    pub fn throws(&self) -> bool {
        each(&self.operations).any(|operation| match operation {
            Operation::CallKernel { function } => {
                matches!(helpers::known_function(&self.calls, *function), None | Some(KernelFunction::Throw))
            }
            _ => false,
        })
    }

    /// Whether a function of the program may handle its exceptions. Where none does, the
    /// kernel adds one that returns what was thrown, behind all others, which nothing
    /// leads to (`do_misc_fixups`, `kernel/bpf/verifier.c`). Code of the program that
    /// nothing leads to is removed.
    pub fn handles_exceptions(&self) -> bool {
        let Some(start) = self.operations.len().checked_sub(2) else { return true };
        let returns = matches!(
            self.operations[start..],
            [
                Operation::Arithmetic {
                    kind: Arithmetic::Move,
                    width: 64,
                    dst: 0,
                    source: Operand::Register(1)
                },
                Operation::Exit
            ]
        );
        let leads_here = |(pc, operation): (usize, &Operation)| match operation {
            Operation::Jump { target } | Operation::CallLocal { target } => *target == start,
            Operation::LoadSubprogram { target, .. } => *target == start,
            Operation::Branch { target, .. } => *target == start || pc + 1 == start,
            Operation::Exit => false,
            _ => pc + operation.slots() == start,
        };
        !returns || self.operations.iter().enumerate().any(leads_here)
    }
}

fn nameless_lookups(
    operations: &[Operation],
    insns: &[Insn],
    calls: &BTreeMap<i32, String>,
) -> BTreeMap<usize, Step> {
    let is_nameless = |operation: &Operation| match operation {
        Operation::CallHelper { helper } => !calls.contains_key(helper),
        _ => false,
    };
    let calls = operations.iter().enumerate().filter(|(_, operation)| is_nameless(operation));
    calls.filter_map(|(pc, _)| Some((pc, as_loaded::element_step(insns, pc)?))).collect()
}

/// The operations without the second slots of two-slot loads.
pub(super) fn each(operations: &[Operation]) -> impl Iterator<Item = &Operation> {
    let mut pc = 0;
    std::iter::from_fn(move || {
        let operation = operations.get(pc)?;
        pc += operation.slots();
        Some(operation)
    })
}
