//! Keeps every node once, and remembers operations.

use super::{Bdd, Diagram, Memo, Node, Variable};

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
