//! Programs that are no list of rules, or known by the rules in them.

use super::rules::{RuleList, alu};
use crate::bytecode::{Arithmetic, Comparison, Operand, Operation};

/// Lookups in libvirt's map: of both numbers, of each with any other, of any.
const LIBVIRT_LOOKUPS: usize = 4;
/// The devices that crun allows to every container, in the order in which it writes
/// them; its versions differ in what stands around these.
const CRUN_DEFAULTS: [[u64; 2]; 7] = [[136, 0], [5, 1], [1, 9], [1, 5], [5, 0], [1, 7], [1, 8]];

fn load(dst: usize, base: usize, offset: i16) -> Operation {
    Operation::Load { dst, base, offset, size: 4, signed: false }
}

/// libvirt puts both numbers into a key and looks it up in four ways.
pub(super) fn is_libvirts(operations: &[Operation]) -> bool {
    let key = [
        alu(Arithmetic::Move, 64, 6, Operand::Register(1)),
        load(1, 6, 8),
        load(2, 6, 4),
        alu(Arithmetic::ShiftLeft, 64, 2, Operand::Immediate(32)),
        alu(Arithmetic::Or, 64, 2, Operand::Register(1)),
        Operation::Store { base: 10, offset: -8, size: 8, source: Operand::Register(2) },
    ];
    let end = [alu(Arithmetic::Move, 64, 0, Operand::Immediate(0)), Operation::Exit];
    let lookups = operations.iter().filter(|operation| matches!(operation, Operation::LoadMap { .. }));
    operations.starts_with(&key) && operations.ends_with(&end) && lookups.count() == LIBVIRT_LOOKUPS
}

/// HTCondor denies pairs of numbers, whatever their type, and allows the rest.
pub(super) fn is_htcondors(operations: &[Operation]) -> bool {
    let set = |value| alu(Arithmetic::Move, 32, 0, Operand::Immediate(value));
    let Some(rest) = operations.strip_prefix(&[set(1), load(2, 1, 4), load(3, 1, 8)][..]) else {
        return false;
    };
    let Some((Operation::Exit, rules)) = rest.split_last() else { return false };
    let is_rule = |(index, rule): (usize, &[Operation])| {
        let next = 3 + (index + 1) * 4;
        let tests = |operation: &Operation, register| {
            matches!(operation, Operation::Branch { comparison: Comparison::NotEqual, width: 32, dst, source: Operand::Immediate(_), target }
                if (*dst, *target) == (register, next))
        };
        matches!(rule, [major, minor, verdict, Operation::Exit]
            if tests(major, 2) && tests(minor, 3) && *verdict == set(0))
    };
    !rules.is_empty() && rules.chunks(4).enumerate().all(is_rule)
}

/// Whether the rules of every container of crun's are among these.
pub(super) fn has_cruns_rules(list: &RuleList) -> bool {
    let is = |rule: &super::Rule, [major, minor]: [u64; 2]| {
        rule.numbers == [2, major, minor] && rule.verdict.is_some_and(|verdict| verdict.allows)
    };
    list.rules
        .windows(CRUN_DEFAULTS.len())
        .any(|rules| rules.iter().zip(CRUN_DEFAULTS).all(|(rule, known)| is(rule, known)))
}
