//! The paths of a run, as a graph of straight pieces.
//!
//! Running forward finds the pieces; folding backward turns them into one
//! function of the question. Guards (for which questions is a piece reached?)
//! are only worked out where something asks for them: merging different
//! values, indexing memory, ending loops.

use std::collections::BinaryHeap;

use super::diagram::{Bdd, Diagram, Variable};

/// First of the variables that represent a piece while the pieces before it are
/// folded; they come after all variables of questions and fresh bits. They are used
/// again, so that equal rules share their diagrams.
const FIRST_PIECE: Variable = 1 << 24;

/// Number of a piece.
pub type NodeId = usize;

/// The way from one piece to the next.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The piece it leaves.
    pub from: NodeId,
    /// For a branch, whether this is the side where the condition holds.
    pub taken: Option<bool>,
}

#[derive(Debug)]
enum End {
    /// Leads nowhere: not finished, or cut off as impossible.
    Open,
    Goto(NodeId),
    Branch {
        condition: Bdd,
        taken: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    Exit(Vec<Bdd>),
}

#[derive(Debug)]
struct Node {
    arrivals: Vec<Edge>,
    /// The last piece that every path here goes through.
    dominator: NodeId,
    end: End,
}

/// All pieces of a run; every edge leads to a later piece.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    /// Guards of the first pieces, as far as they were asked for.
    guards: Vec<Bdd>,
}

impl Graph {
    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A new piece, reached by `arrivals`; none for the first piece.
    pub fn add(&mut self, arrivals: Vec<Edge>) -> NodeId {
        let id = self.nodes.len();
        for edge in &arrivals {
            match (&mut self.nodes[edge.from].end, edge.taken) {
                (End::Branch { taken, .. }, Some(true)) => *taken = Some(id),
                (End::Branch { otherwise, .. }, _) => *otherwise = Some(id),
                (end, _) => *end = End::Goto(id),
            }
        }
        let dominator = self.common(&arrivals);
        self.nodes.push(Node { arrivals, dominator, end: End::Open });
        id
    }

    /// The last piece that all paths to `arrivals` go through.
    fn common(&self, arrivals: &[Edge]) -> NodeId {
        if let [only] = arrivals {
            return only.from;
        }
        let mut latest: BinaryHeap<NodeId> = arrivals.iter().map(|edge| edge.from).collect();
        while let Some(last) = latest.pop() {
            while latest.peek() == Some(&last) {
                latest.pop();
            }
            if latest.is_empty() {
                return last;
            }
            latest.push(self.nodes[last].dominator);
        }
        0
    }

    /// Ends a piece with a branch.
    pub fn branch(&mut self, node: NodeId, condition: Bdd) {
        self.nodes[node].end = End::Branch { condition, taken: None, otherwise: None };
    }

    /// Ends a piece with the program's results.
    pub fn exit(&mut self, node: NodeId, results: Vec<Bdd>) {
        self.nodes[node].end = End::Exit(results);
    }

    /// The questions for which `node` is reached.
    pub fn guard(&mut self, node: NodeId, diagram: &mut Diagram) -> Bdd {
        for next in self.guards.len()..=node {
            let arrivals = std::mem::take(&mut self.nodes[next].arrivals);
            let guard = arrivals.iter().fold(Bdd::constant(arrivals.is_empty()), |sum, edge| {
                let way = self.edge_guard(*edge, diagram);
                diagram.or(sum, way)
            });
            self.nodes[next].arrivals = arrivals;
            self.guards.push(guard);
        }
        self.guards[node]
    }

    /// The questions that take `edge`.
    pub fn edge_guard(&mut self, edge: Edge, diagram: &mut Diagram) -> Bdd {
        let guard = self.guard(edge.from, diagram);
        match (&self.nodes[edge.from].end, edge.taken) {
            (End::Branch { condition, .. }, Some(true)) => diagram.and(guard, *condition),
            (End::Branch { condition, .. }, Some(false)) => diagram.and(guard, !*condition),
            _ => guard,
        }
    }

    /// The n-th result as a function of the question. Where no path leads to an exit
    /// the function is `FALSE`.
    ///
    /// A rule is several branches with the same target when they fail. A variable
    /// represents that target until the rule is complete, so that each branch does
    /// not repeat everything that the later rules decide.
    pub fn fold(&self, result: usize, diagram: &mut Diagram) -> Bdd {
        let mut folded = vec![Bdd::FALSE; self.nodes.len()];
        let mut seen = folded.clone();
        // Meeting points and the variables that represent them, by dominator, latest
        // first.
        let mut meetings: Vec<Vec<(NodeId, Variable)>> = vec![Vec::new(); self.nodes.len()];
        let (mut free, mut next) = (Vec::new(), FIRST_PIECE);
        for (id, node) in self.nodes.iter().enumerate().rev() {
            let mut function = self.ending(node, result, &seen, diagram);
            for (meeting, variable) in meetings[id].drain(..).rev() {
                function = diagram.compose(function, variable, folded[meeting]);
                free.push(variable);
            }
            folded[id] = function;
            seen[id] = function;
            if node.arrivals.len() > 1 && function.as_constant().is_none() {
                let variable = free.pop().unwrap_or(next);
                next = next.max(variable + 1);
                seen[id] = diagram.variable(variable);
                meetings[node.dominator].push((id, variable));
            }
        }
        folded.first().copied().unwrap_or(Bdd::FALSE)
    }

    /// A piece's result, from the results of the pieces after it.
    fn ending(&self, node: &Node, result: usize, seen: &[Bdd], diagram: &mut Diagram) -> Bdd {
        match &node.end {
            End::Open => Bdd::FALSE,
            End::Goto(next) => seen[*next],
            End::Exit(results) => results.get(result).copied().unwrap_or(Bdd::FALSE),
            End::Branch { condition, taken, otherwise } => match (taken, otherwise) {
                (Some(taken), Some(otherwise)) => diagram.ite(*condition, seen[*taken], seen[*otherwise]),
                (Some(only), None) | (None, Some(only)) => seen[*only],
                (None, None) => Bdd::FALSE,
            },
        }
    }
}
