//! The program that is gone through, and what its instructions write where nothing is
//! known of their addresses.

use std::collections::BTreeMap;

use super::super::clobber;
use super::super::flow::Flow;
use super::super::helpers::{self, KernelFunction};
use super::super::table::Table;
use super::super::written::Written;
use crate::bytecode::Operation;

/// The registers in which functions get what they are handed, r1 to r5.
pub(super) const ARGUMENTS: usize = 5;

/// The frame pointer.
pub(super) const R10: usize = 10;

/// A program to go through.
pub struct Stores<'a> {
    pub operations: &'a [Operation],
    pub flow: &'a Flow,
    pub calls: &'a BTreeMap<i32, String>,
    pub maps: &'a [Table<'a>],
    /// What a store to anywhere may write.
    pub own: &'a Written,
    /// Whether the kernel blinded the program: addresses of maps look like
    /// numbers.
    pub is_blinded: bool,
}

impl Stores<'_> {
    /// The name of a helper.
    pub(super) fn name(&self, helper: i32) -> Option<&str> {
        self.calls.get(&helper).map(String::as_str)
    }

    /// Whether a function of the kernel writes at most to the stack, where iterators are,
    /// and to what was counted before.
    fn writes_no_map(&self, function: i32) -> bool {
        let known = helpers::known_function(self.calls, function);
        known.is_some_and(|known| known != KernelFunction::Slice)
    }

    /// Whether an instruction begins here, not its second slot.
    pub(super) fn is_operation(&self, pc: usize) -> bool {
        pc.checked_sub(1).is_none_or(|before| self.operations[before].slots() == 1)
    }

    /// What these instructions write if their addresses are not known.
    pub(super) fn anywhere(&self, operations: impl Iterator<Item = usize>) -> Written {
        let mut written = Written::default();
        for pc in operations {
            match &self.operations[pc] {
                Operation::Store { base, .. } | Operation::Atomic { base, .. } if *base == R10 => {}
                Operation::Store { .. } | Operation::Atomic { .. } => written.add_all(self.own),
                Operation::CallHelper { helper } => match self.name(*helper) {
                    Some(name) if helpers::is_harmless(name) => {}
                    _ => written.add_all(&clobber::handed(self.maps, self.own)),
                },
                Operation::CallKernel { function } if self.writes_no_map(*function) => {}
                Operation::CallKernel { .. }
                | Operation::Unsupported { .. }
                | Operation::LoadSubprogram { .. } => {
                    written.add_all(&clobber::handed(self.maps, self.own));
                }
                Operation::Arithmetic { .. }
                | Operation::Unclear { .. }
                | Operation::SwapBytes { .. }
                | Operation::LoadConstant { .. }
                | Operation::LoadMap { .. }
                | Operation::LoadMapValue { .. }
                | Operation::LoadUnknown { .. }
                | Operation::Load { .. }
                | Operation::Jump { .. }
                | Operation::Branch { .. }
                | Operation::CallLocal { .. }
                | Operation::Exit
                | Operation::Nothing => {}
            }
        }
        written
    }
}
