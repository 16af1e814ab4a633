//! Turns a policy into tests of the question's fields: first the type and the
//! request, then the major number, then the minor number.
//!
//! A field whose values fall into few ranges is searched by halves; where fewer
//! tests are enough, it is tested bit by bit. Equal parts share one node.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::super::diagram::{Bdd, Diagram, FunctionSet, Variable};
use super::super::inputs::{MAJOR, MAJOR_BITS, MINOR, MINOR_BITS, REQUEST, REQUEST_BITS, TYPE};
use crate::model::{DeviceType, Request};

/// Most ranges that one field is searched for: the search takes twice as many
/// instructions.
const MAX_RANGES: usize = 1 << 17;

/// The number of range tests that are preferred to one test of a bit: searching ends
/// after fewer tests, and is quicker to verify and to decode again.
const RANGES_FOR_A_BIT: usize = 8;

/// A field of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Field {
    Type,
    Request,
    Major,
    Minor,
}

/// The question of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Test {
    /// Whether the field is below this number.
    Below(u32),
    /// Whether the field has this bit.
    Bit(u32),
}

/// Number of a node.
pub(super) type NodeId = usize;

/// A verdict or a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// Allow or deny.
    Leaf(bool),
    /// The next node for yes and for no.
    Test(Field, Test, NodeId, NodeId),
}

/// The tests, shared where they are equal.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    numbers: HashMap<Node, NodeId, RandomState>,
    /// Nodes of functions that were translated already.
    done: HashMap<(Bdd, Variable), NodeId, RandomState>,
    pub(super) root: NodeId,
}

impl Tree {
    /// The tests that decide as `allow` does.
    pub(super) fn of(diagram: &mut Diagram, allow: Bdd) -> Self {
        let mut tree = Self::default();
        let kinds = [(0, DeviceType::Block), (DeviceType::Char as u32, DeviceType::Char)];
        let kinds = kinds.map(|(first, kind)| (first, tree.of_type(diagram, allow, kind)));
        tree.root = tree.search(Field::Type, &merged(kinds));
        tree
    }

    /// The tests of a type's requests. Numbers that are no request count as the
    /// one below them: the kernel never asks them.
    fn of_type(&mut self, diagram: &mut Diagram, allow: Bdd, kind: DeviceType) -> NodeId {
        let of_kind = fixed(diagram, allow, TYPE, kind == DeviceType::Char);
        let mut requests: Vec<u32> = Request::ALL.iter().map(|request| request.bits()).collect();
        requests.sort_unstable();
        let ranges: Vec<(u32, NodeId)> = requests
            .into_iter()
            .map(|bits| {
                let of_request = (0..REQUEST_BITS).fold(of_kind, |function, place| {
                    let bit = bits >> (REQUEST_BITS - 1 - place) & 1 == 1;
                    fixed(diagram, function, REQUEST + place, bit)
                });
                (bits, self.of_majors(diagram, of_request))
            })
            .collect();
        self.search(Field::Request, &merged(ranges))
    }

    fn of_majors(&mut self, diagram: &Diagram, function: Bdd) -> NodeId {
        self.of_field(diagram, function, Field::Major, MAJOR, MAJOR_BITS)
    }

    /// The tests of a number whose most significant bit is `first`.
    fn of_field(
        &mut self,
        diagram: &Diagram,
        function: Bdd,
        field: Field,
        first: Variable,
        width: u32,
    ) -> NodeId {
        if let Some(node) = self.done.get(&(function, first)) {
            return *node;
        }
        if diagram.limit().is_over() {
            // The caller throws the tree away.
            return self.node(Node::Leaf(false));
        }
        let end = first + width;
        let ranges = ranges(diagram, function, first, width)
            .filter(|ranges| ranges.len() <= RANGES_FOR_A_BIT * size(diagram, function, end) + 1);
        let node = match ranges {
            Some(ranges) => {
                let ranges =
                    ranges.into_iter().map(|(from, function)| (from, self.behind(diagram, function, field)));
                let ranges: Vec<_> = ranges.collect();
                self.search(field, &merged(ranges))
            }
            None => self.bits(diagram, function, field, end),
        };
        self.done.insert((function, first), node);
        node
    }

    /// The tree after a field.
    fn behind(&mut self, diagram: &Diagram, function: Bdd, field: Field) -> NodeId {
        match function.as_constant() {
            Some(value) => self.node(Node::Leaf(value)),
            None if field == Field::Major => {
                self.of_field(diagram, function, Field::Minor, MINOR, MINOR_BITS)
            }
            // Nothing is left to ask: the caller fixed everything else.
            None => self.node(Node::Leaf(false)),
        }
    }

    /// The tests of a field bit by bit; the field's variables end at `end`.
    fn bits(&mut self, diagram: &Diagram, function: Bdd, field: Field, end: Variable) -> NodeId {
        let Some(variable) = diagram.top(function).filter(|variable| *variable < end) else {
            return self.behind(diagram, function, field);
        };
        if let Some(node) = self.done.get(&(function, end)) {
            return *node;
        }
        let (low, high) = diagram.cofactors(function, variable);
        let no = self.bits(diagram, low, field, end);
        let yes = self.bits(diagram, high, field, end);
        let node = self.test(field, Test::Bit(1 << (end - 1 - variable)), yes, no);
        self.done.insert((function, end), node);
        node
    }

    /// Finds the range that a field's value is in: halves until one is left.
    fn search(&mut self, field: Field, ranges: &[(u32, NodeId)]) -> NodeId {
        let (below, from) = ranges.split_at(ranges.len() / 2);
        match (below, from) {
            ([], [(_, node)]) => *node,
            (below, [(first, _), ..]) => {
                let (yes, no) = (self.search(field, below), self.search(field, from));
                self.test(field, Test::Below(*first), yes, no)
            }
            (_, []) => self.node(Node::Leaf(false)),
        }
    }

    fn test(&mut self, field: Field, test: Test, yes: NodeId, no: NodeId) -> NodeId {
        if yes == no { yes } else { self.node(Node::Test(field, test, yes, no)) }
    }

    fn node(&mut self, node: Node) -> NodeId {
        *self.numbers.entry(node).or_insert_with(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        })
    }
}

/// The function with a variable fixed.
fn fixed(diagram: &mut Diagram, function: Bdd, variable: Variable, value: bool) -> Bdd {
    diagram.compose(function, variable, Bdd::constant(value))
}

/// Neighbours that are equal as one.
fn merged(ranges: impl IntoIterator<Item = (u32, NodeId)>) -> Vec<(u32, NodeId)> {
    let mut merged: Vec<(u32, NodeId)> = ranges.into_iter().collect();
    merged.dedup_by_key(|(_, node)| *node);
    merged
}

/// The values of a field as ranges that share a function: the first value of
/// each. `None` if there are more than [`MAX_RANGES`].
fn ranges(diagram: &Diagram, function: Bdd, first: Variable, width: u32) -> Option<Vec<(u32, Bdd)>> {
    let mut ranges = Vec::new();
    split(diagram, function, first, first + width, 0, &mut ranges).then_some(ranges)
}

/// Appends the ranges of the values from `from` on whose bits before `variable` are
/// fixed. Returns whether there was room.
fn split(
    diagram: &Diagram,
    function: Bdd,
    variable: Variable,
    end: Variable,
    from: u32,
    ranges: &mut Vec<(u32, Bdd)>,
) -> bool {
    if diagram.top(function).is_none_or(|top| top >= end) {
        if ranges.last().is_none_or(|(_, last)| *last != function) {
            ranges.push((from, function));
        }
        return ranges.len() <= MAX_RANGES;
    }
    let (low, high) = diagram.cofactors(function, variable);
    let half = 1 << (end - 1 - variable);
    split(diagram, low, variable + 1, end, from, ranges)
        && split(diagram, high, variable + 1, end, from + half, ranges)
}

/// Nodes of a function above the variable `end`.
fn size(diagram: &Diagram, function: Bdd, end: Variable) -> usize {
    let (mut seen, mut left) = (FunctionSet::default(), vec![function]);
    while let Some(function) = left.pop() {
        let Some(top) = diagram.top(function).filter(|top| *top < end) else { continue };
        if seen.insert(function) {
            let (low, high) = diagram.cofactors(function, top);
            left.extend([low, high]);
        }
    }
    seen.len()
}
