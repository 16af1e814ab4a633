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

use std::collections::{HashMap, HashSet};

use super::time_limit::TimeLimit;

/// A Boolean function: index of a node and, in bit 0, whether it is negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdd(u32);

/// Number of a variable; smaller numbers are tested first.
pub type Variable = u32;

const TERMINAL: Variable = Variable::MAX;
const INITIAL_SLOTS: usize = 1 << 9;
/// Marks a cache entry of a two-operand operation; no node can have this index.
const AND: u32 = u32::MAX;
const XOR: u32 = u32::MAX - 1;
/// The mark of [`Diagram::compose`], minus the variable.
const COMPOSE: u32 = u32::MAX - 2;

/// Operations between two looks at the clock: some tenths of a millisecond.
const CLOCK_STEPS: u64 = 1 << 13;
/// One of so many parts of the budget and of the room is what [`Diagram::attempt`]
/// may cost, and it never costs more than so many operations.
const PARTS: u64 = 32;
const MOST_ATTEMPTED: u64 = 10_000;
/// Bound on nodes in one diagram (12 bytes each, some 50 with tables).
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
            room: MAX_NODES,
            full: false,
            limit: TimeLimit::default(),
        }
    }
}

impl Diagram {
    /// An empty diagram that gives up when the time is over.
    pub fn within(limit: &TimeLimit) -> Self {
        Self { limit: limit.clone(), ..Self::default() }
    }

    /// The time limit for work on this diagram.
    pub fn limit(&self) -> &TimeLimit {
        &self.limit
    }

    /// Allows `steps` recursion steps from now on; `u64::MAX` is no bound.
    pub fn set_budget(&mut self, steps: u64) {
        self.budget = steps;
        self.room = MAX_NODES;
    }

    /// Sets the budget, and limits nodes to a part of all, so that room is left to
    /// work with the result.
    pub fn set_budget_with_reserve(&mut self, steps: u64) {
        self.budget = steps;
        self.room = MAX_NODES / 4 * 3;
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

    /// Where one of `functions` depends on a variable from `first` on, as a function
    /// of the variables before it, and one of the late variables.
    pub fn depends_from(
        &mut self,
        functions: impl IntoIterator<Item = Bdd>,
        first: Variable,
    ) -> (Bdd, Option<Variable>) {
        let (mut done, mut seen) = (HashMap::new(), None);
        let region = functions.into_iter().fold(Bdd::FALSE, |region, function| {
            let here = self.depends_below(function, first, &mut done, &mut seen);
            self.or(region, here)
        });
        (region, seen)
    }

    fn depends_below(
        &mut self,
        function: Bdd,
        first: Variable,
        done: &mut HashMap<usize, Bdd>,
        seen: &mut Option<Variable>,
    ) -> Bdd {
        let node = self.nodes[function.index()];
        if node.variable == TERMINAL {
            return Bdd::FALSE;
        }
        if node.variable >= first {
            seen.get_or_insert(node.variable);
            return Bdd::TRUE;
        }
        if let Some(known) = done.get(&function.index()) {
            return *known;
        }
        let low = self.depends_below(node.low, first, done, seen);
        let high = self.depends_below(node.high, first, done, seen);
        let depends = self.node(node.variable, low, high);
        done.insert(function.index(), depends);
        depends
    }

    /// Ends the budget.
    pub fn exhaust(&mut self) {
        self.budget = 0;
    }

    /// Number of nodes, the terminal included.
    #[expect(clippy::len_without_is_empty, reason = "a diagram always has its terminal")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many nodes another diagram may have to be copied into this one without
    /// filling it.
    pub fn room(&self) -> usize {
        (MAX_NODES - self.nodes.len().min(MAX_NODES)) / 4
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

    /// The first variable the function tests; `None` for a constant.
    pub fn top(&self, function: Bdd) -> Option<Variable> {
        let variable = self.nodes[function.index()].variable;
        (variable != TERMINAL).then_some(variable)
    }

    /// Whether `function` has no more nodes than `room`.
    pub fn fits(&self, function: Bdd, room: usize) -> bool {
        if self.len() <= room {
            return true;
        }
        let (mut seen, mut left) = (HashSet::from([function.index()]), vec![function.index()]);
        while let Some(node) = left.pop().map(|index| self.nodes[index]) {
            let below = [node.low.index(), node.high.index()];
            left.extend(below.into_iter().filter(|index| seen.insert(*index)));
            if seen.len() > room {
                return false;
            }
        }
        true
    }

    /// Whether `function` is small and depends on no variable after `last`.
    pub fn ends_before(&self, function: Bdd, last: Variable) -> bool {
        const MOST: usize = 256;
        let (mut seen, mut left) = (Vec::new(), vec![function.index()]);
        while let Some(index) = left.pop() {
            let node = self.nodes[index];
            if node.variable == TERMINAL || seen.contains(&index) {
                continue;
            }
            if node.variable > last || seen.len() == MOST {
                return false;
            }
            seen.push(index);
            left.extend([node.low.index(), node.high.index()]);
        }
        true
    }

    /// The function with `variable` fixed to 0 and to 1; `variable` must not
    /// come after the function's top variable.
    pub fn cofactors(&self, function: Bdd, variable: Variable) -> (Bdd, Bdd) {
        let node = self.nodes[function.index()];
        if node.variable != variable {
            return (function, function);
        }
        let negate = function.is_negated();
        (node.low.negated_if(negate), node.high.negated_if(negate))
    }

    /// The function's value where variable `i` is bit `i` of `bits`; `None` if
    /// it depends on a variable from 64 up.
    pub fn evaluate(&self, function: Bdd, bits: u64) -> Option<bool> {
        let mut at = function;
        loop {
            let node = self.nodes[at.index()];
            if node.variable == TERMINAL {
                return Some(!at.is_negated());
            }
            let bit = bits.checked_shr(node.variable)? & 1;
            at = if bit == 1 { node.high } else { node.low }.negated_if(at.is_negated());
        }
    }

    /// Both.
    pub fn and(&mut self, a: Bdd, b: Bdd) -> Bdd {
        if a == b || b == Bdd::TRUE {
            return a;
        }
        if a == Bdd::TRUE {
            return b;
        }
        if a == !b || a == Bdd::FALSE || b == Bdd::FALSE {
            return Bdd::FALSE;
        }
        let (a, b) = if a < b { (a, b) } else { (b, a) };
        self.remembered([a.0, b.0, AND], |diagram| diagram.and_below(a, b))
    }

    /// Both; cheaper where `a` is a single variable before all those of `b`.
    pub fn and_above(&mut self, a: Bdd, b: Bdd) -> Bdd {
        let node = self.nodes[a.index()];
        if node.low != Bdd::FALSE || node.high != Bdd::TRUE || node.variable >= self.nodes[b.index()].variable
        {
            return self.and(a, b);
        }
        if a.is_negated() {
            self.node(node.variable, b, Bdd::FALSE)
        } else {
            self.node(node.variable, Bdd::FALSE, b)
        }
    }

    /// At least one.
    pub fn or(&mut self, a: Bdd, b: Bdd) -> Bdd {
        !self.and(!a, !b)
    }

    /// Exactly one.
    pub fn xor(&mut self, a: Bdd, b: Bdd) -> Bdd {
        let negate = a.is_negated() != b.is_negated();
        let (a, b) = (Bdd(a.0 & !1), Bdd(b.0 & !1));
        let result = if a == b {
            Bdd::FALSE
        } else if a == Bdd::TRUE {
            !b
        } else if b == Bdd::TRUE {
            !a
        } else {
            let (a, b) = if a < b { (a, b) } else { (b, a) };
            self.remembered([a.0, b.0, XOR], |diagram| diagram.xor_below(a, b))
        };
        result.negated_if(negate)
    }

    /// `then` where `condition` holds, `otherwise` where it does not.
    pub fn ite(&mut self, condition: Bdd, then: Bdd, otherwise: Bdd) -> Bdd {
        if condition.is_negated() {
            return self.ite_of(!condition, otherwise, then);
        }
        self.ite_of(condition, then, otherwise)
    }

    fn ite_of(&mut self, condition: Bdd, then: Bdd, otherwise: Bdd) -> Bdd {
        if condition == Bdd::TRUE || then == otherwise {
            return then;
        }
        match (then.as_constant(), otherwise.as_constant()) {
            (Some(true), _) => return self.or(condition, otherwise),
            (Some(false), _) => return self.and(!condition, otherwise),
            (_, Some(true)) => return self.or(!condition, then),
            (_, Some(false)) => return self.and(condition, then),
            _ => {}
        }
        if then == !otherwise {
            return self.xor(condition, otherwise);
        }
        let negate = then.is_negated();
        let (then, otherwise) = (then.negated_if(negate), otherwise.negated_if(negate));
        self.remembered([condition.0, then.0, otherwise.0], |diagram| {
            diagram.ite_below(condition, then, otherwise)
        })
        .negated_if(negate)
    }

    /// `function` with `replacement` in place of `variable`. Parts of `function`
    /// that do not depend on `variable` are not visited.
    pub fn compose(&mut self, function: Bdd, variable: Variable, replacement: Bdd) -> Bdd {
        let top = self.nodes[function.index()].variable;
        if top > variable {
            return function;
        }
        if top == variable {
            let (low, high) = self.cofactors(function, variable);
            return self.ite(replacement, high, low);
        }
        let negate = function.is_negated();
        let function = function.negated_if(negate);
        let key = [function.0, replacement.0, COMPOSE - variable];
        self.remembered(key, |diagram| diagram.compose_below(function, variable, replacement))
            .negated_if(negate)
    }

    fn compose_below(&mut self, function: Bdd, variable: Variable, replacement: Bdd) -> Bdd {
        let first = self.first_of(function, replacement);
        let ((f0, f1), (r0, r1)) = (self.cofactors(function, first), self.cofactors(replacement, first));
        let (low, high) = (self.compose(f0, variable, r0), self.compose(f1, variable, r1));
        self.node(first, low, high)
    }

    fn and_below(&mut self, a: Bdd, b: Bdd) -> Bdd {
        let variable = self.first_of(a, b);
        let ((a0, a1), (b0, b1)) = (self.cofactors(a, variable), self.cofactors(b, variable));
        let (low, high) = (self.and(a0, b0), self.and(a1, b1));
        self.node(variable, low, high)
    }

    fn xor_below(&mut self, a: Bdd, b: Bdd) -> Bdd {
        let variable = self.first_of(a, b);
        let ((a0, a1), (b0, b1)) = (self.cofactors(a, variable), self.cofactors(b, variable));
        let (low, high) = (self.xor(a0, b0), self.xor(a1, b1));
        self.node(variable, low, high)
    }

    fn ite_below(&mut self, condition: Bdd, then: Bdd, otherwise: Bdd) -> Bdd {
        let variable = self.nodes[condition.index()].variable.min(self.first_of(then, otherwise));
        let (c0, c1) = self.cofactors(condition, variable);
        let (t0, t1) = self.cofactors(then, variable);
        let (o0, o1) = self.cofactors(otherwise, variable);
        let (low, high) = (self.ite(c0, t0, o0), self.ite(c1, t1, o1));
        self.node(variable, low, high)
    }

    fn first_of(&self, a: Bdd, b: Bdd) -> Variable {
        self.nodes[a.index()].variable.min(self.nodes[b.index()].variable)
    }

    /// Looks an operation up, or does it and remembers it.
    fn remembered(&mut self, key: [u32; 3], operation: impl FnOnce(&mut Self) -> Bdd) -> Bdd {
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
        if self.nodes.len() >= MAX_NODES {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that every operation agrees with its truth table and that
    /// equal functions are the same value.
    #[test]
    fn operations_are_canonical() {
        let mut diagram = Diagram::default();
        let literals: Vec<Bdd> = (0..4).map(|v| diagram.variable(v)).collect();
        let mut functions = literals.clone();
        for round in 0..40 {
            let pick = |k: usize| functions[(round * 7 + k * 13) % functions.len()];
            let (a, b, c) = (pick(0), !pick(1), pick(2));
            for (got, table) in [
                (diagram.and(a, b), 0),
                (diagram.or(a, b), 1),
                (diagram.xor(a, b), 2),
                (diagram.ite(a, b, c), 3),
            ] {
                for bits in 0..16 {
                    let [x, y, z] = [a, b, c].map(|f| diagram.evaluate(f, bits).unwrap());
                    let want = [x && y, x || y, x != y, if x { y } else { z }][table];
                    assert_eq!(diagram.evaluate(got, bits), Some(want));
                }
                let again: Vec<bool> = (0..16).map(|bits| diagram.evaluate(got, bits).unwrap()).collect();
                let rebuilt =
                    (0..16u64).filter(|bits| again[*bits as usize]).fold(Bdd::FALSE, |sum, bits| {
                        let cube = (0..4).fold(Bdd::TRUE, |cube, v| {
                            let literal = literals[v as usize].negated_if(bits >> v & 1 == 0);
                            diagram.and(cube, literal)
                        });
                        diagram.or(sum, cube)
                    });
                assert_eq!(rebuilt, got);
                functions.push(got);
            }
        }
    }

    /// Make sure that composing puts one function into another, below and
    /// above what they test, and that the shortcut for cubes changes nothing.
    #[test]
    fn composition_is_substitution() {
        let mut diagram = Diagram::default();
        let [a, b, c, hole, below] = [0, 1, 2, 50, 51].map(|v| diagram.variable(v));
        let either = diagram.xor(a, hole);
        let function = diagram.ite(b, !either, below);
        let replacement = diagram.and(c, below);
        let either = diagram.xor(a, replacement);
        let want = diagram.ite(b, !either, below);
        assert_eq!(diagram.compose(function, 50, replacement), want);
        assert_eq!(diagram.compose(!function, 50, replacement), !want);
        for (x, y) in [(a, want), (!a, want), (b, want), (c, !want), (a, Bdd::FALSE), (want, a)] {
            assert_eq!(diagram.and_above(x, y), diagram.and(x, y));
        }
    }

    /// Make sure that a spent budget is noticed instead of a wrong answer.
    #[test]
    fn budget_is_honoured() {
        let mut diagram = Diagram::default();
        let many: Vec<Bdd> = (0..40).map(|v| diagram.variable(v)).collect();
        diagram.set_budget(10);
        let _ = many.iter().fold(Bdd::FALSE, |sum, v| diagram.xor(sum, *v));
        assert!(diagram.exhausted());
    }

    /// Make sure that an attempt costs a part of the budget, and that one which fails
    /// leaves the rest, and nothing wrong behind.
    #[test]
    fn attempts_are_bounded() {
        let mut diagram = Diagram::default();
        let many: Vec<Bdd> = (0..40).map(|v| diagram.variable(v)).collect();
        let all = |diagram: &mut Diagram| many.iter().fold(Bdd::FALSE, |sum, v| diagram.xor(sum, *v));
        diagram.set_budget(10_000);
        assert_eq!(diagram.attempt(all), None);
        assert!(!diagram.exhausted());
        let whole = all(&mut diagram);
        assert_eq!((diagram.exhausted(), diagram.evaluate(whole, 0b111)), (false, Some(true)));
        assert_eq!(diagram.attempt(all), Some(whole));
    }

    /// Make sure that what depends on late variables is told from what does not.
    #[test]
    fn dependence_on_late_variables() {
        let mut diagram = Diagram::default();
        let [a, b, late] = [0, 1, 64].map(|v| diagram.variable(v));
        let function = diagram.ite(a, late, b);
        assert_eq!(diagram.depends_from([function, b], 64), (a, Some(64)));
        assert_eq!(diagram.depends_from([b], 64), (Bdd::FALSE, None));
    }

    /// Make sure that a diagram that gave up cannot be made to look whole by a
    /// new budget: the next program of a stack would build on garbage.
    #[test]
    fn giving_up_is_for_good() {
        let mut diagram = Diagram::default();
        diagram.give_up();
        diagram.set_budget(u64::MAX);
        assert!(diagram.exhausted());
    }
}
