//! Reduced ordered binary decision diagrams: functions of bits in canonical
//! form, so that equal functions are the same [`Bdd`].
//!
//! Own code rather than a crate because the work here is thousands of tiny
//! operations on a fresh diagram, where a crate's managers, locks or
//! per-operation copies cost more than the operation: building the policies of
//! 4 and of 1000 rules takes biodivine-lib-bdd 0.6.3 3.1 times as long as this,
//! and oxidd 0.13.0 19 and 2.6 times (`benches/README.md`). Complement edges
//! make negation free. Work is bounded: past its budget a diagram answers
//! `FALSE` to everything and says so in [`Diagram::exhausted`], and the caller
//! throws the results away.

mod nodes;
mod operations;

use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use super::time_limit::TimeLimit;

/// A Boolean function: index of a node and, in bit 0, whether it is negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdd(u32);

/// What is remembered of functions of one diagram. Nobody chooses their numbers, so the hash
/// need not withstand that.
pub type FunctionMap<T> = HashMap<Bdd, T, RandomState>;

/// Functions of one diagram.
pub type FunctionSet = HashSet<Bdd, RandomState>;

/// Nodes that one walk has met, in memory that many walks share.
#[derive(Debug, Default)]
pub struct Met {
    /// The last walk that met each node.
    by: Vec<u32>,
    walk: u32,
}

impl Met {
    /// Begins a walk in a diagram of so many nodes.
    fn forget(&mut self, nodes: usize) {
        self.walk = self.walk.wrapping_add(1);
        if self.walk == 0 {
            self.by.clear();
            self.walk = 1;
        }
        if self.by.len() < nodes {
            self.by.resize(nodes, 0);
        }
    }

    /// Whether the walk meets a node for the first time.
    fn is_new(&mut self, index: usize) -> bool {
        std::mem::replace(&mut self.by[index], self.walk) != self.walk
    }
}

/// Number of a variable; smaller numbers are tested first.
pub type Variable = u32;

const TERMINAL: Variable = Variable::MAX;
const INITIAL_SLOTS: usize = 1 << 9;
/// Bound on nodes in one diagram (12 bytes each, some 50 with tables), unless more were
/// asked for.
const MAX_NODES: usize = 1 << 20;

/// A tested variable and what the function is when it is 0 and when it is 1.
/// The high edge is never negated: that makes the form canonical.
#[derive(Clone, Copy, Debug)]
struct Node {
    variable: Variable,
    low: Bdd,
    high: Bdd,
}

/// One remembered operation.
#[derive(Clone, Copy, Debug)]
struct Memo {
    key: [u32; 3],
    result: Bdd,
}

/// The nodes of many functions, shared.
#[derive(Debug)]
pub struct Diagram {
    nodes: Vec<Node>,
    /// Open-addressing table of node indices; 0 is free (node 0 is the terminal).
    unique: Vec<u32>,
    /// Direct-mapped: a newer operation overwrites an older one.
    memos: Vec<Memo>,
    budget: u64,
    /// Nodes that it may have.
    most: usize,
    /// Nodes at which the budget ends.
    room: usize,
    /// Becomes true for ever once something did not fit: whatever is built later is
    /// worthless too.
    full: bool,
    limit: TimeLimit,
}

impl Bdd {
    /// The function that is always true.
    pub const TRUE: Self = Self(0);
    /// The function that is always false.
    pub const FALSE: Self = Self(1);

    /// `TRUE` or `FALSE`.
    pub fn constant(value: bool) -> Self {
        if value { Self::TRUE } else { Self::FALSE }
    }

    /// The value, if the function is constant.
    pub fn as_constant(self) -> Option<bool> {
        (self.0 < 2).then_some(self == Self::TRUE)
    }

    /// A number below twice [`Diagram::len`], different for every function of
    /// a diagram.
    pub fn number(self) -> usize {
        self.0 as usize
    }

    fn index(self) -> usize {
        (self.0 >> 1) as usize
    }

    fn is_negated(self) -> bool {
        self.0 & 1 == 1
    }

    /// The function or its negation, whichever is not negated.
    fn positive(self) -> Self {
        Self(self.0 & !1)
    }

    fn negated_if(self, negate: bool) -> Self {
        Self(self.0 ^ u32::from(negate))
    }
}

impl std::ops::Not for Bdd {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }
}

impl Default for Diagram {
    fn default() -> Self {
        let terminal = Node { variable: TERMINAL, low: Bdd::TRUE, high: Bdd::TRUE };
        let empty = Memo { key: [0; 3], result: Bdd::TRUE };
        let mut nodes = Vec::with_capacity(INITIAL_SLOTS / 2);
        nodes.push(terminal);
        Self {
            nodes,
            unique: vec![0; INITIAL_SLOTS],
            memos: vec![empty; INITIAL_SLOTS],
            budget: u64::MAX,
            most: MAX_NODES,
            room: MAX_NODES,
            full: false,
            limit: TimeLimit::default(),
        }
    }
}

#[cfg(test)]
mod tests;
