//! Looks at functions: what they test, how large they are, their values.

use std::collections::{HashMap, HashSet};

use super::{Bdd, Diagram, TERMINAL, Variable};

impl Diagram {
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
}
