//! Eliminates inputs that cannot be known, and tells what is known for either value
//! of each, what is not, and why.

use std::collections::BTreeSet;

use super::diagram::{Bdd, Diagram};
use super::inputs::{FIRST_FRESH, Symbols};

/// Copied nodes between two looks at the clock.
const CLOCK_STEPS: usize = 1 << 13;
/// Reasons that are kept apart for one policy; the rest share one.
const MAX_REASONS: usize = 16;

/// A function of the question alone, and where it has no value.
#[derive(Debug)]
pub struct Projection {
    /// The questions for which the function is true whatever the fresh bits.
    pub yes: Bdd,
    /// The questions for which it is false whatever the fresh bits.
    pub no: Bdd,
    /// The questions for which it is neither, by reason. Regions of different
    /// reasons may overlap.
    pub open: Vec<(Bdd, String)>,
}

impl Diagram {
    /// A function of the question in another diagram.
    pub fn copied_to(&self, function: Bdd, target: &mut Self) -> Bdd {
        Copier::new(self, target).copy(function, &mut |leaf| leaf == Bdd::TRUE)
    }
}

/// Copies `function` from the diagram of a run into `target`.
pub fn project(symbols: &Symbols, function: Bdd, target: &mut Diagram) -> Projection {
    let mut copy = Copier::new(&symbols.diagram, target);
    let yes = copy.copy(function, &mut |leaf| leaf == Bdd::TRUE);
    let leaves = std::mem::take(&mut copy.leaves);
    if leaves.is_empty() {
        return Projection { yes, no: !yes, open: Vec::new() };
    }
    let no = Copier::new(&symbols.diagram, target).copy(function, &mut |leaf| leaf == Bdd::FALSE);
    let mut open = Vec::new();
    for (why, behind) in by_reason(symbols, &leaves) {
        let region = Copier::new(&symbols.diagram, target).copy(function, &mut |leaf| behind.contains(&leaf));
        open.push((region, why));
    }
    Projection { yes, no, open }
}

/// Each reason with the leaves that depend on it.
fn by_reason(symbols: &Symbols, leaves: &BTreeSet<Bdd>) -> Vec<(String, BTreeSet<Bdd>)> {
    let mut reasons: Vec<(String, BTreeSet<Bdd>)> = Vec::new();
    for leaf in leaves {
        for why in reasons_of(symbols, *leaf) {
            match reasons.iter().position(|(known, _)| *known == why) {
                Some(place) => _ = reasons[place].1.insert(*leaf),
                None if reasons.len() < MAX_REASONS => reasons.push((why, BTreeSet::from([*leaf]))),
                None => {}
            }
        }
        // Every open leaf has a reason, however many reasons there are.
        if !reasons.iter().any(|(_, behind)| behind.contains(leaf))
            && let Some((_, behind)) = reasons.last_mut()
        {
            behind.insert(*leaf);
        }
    }
    reasons
}

fn reasons_of(symbols: &Symbols, leaf: Bdd) -> BTreeSet<String> {
    let (mut seen, mut stack, mut reasons) = (BTreeSet::new(), vec![leaf], BTreeSet::new());
    while let Some(at) = stack.pop() {
        let Some(variable) = symbols.diagram.top(at) else { continue };
        if !seen.insert(at) {
            continue;
        }
        reasons.extend(symbols.reason(variable).map(str::to_owned));
        let (low, high) = symbols.diagram.cofactors(at, variable);
        stack.extend([low, high]);
    }
    reasons
}

/// A copy of the question's part of a function into another diagram.
struct Copier<'a> {
    from: &'a Diagram,
    to: &'a mut Diagram,
    done: Vec<Option<Bdd>>,
    copied: usize,
    leaves: BTreeSet<Bdd>,
}

impl<'a> Copier<'a> {
    fn new(from: &'a Diagram, to: &'a mut Diagram) -> Self {
        Self { from, to, done: vec![None; from.len() * 2], copied: 0, leaves: BTreeSet::new() }
    }

    /// Whether the time is over. Then the copy is worthless, and its diagram says so.
    fn is_late(&mut self) -> bool {
        self.copied += 1;
        if self.copied.is_multiple_of(CLOCK_STEPS) && self.to.limit().is_over() {
            self.to.give_up();
        }
        self.to.exhausted()
    }

    /// The copy, with every part that does not test the question replaced by
    /// what `leaf` says of it.
    fn copy(&mut self, function: Bdd, leaf: &mut impl FnMut(Bdd) -> bool) -> Bdd {
        let variable = match self.from.top(function) {
            Some(variable) if variable < FIRST_FRESH => variable,
            Some(_) => {
                self.leaves.insert(function);
                return Bdd::constant(leaf(function));
            }
            None => return Bdd::constant(leaf(function)),
        };
        if let Some(done) = self.done[function.number()] {
            return done;
        }
        if self.is_late() {
            return Bdd::FALSE;
        }
        let (low, high) = self.from.cofactors(function, variable);
        let (low, high) = (self.copy(low, leaf), self.copy(high, leaf));
        let copied = self.to.node(variable, low, high);
        self.done[function.number()] = Some(copied);
        copied
    }
}
