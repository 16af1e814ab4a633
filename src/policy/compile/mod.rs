//! Compiles a policy into a device program: the inverse of the decoder.
//!
//! `tree` turns the diagram of what is allowed into tests of whole fields, which become
//! instructions here. Each node's instructions stand once, after all that lead to it, so
//! every jump goes forward. Decoding the program again gives the same policy.

mod tree;

use tree::{Field, Node, NodeId, Test, Tree};

use super::decoder::Decoder;
use super::types::Policy;
use crate::bytecode::{Insn, opcode};

/// Most instructions that the kernel loads (`BPF_COMPLEXITY_LIMIT_INSNS`,
/// `linux/bpf_verifier.h`).
const MAX_INSNS: usize = 1_000_000;

/// Why a policy has no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Some verdicts are unknown, for these reasons.
    #[error("some of its verdicts are unknown: {}", .0.join("; "))]
    Unknown(Vec<String>),
    /// The kernel would refuse a program of this many instructions.
    #[error("it takes {0} instructions, and the kernel loads a million")]
    TooLarge(usize),
    /// It took too long.
    #[error("the time limit (--timeout) ran out before gpumap had compiled it")]
    Late,
}

impl Decoder {
    /// A device program that decides as the policy does: for all devices and
    /// all requests that the kernel makes.
    ///
    /// The program reads each field of the context once and tests nothing
    /// twice on the way to a verdict, which keeps the verifier's work in
    /// proportion to its length. Past 32,767 instructions it may hold jumps
    /// that only Linux 6.6 and later take.
    ///
    /// # Errors
    ///
    /// Any unknown verdict, a program longer than the kernel loads, and no time left.
    pub fn compile(&mut self, policy: Policy) -> Result<Vec<Insn>, CompileError> {
        if !self.is_known(policy) {
            let reasons = self.reasons(policy).into_iter().map(str::to_owned).collect();
            return Err(CompileError::Unknown(reasons));
        }
        let tree = Tree::of(&mut self.diagram, policy.allow);
        if self.limit().is_over() {
            return Err(CompileError::Late);
        }
        let insns = program(&tree);
        if insns.len() > MAX_INSNS { Err(CompileError::TooLarge(insns.len())) } else { Ok(insns) }
    }
}

/// A field of `struct bpf_cgroup_dev_ctx` (`linux/bpf.h`): its offset in bytes.
const ACCESS_TYPE: i16 = 0;

const MAJOR: i16 = 4;

const MINOR: i16 = 8;

/// `access_type` has the type in its low 16 bits, the request above them.
const TYPE_MASK: i32 = 0xffff;

const REQUEST_SHIFT: i32 = 16;

/// Instructions of a conditional jump whose target is too far away.
const FAR: usize = 3;

/// The program.
fn program(tree: &Tree) -> Vec<Insn> {
    let mut code = loads(tree);
    let mut layout = Layout::new(tree, code.len());
    while layout.stretch() {}
    layout.emit(&mut code);
    code
}

/// Loads the tested fields, each into its own register.
fn loads(tree: &Tree) -> Vec<Insn> {
    let is_tested = |field| tree.nodes.iter().any(|node| matches!(node, Node::Test(of, ..) if *of == field));
    let load = |field, off| Insn {
        code: opcode::LDX | opcode::MEM | opcode::W,
        dst: register(field),
        src: 1,
        off,
        imm: 0,
    };
    let narrow =
        |field, op, imm| Insn { code: opcode::ALU | op, dst: register(field), imm, ..Insn::default() };
    let code = [
        (Field::Type, vec![load(Field::Type, ACCESS_TYPE), narrow(Field::Type, opcode::AND, TYPE_MASK)]),
        (
            Field::Request,
            vec![load(Field::Request, ACCESS_TYPE), narrow(Field::Request, opcode::RSH, REQUEST_SHIFT)],
        ),
        (Field::Major, vec![load(Field::Major, MAJOR)]),
        (Field::Minor, vec![load(Field::Minor, MINOR)]),
    ];
    code.into_iter().filter(|(field, _)| is_tested(*field)).flat_map(|(_, code)| code).collect()
}

fn register(field: Field) -> u8 {
    match field {
        Field::Type => 2,
        Field::Request => 3,
        Field::Major => 4,
        Field::Minor => 5,
    }
}

/// The positions of the nodes.
struct Layout<'a> {
    tree: &'a Tree,
    /// The nodes in the order of their instructions: each after all nodes that jump
    /// to it.
    order: Vec<NodeId>,
    /// By node: whether its jump takes the long form.
    is_far: Vec<bool>,
    /// By node: its first instruction.
    places: Vec<usize>,
    start: usize,
}

impl<'a> Layout<'a> {
    fn new(tree: &'a Tree, start: usize) -> Self {
        let mut order = Vec::new();
        visit(tree, tree.root, &mut vec![false; tree.nodes.len()], &mut order);
        order.reverse();
        let (is_far, places) = (vec![false; tree.nodes.len()], vec![0; tree.nodes.len()]);
        let mut layout = Self { tree, order, is_far, places, start };
        layout.place();
        layout
    }

    /// The nodes, each with the one that follows it.
    fn pairs(&self) -> impl Iterator<Item = (NodeId, Option<NodeId>)> {
        let next = self.order.iter().skip(1).copied().map(Some).chain([None]);
        self.order.iter().copied().zip(next)
    }

    fn place(&mut self) {
        let mut place = self.start;
        for (node, next) in self.pairs().collect::<Vec<_>>() {
            self.places[node] = place;
            place += match self.jump(node, next) {
                None => 2,
                Some(jump) => {
                    let conditional = if self.is_far[node] { FAR } else { 1 };
                    conditional + usize::from(jump.otherwise.is_some())
                }
            };
        }
    }

    /// Gives jumps that do not reach their targets the long form. Returns whether
    /// there were any, because that moves all positions.
    fn stretch(&mut self) -> bool {
        let far = |(node, next)| {
            let jump = self.jump(node, next)?;
            let distance = self.places[jump.target] - self.places[node] - 1;
            (!self.is_far[node] && i16::try_from(distance).is_err()).then_some(node)
        };
        let far: Vec<NodeId> = self.pairs().filter_map(far).collect();
        far.iter().for_each(|node| self.is_far[*node] = true);
        self.place();
        !far.is_empty()
    }

    /// The jump of a node; `None` for a verdict.
    fn jump(&self, node: NodeId, next: Option<NodeId>) -> Option<Jump> {
        let Node::Test(field, test, yes, no) = self.tree.nodes[node] else { return None };
        let (op, number, target, other) = match test {
            Test::Below(bound) if next == Some(yes) => (opcode::JGE, bound, no, yes),
            Test::Below(bound) => (opcode::JLT, bound, yes, no),
            Test::Bit(bit) => (opcode::JSET, bit, yes, no),
        };
        let dst = register(field);
        let test = Insn { code: opcode::JMP | op, dst, imm: number.cast_signed(), ..Insn::default() };
        Some(Jump { test, target, otherwise: (next != Some(other)).then_some(other) })
    }

    fn emit(&self, code: &mut Vec<Insn>) {
        for (node, next) in self.pairs() {
            match (self.tree.nodes[node], self.jump(node, next)) {
                (Node::Leaf(allow), _) => code.extend(verdict(allow)),
                (_, Some(jump)) => {
                    self.conditional(code, &jump, self.is_far[node]);
                    if let Some(otherwise) = jump.otherwise {
                        code.push(goto(self.places[otherwise] - code.len() - 1));
                    }
                }
                (Node::Test(..), None) => {}
            }
        }
    }

    fn conditional(&self, code: &mut Vec<Insn>, jump: &Jump, is_far: bool) {
        let distance = |code: &Vec<Insn>| self.places[jump.target] - code.len() - 1;
        if is_far {
            // To the long jump, or over it.
            code.push(Insn { off: 1, ..jump.test });
            code.push(goto(1));
            code.push(goto(distance(code)));
        } else {
            let off = i16::try_from(distance(code)).unwrap_or(i16::MAX);
            code.push(Insn { off, ..jump.test });
        }
    }
}

/// A test with where its outcomes lead.
struct Jump {
    test: Insn,
    /// The node it jumps to.
    target: NodeId,
    /// The node of the other outcome, unless it follows directly.
    otherwise: Option<NodeId>,
}

/// Appends the nodes below a node, then the node.
fn visit(tree: &Tree, node: NodeId, seen: &mut [bool], order: &mut Vec<NodeId>) {
    if std::mem::replace(&mut seen[node], true) {
        return;
    }
    if let Node::Test(_, _, yes, no) = tree.nodes[node] {
        visit(tree, yes, seen, order);
        visit(tree, no, seen, order);
    }
    order.push(node);
}

fn verdict(allow: bool) -> [Insn; 2] {
    let mov = Insn { code: opcode::ALU64 | opcode::MOV, imm: i32::from(allow), ..Insn::default() };
    [mov, Insn { code: opcode::JMP | opcode::EXIT, ..Insn::default() }]
}

/// A jump over some instructions: with a 16-bit offset where that is enough,
/// else the one of Linux 6.6.
fn goto(distance: usize) -> Insn {
    match i16::try_from(distance) {
        Ok(off) => Insn { code: opcode::JMP | opcode::JA, off, ..Insn::default() },
        Err(_) => {
            let imm = i32::try_from(distance).unwrap_or(i32::MAX);
            Insn { code: opcode::JMP32 | opcode::JA, imm, ..Insn::default() }
        }
    }
}
