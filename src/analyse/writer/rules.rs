//! Reads a program as a list of rules, the form that most writers share: the fields of
//! the question are loaded, then each rule tests some of them and ends with a verdict.
//!
//! Constants that the kernel has blinded are read as what they stand for.

use crate::bytecode::{Arithmetic, Comparison, Operand, Operation};

/// How the fields are loaded: the type into r2, the request into r3, the numbers into
/// r4 and r5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prologue {
    /// The type as half of a word.
    Words,
    /// The type as a word of 16 bits.
    HalfWord,
}

/// What a rule tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Type,
    Access,
    Major,
    Minor,
}

/// How an access is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// The rule is for requests that ask for no more.
    Within,
    /// The rule is for requests that ask for any of it.
    Overlap,
    /// Some rules do the one and some the other, which no writer does.
    Mixed,
}

/// A result, and how wide the move is that sets it, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) allows: bool,
    width: Option<usize>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    /// What it tests, in its order.
    pub(super) parts: Vec<Part>,
    /// The numbers of the type, the major and the minor number, 0 for any.
    pub(super) numbers: [u64; 3],
    access: Option<Access>,
    scratch: usize,
    /// Its result; `None` if it jumps to a common exit.
    pub(super) verdict: Option<Verdict>,
}

/// What comes after the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The default.
    Returns(Verdict),
    /// The default, and the common exit of all rules.
    Shared,
}

/// A whole program.
#[derive(Clone, Debug)]
pub(super) struct RuleList {
    pub(super) prologue: Option<Prologue>,
    pub(super) rules: Vec<Rule>,
    pub(super) end: End,
}

impl Rule {
    /// Whether its tests stand in this order; none has to be there.
    pub(super) fn is_ordered(&self, order: [Part; 4]) -> bool {
        let mut left = order.iter();
        self.parts.iter().all(|part| left.any(|next| next == part))
    }

    pub(super) fn tests_access_then_type(&self) -> bool {
        self.parts.starts_with(&[Part::Access, Part::Type])
    }
}

impl RuleList {
    /// The program as rules, if it is nothing else.
    pub(super) fn of(operations: &[Operation]) -> Option<Self> {
        let mut reader = Reader { operations, at: 0 };
        let prologue = reader.prologue();
        let (mut rules, mut exits) = (Vec::new(), Vec::new());
        let end = loop {
            let start = reader.at;
            match reader.rule()? {
                (rule, Some(exit)) if !rule.parts.is_empty() => {
                    rules.push(rule);
                    exits.push(exit);
                }
                (Rule { parts, verdict: Some(verdict), .. }, None) if parts.is_empty() => {
                    break End::Returns(verdict);
                }
                (rule, None) => rules.push(rule),
                (_, Some(_)) => {
                    reader.at = start;
                    break reader.shared_exit(&exits)?;
                }
            }
        };
        let is_one_kind = exits.is_empty() || exits.len() == rules.len() && end == End::Shared;
        (reader.at == operations.len() && is_one_kind).then_some(Self { prologue, rules, end })
    }

    /// How all rules that test accesses do it, `None` if none does.
    pub(super) fn access(&self) -> Option<Access> {
        let tests = self.rules.iter().filter_map(|rule| rule.access);
        tests.reduce(|one, other| if one == other { one } else { Access::Mixed })
    }

    /// The width of all verdicts.
    pub(super) fn verdict_width(&self) -> Option<usize> {
        let end = match self.end {
            End::Returns(verdict) => Some(verdict),
            End::Shared => None,
        };
        let verdicts = self.rules.iter().filter_map(|rule| rule.verdict).chain(end);
        let mut widths = verdicts.filter_map(|verdict| verdict.width);
        let first = widths.next()?;
        widths.all(|width| width == first).then_some(first)
    }
}

/// Whether the program begins with a rule as NVIDIA's toolkit puts it before the
/// program of a container: it keeps the access elsewhere than others do.
pub(super) fn begins_with_nvidias(operations: &[Operation]) -> bool {
    let mut reader = Reader { operations, at: 0 };
    if reader.prologue() != Some(Prologue::HalfWord) {
        return false;
    }
    const PARTS: [Part; 4] = [Part::Type, Part::Access, Part::Major, Part::Minor];
    let own = |rule: &Rule| rule.parts == PARTS && matches!(rule.scratch, 2 | 6) && rule.numbers[0] == 2;
    let returns = Verdict { allows: true, width: Some(32) };
    reader.rule().is_some_and(|(rule, _)| own(&rule) && rule.verdict == Some(returns))
}

struct Reader<'a> {
    operations: &'a [Operation],
    at: usize,
}

/// The kernel's scratch register.
const AX: usize = 11;

impl Reader<'_> {
    /// The next operation, with its constant if that is blinded.
    fn take(&mut self) -> Option<Operation> {
        let constant = |operation: &Operation, wanted: Arithmetic| match operation {
            Operation::Arithmetic { kind, dst: AX, source: Operand::Immediate(value), .. }
                if *kind == wanted =>
            {
                Some(*value)
            }
            _ => None,
        };
        let hidden = match self.operations.get(self.at..self.at + 3) {
            Some([first, second, third]) => constant(first, Arithmetic::Move)
                .zip(constant(second, Arithmetic::Xor))
                .map(|(left, right)| with_constant(*third, (left ^ right) as u32)),
            _ => None,
        };
        self.at += if hidden.is_some() { 3 } else { 1 };
        match hidden {
            Some(operation) => Some(operation),
            None => self.operations.get(self.at - 1).map(|operation| zeroed(*operation)),
        }
    }

    /// Reads these operations, or nothing.
    fn all(&mut self, expected: &[Operation]) -> bool {
        let start = self.at;
        let fits = expected.iter().all(|operation| self.take().as_ref() == Some(operation));
        if !fits {
            self.at = start;
        }
        fits
    }

    fn prologue(&mut self) -> Option<Prologue> {
        let load = |dst, offset, size| Operation::Load { dst, base: 1, offset, size, signed: false };
        let narrow = |kind, dst, by| alu(kind, 32, dst, Operand::Immediate(by));
        let shift = narrow(Arithmetic::ShiftRight, 3, 16);
        let rest = [load(3, 0, 4), shift, load(4, 4, 4), load(5, 8, 4)];
        let words = [&[load(2, 0, 4), narrow(Arithmetic::And, 2, 0xffff)][..], &rest].concat();
        let half_word = [&[load(2, 0, 2)][..], &rest].concat();
        if self.all(&words) {
            return Some(Prologue::Words);
        }
        self.all(&half_word).then_some(Prologue::HalfWord)
    }

    /// A rule, and where it jumps to instead of returning. All its tests must lead
    /// to what follows it.
    fn rule(&mut self) -> Option<(Rule, Option<usize>)> {
        let (mut rule, mut targets) = (Rule::default(), Vec::new());
        let exit = loop {
            let is_xor = |operation: &Operation| {
                matches!(operation, Operation::Arithmetic { kind: Arithmetic::Xor, .. })
            };
            let hides_width = self.operations.get(self.at).is_some_and(is_xor);
            match self.take()? {
                Operation::Branch { comparison: Comparison::NotEqual, width: 64, dst, source, target } => {
                    let Operand::Immediate(number) = source else { return None };
                    let (part, place) = match dst {
                        2 => (Part::Type, 0),
                        4 => (Part::Major, 1),
                        5 => (Part::Minor, 2),
                        _ => return None,
                    };
                    rule.parts.push(part);
                    rule.numbers[place] = number;
                    targets.push(target);
                }
                Operation::Arithmetic {
                    kind: Arithmetic::Move,
                    width: 32,
                    dst,
                    source: Operand::Register(3),
                } => {
                    targets.push(self.access(dst, &mut rule)?);
                }
                Operation::Arithmetic {
                    kind: Arithmetic::Move,
                    width,
                    dst: 0,
                    source: Operand::Immediate(result @ 0..=1),
                } => {
                    rule.verdict =
                        Some(Verdict { allows: result == 1, width: (!hides_width).then_some(width) });
                    match self.take()? {
                        Operation::Exit => break None,
                        Operation::Jump { target } => break Some(target),
                        _ => return None,
                    }
                }
                Operation::Jump { target } => break Some(target),
                _ => return None,
            }
        };
        targets.iter().all(|target| *target == self.at).then_some((rule, exit))
    }

    /// The rest of a test of the access, which is kept in `scratch`; where it leads.
    fn access(&mut self, scratch: usize, rule: &mut Rule) -> Option<usize> {
        let is_mask = |operation| matches!(operation, Operation::Arithmetic { kind: Arithmetic::And, width: 32, dst, source: Operand::Immediate(_) } if dst == scratch);
        if !is_mask(self.take()?) {
            return None;
        }
        let (access, target) = match self.take()? {
            Operation::Branch {
                comparison: Comparison::NotEqual,
                width: 64,
                dst,
                source: Operand::Register(3),
                target,
            } if dst == scratch => (Access::Within, target),
            Operation::Branch {
                comparison: Comparison::Equal,
                width: 64,
                dst,
                source: Operand::Immediate(0),
                target,
            } if dst == scratch => (Access::Overlap, target),
            _ => return None,
        };
        rule.parts.push(Part::Access);
        (rule.access, rule.scratch) = (Some(access), scratch);
        Some(target)
    }

    /// `r0 = 0; goto +1; r0 = 1; exit`, where all rules jump to `r0 = 1`.
    fn shared_exit(&mut self, exits: &[usize]) -> Option<End> {
        let set = |value| Some(alu(Arithmetic::Move, 64, 0, Operand::Immediate(value)));
        let denies = self.take() == set(0);
        let over = self.take()?;
        let allow = self.at;
        let allows = self.take() == set(1);
        let leaves = over == Operation::Jump { target: self.at } && self.take() == Some(Operation::Exit);
        let all_lead_there = !exits.is_empty() && exits.iter().all(|exit| *exit == allow);
        (denies && allows && leaves && all_lead_there).then_some(End::Shared)
    }
}

pub(super) fn alu(kind: Arithmetic, width: usize, dst: usize, source: Operand) -> Operation {
    Operation::Arithmetic { kind, width, dst, source }
}

/// The operation with this constant where it reads the scratch register.
fn with_constant(operation: Operation, constant: u32) -> Operation {
    let constant = Operand::Immediate(constant.cast_signed() as i64 as u64);
    match operation {
        Operation::Arithmetic { kind, width, dst, source: Operand::Register(AX) } => {
            Operation::Arithmetic { kind, width, dst, source: constant }
        }
        Operation::Branch { comparison, width, dst, source: Operand::Register(AX), target } => {
            Operation::Branch { comparison, width, dst, source: constant, target }
        }
        other => other,
    }
}

/// A move of 0 where the operation is the kernel's other spelling of it, and a move
/// where a listing says no more.
fn zeroed(operation: Operation) -> Operation {
    match operation {
        Operation::Unclear { kind, width, dst, source } => alu(kind, width, dst, source),
        Operation::Arithmetic {
            kind: Arithmetic::Xor,
            width: 64,
            dst,
            source: Operand::Register(source),
        } if source == dst => alu(Arithmetic::Move, 64, dst, Operand::Immediate(0)),
        other => other,
    }
}
