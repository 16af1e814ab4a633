//! Recognises the software that wrote a program: by its whole shape, and only where
//! nobody else writes that shape; by its name, where the shape is not always the same.
//! A name and a shape that do not fit each other have no label. It is for people, and
//! no proof.
//!
//! Others share the shapes of Slurm (without its name), of LXC up to 4.0.2 and of a crun
//! without its default devices: their programs have no label either.

mod rules;
#[cfg(test)]
mod tests;

use rules::{Access, End, Part, Prologue, Rule, RuleList, alu};

use crate::bytecode::Arithmetic::{self, Add, And, Move, Or, ShiftLeft};
use crate::bytecode::Operand::{self, Immediate, Register};
use crate::bytecode::{Comparison, Insn, Operation};
use crate::model::Writer;
use crate::observation::Text;

/// The order in which a writer tests the parts of a question.
type Order = [Part; 4];

const ACCESS_FIRST: Order = [Part::Access, Part::Type, Part::Major, Part::Minor];

const TYPE_FIRST: Order = [Part::Type, Part::Access, Part::Major, Part::Minor];

/// The writer, if nobody else writes programs like this one.
pub(super) fn of(insns: &[Insn], name: &Text) -> Option<Writer> {
    let operations = Operation::decode_all(insns);
    let list = RuleList::of(&operations);
    let fits = |fits: fn(&RuleList) -> bool| list.as_ref().is_some_and(fits);
    match name.as_bytes() {
        b"gpumap_repair" => is_gpumaps(&operations).then_some(Writer::Gpumap),
        b"Slurm_Cgroup_v2" => fits(is_slurms).then_some(Writer::Slurm),
        b"sd_devices" => (fits(is_systemds) || fits(has_no_rules)).then_some(Writer::Systemd),
        b"craned_device_a" => looks_up(&operations).then_some(Writer::Crane),
        b"oarcgdev" => looks_up(&operations).then_some(Writer::Oar),
        b"" if is_libvirts(&operations) => Some(Writer::Libvirt),
        b"" if is_htcondors(&operations) => Some(Writer::Htcondor),
        b"" if rules::begins_with_nvidias(&operations) => Some(Writer::NvidiaToolkit),
        b"" => by_rules(list.as_ref()?),
        _ => None,
    }
}

fn by_rules(list: &RuleList) -> Option<Writer> {
    if is_systemds(list) {
        return Some(Writer::Systemd);
    }
    let is_ordered = |order: Order| list.rules.iter().all(|rule| rule.is_ordered(order));
    let has_types = list.rules.iter().all(|rule| rule.parts.first() == Some(&Part::Type));
    let prologue = list.prologue?;
    match (prologue, list.access(), list.verdict_width()?) {
        (Prologue::Words, Some(Access::Within), 64) if is_ordered(ACCESS_FIRST) => {
            list.rules.iter().any(Rule::tests_access_then_type).then_some(Writer::Lxc)
        }
        _ if !is_ordered(TYPE_FIRST) || !has_types => None,
        (Prologue::Words, Some(Access::Within) | None, 32) => Some(Writer::Runc),
        (Prologue::Words, Some(Access::Overlap), 32) => Some(Writer::OldRunc),
        (Prologue::HalfWord, Some(Access::Overlap) | None, 32) => Some(Writer::Containerd),
        (Prologue::Words, Some(Access::Within), 64) => has_cruns_rules(list).then_some(Writer::Crun),
        (_, Some(Access::Overlap), 64) => Some(Writer::OldCrun),
        _ => None,
    }
}

/// Slurm's program tests no access and allows by default.
fn is_slurms(list: &RuleList) -> bool {
    list.prologue == Some(Prologue::Words)
        && !list.rules.is_empty()
        && list.access().is_none()
        && list.verdict_width() == Some(64)
        && matches!(list.end, End::Returns(verdict) if verdict.allows)
        && list.rules.iter().all(|rule| rule.is_ordered(TYPE_FIRST))
}

/// systemd's program has one exit, to which its rules jump.
fn is_systemds(list: &RuleList) -> bool {
    list.prologue == Some(Prologue::Words)
        && list.end == End::Shared
        && matches!(list.access(), Some(Access::Within) | None)
        && list.rules.iter().all(|rule| rule.verdict.is_none() && rule.is_ordered(ACCESS_FIRST))
}

/// What systemd writes where it allows nothing.
fn has_no_rules(list: &RuleList) -> bool {
    list.rules.is_empty() && matches!(list.end, End::Returns(verdict) if !verdict.allows)
}

/// The devices that crun allows to every container, in the order in which it writes
/// them; its versions differ in what stands around these.
const CRUN_DEFAULTS: [[u64; 2]; 7] = [[136, 0], [5, 1], [1, 9], [1, 5], [5, 0], [1, 7], [1, 8]];

fn load(dst: usize, base: usize, offset: i16) -> Operation {
    Operation::Load { dst, base, offset, size: 4, signed: false }
}

/// libvirt puts both numbers into a key and looks up the pair, each number with any
/// other, and any pair.
fn is_libvirts(operations: &[Operation]) -> bool {
    let find = |wanted: fn(&Operation) -> bool| operations.iter().copied().find(wanted);
    let map = find(|operation| matches!(operation, Operation::LoadMap { dst: 1, .. }));
    let call = find(|operation| matches!(operation, Operation::CallHelper { .. }));
    let (Some(map), Some(call)) = (map, call) else { return false };
    // The kernel may have inlined a part of the lookup.
    let inlined = find(|operation| matches!(operation, Operation::Arithmetic { kind: Add, dst: 0, .. }));
    let mut expected = Vec::with_capacity(operations.len());
    for key in libvirts_keys() {
        expected.extend(key);
        expected.extend([
            wide(Move, 2, Register(10)),
            wide(Add, 2, Immediate(-8_i64 as u64)),
            map,
            Operation::MIDDLE,
            call,
        ]);
        if let Some(add) = inlined {
            expected.extend([equal(0, Immediate(0), expected.len() + 2), add]);
        }
        let next = expected.len() + 7;
        expected.extend([
            wide(Move, 1, Register(0)),
            equal(1, Immediate(0), next),
            wide(Move, 0, Immediate(1)),
            load(2, 6, 0),
            load(1, 1, 0),
            wide(And, 1, Register(2)),
            equal(1, Register(2), operations.len().saturating_sub(1)),
        ]);
    }
    expected.extend([wide(Move, 0, Immediate(0)), Operation::Exit]);
    expected == operations
}

fn wide(kind: Arithmetic, dst: usize, source: Operand) -> Operation {
    alu(kind, 64, dst, source)
}

fn equal(dst: usize, source: Operand, target: usize) -> Operation {
    Operation::Branch { comparison: Comparison::Equal, width: 64, dst, source, target }
}

/// What libvirt writes before each lookup.
fn libvirts_keys() -> [Vec<Operation>; 4] {
    let store = |source| Operation::Store { base: 10, offset: -8, size: 8, source: Register(source) };
    let constant = |value| Operation::LoadConstant { dst: 2, value };
    let shift = |dst| wide(ShiftLeft, dst, Immediate(32));
    let either = |dst, source| wide(Or, dst, Register(source));
    [
        vec![wide(Move, 6, Register(1)), load(1, 6, 8), load(2, 6, 4), shift(2), either(2, 1), store(2)],
        vec![load(1, 6, 4), shift(1), constant(0xffff_ffff), Operation::MIDDLE, either(1, 2), store(1)],
        vec![load(1, 6, 8), constant(0xffff_ffff << 32), Operation::MIDDLE, either(1, 2), store(1)],
        vec![wide(Move, 1, Immediate(u64::MAX)), store(1)],
    ]
}

/// gpumap compares fields with bounds and bits alone, and reads nothing else.
fn is_gpumaps(operations: &[Operation]) -> bool {
    use Comparison::{AnyBit, GreaterEqual, Less};
    let fits = |operation: &Operation| match operation {
        Operation::Load { dst: 2..=5, base: 1, size: 4, .. } | Operation::Jump { .. } | Operation::Exit => {
            true
        }
        Operation::Arithmetic { kind, width: 32, dst: 2, .. } => *kind == Arithmetic::And,
        Operation::Arithmetic { kind, width: 32, dst: 3, .. } => *kind == Arithmetic::ShiftRight,
        Operation::Arithmetic { kind, width: 64, dst: 0, source: Operand::Immediate(0 | 1) } => {
            *kind == Arithmetic::Move
        }
        // What the kernel makes of `r0 = 0`.
        Operation::Arithmetic { kind, dst: 0, source: Operand::Register(0), .. } => *kind == Arithmetic::Xor,
        Operation::Branch { comparison, width: 64, dst: 2..=5, .. } => {
            matches!(comparison, GreaterEqual | Less | AnyBit)
        }
        _ => false,
    };
    let tests = operations.iter().any(|operation| matches!(operation, Operation::Branch { .. }));
    tests && operations.iter().all(fits)
}

/// Whether a map decides, in a program that is not libvirt's.
fn looks_up(operations: &[Operation]) -> bool {
    !is_libvirts(operations)
        && operations.iter().any(|operation| matches!(operation, Operation::LoadMap { .. }))
}

/// HTCondor denies pairs of numbers, whatever their type, and allows the rest.
fn is_htcondors(operations: &[Operation]) -> bool {
    let set = |value| alu(Move, 32, 0, Immediate(value));
    let Some(rest) = operations.strip_prefix(&[set(1), load(2, 1, 4), load(3, 1, 8)][..]) else {
        return false;
    };
    let Some((Operation::Exit, rules)) = rest.split_last() else { return false };
    let is_rule = |(index, rule): (usize, &[Operation])| {
        let next = 3 + (index + 1) * 4;
        let tests = |operation: &Operation, register| {
            matches!(operation, Operation::Branch { comparison: Comparison::NotEqual, width: 32, dst, source: Immediate(_), target }
                if (*dst, *target) == (register, next))
        };
        matches!(rule, [major, minor, verdict, Operation::Exit]
            if tests(major, 2) && tests(minor, 3) && *verdict == set(0))
    };
    !rules.is_empty() && rules.chunks(4).enumerate().all(is_rule)
}

/// Whether the rules of every container of crun's are among these.
fn has_cruns_rules(list: &RuleList) -> bool {
    let is = |rule: &Rule, [major, minor]: [u64; 2]| {
        rule.numbers == [2, major, minor] && rule.verdict.is_some_and(|verdict| verdict.allows)
    };
    list.rules
        .windows(CRUN_DEFAULTS.len())
        .any(|rules| rules.iter().zip(CRUN_DEFAULTS).all(|(rule, known)| is(rule, known)))
}
