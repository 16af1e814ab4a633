//! Makes functions of others (and, or, exclusive or, a choice, a substitution), and looks
//! at them: what they test, how large they are, their values.

use super::{Bdd, Diagram, FunctionMap, Met, TERMINAL, Variable};

/// Marks a cache entry of a two-operand operation; no node can have this index.
const AND: u32 = u32::MAX;

const XOR: u32 = u32::MAX - 1;

/// The mark of [`Diagram::compose`], minus the variable.
const COMPOSE: u32 = u32::MAX - 2;

impl Diagram {
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
}

impl Diagram {
    /// The first variable the function tests; `None` for a constant.
    pub fn top(&self, function: Bdd) -> Option<Variable> {
        let variable = self.nodes[function.index()].variable;
        (variable != TERMINAL).then_some(variable)
    }

    /// Whether `function` has no more nodes than `room`.
    pub fn fits(&self, function: Bdd, room: usize, met: &mut Met) -> bool {
        if self.len() <= room {
            return true;
        }
        met.forget(self.len());
        let (mut count, mut left) = (0, vec![function.index()]);
        while let Some(index) = left.pop() {
            if !met.is_new(index) {
                continue;
            }
            count += 1;
            if count > room {
                return false;
            }
            let node = self.nodes[index];
            left.extend([node.low.index(), node.high.index()]);
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
        let (mut done, mut seen) = (FunctionMap::default(), None);
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
        done: &mut FunctionMap<Bdd>,
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
        if let Some(known) = done.get(&function.positive()) {
            return *known;
        }
        let low = self.depends_below(node.low, first, done, seen);
        let high = self.depends_below(node.high, first, done, seen);
        let depends = self.node(node.variable, low, high);
        done.insert(function.positive(), depends);
        depends
    }
}
