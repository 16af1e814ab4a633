//! Keeps every node of a diagram once, remembers operations, and bounds what work on it may
//! cost: steps, nodes and time.

use super::{Bdd, Diagram, MAX_NODES, Memo, Node, Variable};
use crate::policy::time_limit::TimeLimit;

/// Operations between two looks at the clock: some tenths of a millisecond.
const CLOCK_STEPS: u64 = 1 << 13;

impl Diagram {
    /// Number of nodes, the terminal included.
    #[expect(clippy::len_without_is_empty, reason = "a diagram always has its terminal")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The function that is `variable`.
    pub fn variable(&mut self, variable: Variable) -> Bdd {
        self.node(variable, Bdd::FALSE, Bdd::TRUE)
    }

    /// The function that is `low` where `variable` is 0 and `high` where it is
    /// 1; both may only test later variables.
    pub fn node(&mut self, variable: Variable, low: Bdd, high: Bdd) -> Bdd {
        if low == high {
            return low;
        }
        let negate = high.is_negated();
        self.intern(Node { variable, low: low.negated_if(negate), high: high.negated_if(negate) })
            .negated_if(negate)
    }

    /// Looks an operation up, or does it and remembers it.
    pub(super) fn remembered(&mut self, key: [u32; 3], operation: impl FnOnce(&mut Self) -> Bdd) -> Bdd {
        let memo = self.memos[hash(key) & (self.memos.len() - 1)];
        if memo.key == key {
            return memo.result;
        }
        if self.budget == 0 {
            return Bdd::FALSE;
        }
        self.budget -= 1;
        if self.budget.is_multiple_of(CLOCK_STEPS) && self.limit.is_over() {
            self.give_up();
            return Bdd::FALSE;
        }
        let result = operation(self);
        // The table may have grown since.
        let slot = hash(key) & (self.memos.len() - 1);
        if !self.exhausted() {
            self.memos[slot] = Memo { key, result };
        }
        result
    }

    fn intern(&mut self, node: Node) -> Bdd {
        let mask = self.unique.len() - 1;
        let mut slot = hash([node.variable, node.low.0, node.high.0]) & mask;
        loop {
            let index = self.unique[slot];
            if index == 0 {
                break;
            }
            let known = self.nodes[index as usize];
            if known.variable == node.variable && known.low == node.low && known.high == node.high {
                return Bdd(index << 1);
            }
            slot = (slot + 1) & mask;
        }
        self.insert(slot, node)
    }

    fn insert(&mut self, slot: usize, node: Node) -> Bdd {
        let Ok(index) = u32::try_from(self.nodes.len()) else { return Bdd::FALSE };
        if self.nodes.len() >= self.most {
            self.give_up();
            return Bdd::FALSE;
        }
        if self.nodes.len() >= self.room {
            self.exhaust();
        }
        self.unique[slot] = index;
        self.nodes.push(node);
        if self.nodes.len() * 2 > self.unique.len() {
            self.grow();
        }
        Bdd(index << 1)
    }

    fn grow(&mut self) {
        let slots = self.unique.len() * 4;
        self.unique = vec![0; slots];
        for (index, node) in self.nodes.iter().enumerate().skip(1) {
            let mut slot = hash([node.variable, node.low.0, node.high.0]) & (slots - 1);
            while self.unique[slot] != 0 {
                slot = (slot + 1) & (slots - 1);
            }
            self.unique[slot] = index as u32;
        }
        let slots = slots / 4;
        let memos = std::mem::replace(&mut self.memos, vec![Memo { key: [0; 3], result: Bdd::TRUE }; slots]);
        for memo in memos {
            self.memos[hash(memo.key) & (slots - 1)] = memo;
        }
    }
}

fn hash([a, b, c]: [u32; 3]) -> usize {
    let mixed = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ u64::from(c).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize >> 24
}

/// One of so many parts of the budget and of the room is what [`Diagram::attempt`]
/// may cost, and it never costs more than so many operations.
const PARTS: u64 = 32;

const MOST_ATTEMPTED: u64 = 10_000;

impl Diagram {
    /// An empty diagram that gives up when the time is over.
    pub fn within(limit: &TimeLimit) -> Self {
        Self { limit: limit.clone(), ..Self::default() }
    }

    /// The same with room for so many times as much.
    pub fn with_room(limit: &TimeLimit, factor: u32) -> Self {
        let most = MAX_NODES * factor as usize;
        Self { most, room: most, ..Self::within(limit) }
    }

    /// The time limit for work on this diagram.
    pub fn limit(&self) -> &TimeLimit {
        &self.limit
    }

    /// Allows `steps` recursion steps from now on; `u64::MAX` is no bound.
    pub fn set_budget(&mut self, steps: u64) {
        self.budget = steps;
        self.room = self.most;
    }

    /// Sets the budget, and limits nodes to a part of all, so that room is left to
    /// work with the result.
    pub fn set_budget_with_reserve(&mut self, steps: u64) {
        self.budget = steps;
        self.room = self.most / 4 * 3;
    }

    /// What `work` returns, if it costs no more than a small part of what is left of
    /// the budget and of the room.
    pub fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let before = self.budget;
        let room = self.room.saturating_sub(self.nodes.len()) as u64;
        let part = before.min(room).min(MOST_ATTEMPTED * PARTS) / PARTS;
        self.budget = part;
        let result = work(self);
        let is_done = self.budget > 0 && !self.full;
        let is_full = self.full || self.nodes.len() >= self.room;
        self.budget = if is_full { 0 } else { before - (part - self.budget) };
        is_done.then_some(result)
    }

    /// Ends the budget.
    pub fn exhaust(&mut self) {
        self.budget = 0;
    }

    /// How many nodes another diagram may have to be copied into this one without
    /// filling it.
    pub fn room(&self) -> usize {
        (self.most - self.nodes.len().min(self.most)) / 4
    }

    /// Whether the budget ran out, so that results since are worthless.
    pub fn exhausted(&self) -> bool {
        self.budget == 0 || self.full
    }

    /// Makes [`Diagram::exhausted`] true for ever.
    pub fn give_up(&mut self) {
        self.full = true;
        self.budget = 0;
    }
}
