//! Tests of diagrams.

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
        for (got, table) in
            [(diagram.and(a, b), 0), (diagram.or(a, b), 1), (diagram.xor(a, b), 2), (diagram.ite(a, b, c), 3)]
        {
            for bits in 0..16 {
                let [x, y, z] = [a, b, c].map(|f| diagram.evaluate(f, bits).unwrap());
                let want = [x && y, x || y, x != y, if x { y } else { z }][table];
                assert_eq!(diagram.evaluate(got, bits), Some(want));
            }
            let again: Vec<bool> = (0..16).map(|bits| diagram.evaluate(got, bits).unwrap()).collect();
            let rebuilt = (0..16u64).filter(|bits| again[*bits as usize]).fold(Bdd::FALSE, |sum, bits| {
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
