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

use search::Search;

use super::helpers;
use super::written::Written;
use crate::bytecode::Operation;
pub use search::Stores;

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
}
