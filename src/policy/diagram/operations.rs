//! Makes functions of others: and, or, exclusive or, a choice, a substitution.

use super::{Bdd, Diagram, Variable};

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
