//! The paths of a run, as a graph of basic blocks: instructions that run one after another.
//!
//! The run adds blocks from the first instruction on. [`Graph::fold`] then goes back
//! from the ends of all paths and makes one function of the question. The guard of a
//! block says which questions reach it. Guards are computed only where they are needed:
//! to merge different values, to find places in memory, and to end loops.

use std::collections::BinaryHeap;

use super::diagram::{Bdd, Diagram, Met, Variable};

/// First of the variables that represent a block while the blocks before it are
/// folded; they come after all variables of questions and fresh bits. They are used
/// again, so that equal rules share their diagrams.
const FIRST_BLOCK: Variable = 1 << 24;

/// The most blocks of a rule: the checks that lead to the next one.
const BLOCKS_OF_RULE: usize = 16;

/// Nodes of a result that is repeated in a search, whose blocks are reached from afar, and in
/// a program of few blocks.
const SMALL: usize = 256;
const FEW_BLOCKS: usize = 64;

/// Number of a block.
pub type BlockId = usize;

/// The way from one block to the next.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The block it leaves.
    pub from: BlockId,
    /// For a branch, whether this is the side where the condition holds.
    pub taken: Option<bool>,
}

#[derive(Debug)]
enum BlockEnd {
    /// Leads nowhere: not finished, or cut off as impossible.
    Open,
    Goto(BlockId),
    Branch {
        condition: Bdd,
        taken: Option<BlockId>,
        otherwise: Option<BlockId>,
    },
    Exit(Vec<Bdd>),
}

#[derive(Debug)]
struct Block {
    arrivals: Vec<Edge>,
    /// The last block that every path here goes through.
    dominator: BlockId,
    end: BlockEnd,
}

/// All blocks of a run; every edge leads to a later block.
#[derive(Debug, Default)]
pub struct Graph {
    blocks: Vec<Block>,
    /// Guards of the first blocks, as far as they were asked for.
    guards: Vec<Bdd>,
}

impl Graph {
    /// The number of blocks.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// A new block, reached by `arrivals`; none for the first block.
    pub fn add(&mut self, arrivals: Vec<Edge>) -> BlockId {
        let id = self.blocks.len();
        for edge in &arrivals {
            match (&mut self.blocks[edge.from].end, edge.taken) {
                (BlockEnd::Branch { taken, .. }, Some(true)) => *taken = Some(id),
                (BlockEnd::Branch { otherwise, .. }, _) => *otherwise = Some(id),
                (end, _) => *end = BlockEnd::Goto(id),
            }
        }
        let dominator = self.common(&arrivals);
        self.blocks.push(Block { arrivals, dominator, end: BlockEnd::Open });
        id
    }

    /// The last block that all paths to `arrivals` go through.
    fn common(&self, arrivals: &[Edge]) -> BlockId {
        if let [only] = arrivals {
            return only.from;
        }
        let mut latest: BinaryHeap<BlockId> = arrivals.iter().map(|edge| edge.from).collect();
        while let Some(last) = latest.pop() {
            while latest.peek() == Some(&last) {
                latest.pop();
            }
            if latest.is_empty() {
                return last;
            }
            latest.push(self.blocks[last].dominator);
        }
        0
    }

    /// Ends a block with a branch.
    pub fn branch(&mut self, block: BlockId, condition: Bdd) {
        self.blocks[block].end = BlockEnd::Branch { condition, taken: None, otherwise: None };
    }

    /// Ends a block with the program's results.
    pub fn exit(&mut self, block: BlockId, results: Vec<Bdd>) {
        self.blocks[block].end = BlockEnd::Exit(results);
    }

    /// The questions for which `block` is reached.
    pub fn guard(&mut self, block: BlockId, diagram: &mut Diagram) -> Bdd {
        for next in self.guards.len()..=block {
            let arrivals = std::mem::take(&mut self.blocks[next].arrivals);
            let guard = arrivals.iter().fold(Bdd::constant(arrivals.is_empty()), |sum, edge| {
                let way = self.edge_guard(*edge, diagram);
                diagram.or(sum, way)
            });
            self.blocks[next].arrivals = arrivals;
            self.guards.push(guard);
        }
        self.guards[block]
    }

    /// The questions that take `edge`.
    pub fn edge_guard(&mut self, edge: Edge, diagram: &mut Diagram) -> Bdd {
        let guard = self.guard(edge.from, diagram);
        match (&self.blocks[edge.from].end, edge.taken) {
            (BlockEnd::Branch { condition, .. }, Some(true)) => diagram.and(guard, *condition),
            (BlockEnd::Branch { condition, .. }, Some(false)) => diagram.and(guard, !*condition),
            _ => guard,
        }
    }

    /// The n-th result as a function of the question. Where no path leads to an exit
    /// the function is `FALSE`.
    ///
    /// A rule is several branches with the same target when they fail. A variable
    /// represents that target until the rule is complete, so that each branch does
    /// not repeat everything that the later rules decide. Where branches ask in the
    /// order of the diagram's variables, as those of a search do, they repeat nothing.
    pub fn fold(&self, result: usize, diagram: &mut Diagram) -> Bdd {
        let mut folded = vec![Bdd::FALSE; self.blocks.len()];
        let mut seen = folded.clone();
        // Meeting points and the variables that represent them, by dominator, latest
        // first.
        let mut meetings: Vec<Vec<(BlockId, Variable)>> = vec![Vec::new(); self.blocks.len()];
        let (mut free, mut next, mut met) = (Vec::new(), FIRST_BLOCK, Met::default());
        for (id, block) in self.blocks.iter().enumerate().rev() {
            let mut function = self.ending(block, result, &seen, diagram);
            for (meeting, variable) in meetings[id].drain(..).rev() {
                function = diagram.compose(function, variable, folded[meeting]);
                free.push(variable);
            }
            folded[id] = function;
            seen[id] = function;
            if block.arrivals.len() > 1 && !self.is_cheap(id, function, diagram, &mut met) {
                let variable = free.pop().unwrap_or(next);
                next = next.max(variable + 1);
                seen[id] = diagram.variable(variable);
                meetings[block.dominator].push((id, variable));
            }
        }
        folded.first().copied().unwrap_or(Bdd::FALSE)
    }

    /// Whether a block's result is cheaply repeated in all branches that lead to it: it is
    /// a constant, or small and not behind one rule of many, or they ask about no variable
    /// behind those that it depends on.
    fn is_cheap(&self, id: BlockId, function: Bdd, diagram: &Diagram, met: &mut Met) -> bool {
        let block = &self.blocks[id];
        let Some(first) = diagram.top(function) else { return true };
        let is_behind_rule = id - block.dominator <= BLOCKS_OF_RULE && self.blocks.len() > FEW_BLOCKS;
        if !is_behind_rule && diagram.fits(function, SMALL, met) {
            return true;
        }
        let asks_before = |edge: &Edge| match self.branch_before(*edge) {
            Some(condition) => diagram.ends_before(condition, first),
            None => false,
        };
        block.arrivals.iter().all(asks_before)
    }

    /// The condition of the branch that alone leads to an edge.
    fn branch_before(&self, mut edge: Edge) -> Option<Bdd> {
        loop {
            let block = self.blocks.get(edge.from)?;
            match (&block.end, block.arrivals.as_slice()) {
                (BlockEnd::Branch { condition, .. }, _) => return Some(*condition),
                (BlockEnd::Goto(_), [only]) => edge = *only,
                _ => return None,
            }
        }
    }

    /// A block's result, from the results of the blocks after it.
    fn ending(&self, block: &Block, result: usize, seen: &[Bdd], diagram: &mut Diagram) -> Bdd {
        match &block.end {
            BlockEnd::Open => Bdd::FALSE,
            BlockEnd::Goto(next) => seen[*next],
            BlockEnd::Exit(results) => results.get(result).copied().unwrap_or(Bdd::FALSE),
            BlockEnd::Branch { condition, taken, otherwise } => match (taken, otherwise) {
                (Some(taken), Some(otherwise)) => diagram.ite(*condition, seen[*taken], seen[*otherwise]),
                (Some(only), None) | (None, Some(only)) => seen[*only],
                (None, None) => Bdd::FALSE,
            },
        }
    }
}
