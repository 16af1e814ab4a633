//! What a program may write, found without running it: every store of the program,
//! with all that its address can lead to ([`address`](super::address)). It is the bound
//! for paths that `machine` gives up.
//!
//! The search goes through all instructions that can be reached, again and again
//! until it finds nothing new. It does not tell places on the stacks apart: one set
//! has the addresses that are kept on any stack, one those that any function returns,
//! and one those that any function called by a helper is handed. An instruction that
//! the search does not reach (for example in a function that handles exceptions) counts
//! as a store to anywhere.

mod calls;
mod search;
mod step;

use std::collections::BTreeMap;

use crate::bytecode::Operation;

use super::clobber;
use super::flow::Flow;
use super::helpers::{self, KernelFunction};
use super::table::Table;
use super::written::Written;
use search::Search;

/// The registers in which functions get what they are handed, r1 to r5.
const ARGUMENTS: usize = 5;

/// The frame pointer.
const R10: usize = 10;

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
    /// All that the program may write.
    pub fn written(&self) -> Written {
        let tail_call = |operation: &Operation| matches!(operation, Operation::CallHelper { helper } if helpers::is_tail_call(*helper, self.name(*helper)));
        if self.operations.iter().any(tail_call) {
            // The program goes on in another one, with other maps.
            return Written::everything();
        }
        let search = (!self.is_blinded).then(|| Search::of(self)).flatten();
        match search {
            Some(search) => search.with_unseen(),
            None => self.anywhere((0..self.operations.len()).filter(|pc| self.is_operation(*pc))),
        }
    }

    fn name(&self, helper: i32) -> Option<&str> {
        self.calls.get(&helper).map(String::as_str)
    }

    /// Whether a function of the kernel writes at most to the stack, where iterators are,
    /// and to what was counted before.
    fn writes_no_map(&self, function: i32) -> bool {
        let known = helpers::known_function(self.calls, function);
        known.is_some_and(|known| known != KernelFunction::Slice)
    }

    /// Whether an instruction begins here, not its second slot.
    fn is_operation(&self, pc: usize) -> bool {
        pc.checked_sub(1).is_none_or(|before| self.operations[before].slots() == 1)
    }

    /// What these instructions write if their addresses are not known.
    fn anywhere(&self, operations: impl Iterator<Item = usize>) -> Written {
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
