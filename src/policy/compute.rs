//! Arithmetic and comparisons on values, numbers and pointers alike.

use crate::bytecode::{Arithmetic, Comparison};

use super::diagram::{Bdd, Diagram};
use super::inputs::Symbols;
use super::value::{Base, Holds, Pointer, Value};
use super::word::Word;

/// Most alternatives of two operands that are combined one by one.
const MAX_PAIRS: usize = 256;

/// `dst = dst kind source` on the low `width` bits.
pub fn arithmetic(
    kind: Arithmetic,
    width: usize,
    dst: &Value,
    source: &Value,
    symbols: &mut Symbols,
) -> Value {
    match (kind, width, dst, source) {
        (Arithmetic::Move, 64, _, source) => source.clone(),
        (Arithmetic::MovePerCpu, ..) => on_this_cpu(source, symbols),
        (Arithmetic::MoveSpace, ..) => {
            Value::Scalar(symbols.unknown_word(64, "it depends on memory shared with user space (an arena)"))
        }
        (_, _, Value::Scalar(a), Value::Scalar(b)) => Value::Scalar(on_words(kind, width, a, b, symbols)),
        (Arithmetic::Add | Arithmetic::Sub, 64, _, _) => on_alternatives(kind, dst, source, symbols),
        _ => {
            let needs_dst = !matches!(kind, Arithmetic::Move | Arithmetic::MoveSigned(_));
            let a = if needs_dst { dst.word(symbols) } else { Word::ZERO };
            let b = if kind == Arithmetic::Negate { Word::ZERO } else { source.word(symbols) };
            Value::Scalar(on_words(kind, width, &a, &b, symbols))
        }
    }
}

/// The address of this CPU's copy. A pointer to a per-CPU value already means any
/// CPU's copy.
fn on_this_cpu(source: &Value, symbols: &mut Symbols) -> Value {
    let mut copy = |value: &Value| match value {
        Value::Pointer(_) => value.clone(),
        _ => Value::Scalar(symbols.unknown_word(64, "it depends on the CPU")),
    };
    let copies = source.alternatives().iter().map(|(guard, value)| (*guard, copy(value))).collect();
    Value::of_alternatives(copies, symbols)
}

/// Adds or subtracts where pointers may be involved.
fn on_alternatives(kind: Arithmetic, dst: &Value, source: &Value, symbols: &mut Symbols) -> Value {
    let (left, right) = (dst.alternatives(), source.alternatives());
    if left.len() * right.len() > MAX_PAIRS {
        return Value::Scalar(symbols.unknown_word(64, "it depends on too many possible pointers"));
    }
    let mut results = Vec::with_capacity(left.len() * right.len());
    for (left_guard, a) in &left {
        for (right_guard, b) in &right {
            let guard = symbols.diagram.and(*left_guard, *right_guard);
            results.push((guard, sum(kind, a, b, symbols)));
        }
    }
    Value::of_alternatives(results, symbols)
}

fn sum(kind: Arithmetic, a: &Value, b: &Value, symbols: &mut Symbols) -> Value {
    match (kind, a, b) {
        (_, Value::Scalar(a), Value::Scalar(b)) => Value::Scalar(on_words(kind, 64, a, b, symbols)),
        (_, Value::Pointer(pointer), Value::Scalar(by)) => moved(pointer, by, kind, symbols),
        (Arithmetic::Add, Value::Scalar(by), Value::Pointer(pointer)) => moved(pointer, by, kind, symbols),
        (Arithmetic::Sub, Value::Pointer(a), Value::Pointer(b)) if are_in_one_place(a, b) => {
            Value::Scalar(a.offset.sub(&b.offset, &mut symbols.diagram))
        }
        _ => Value::Scalar(symbols.unknown_word(64, "it depends on a kernel address")),
    }
}

/// A pointer moved by a number of bytes. Only the kernel's own inlined lookups
/// move a pointer to a hash element (the verifier refuses it to programs), and
/// they do it once, by the constant step to the value.
fn moved(pointer: &Pointer, by: &Word, kind: Arithmetic, symbols: &mut Symbols) -> Value {
    let step = by.as_constant().filter(|step| kind == Arithmetic::Add && (1..4096).contains(step));
    match (&pointer.base, step) {
        (Base::HashElement(selection), Some(_)) => {
            let base = match selection.holds {
                Holds::Values => Base::MapValue,
                Holds::PerCpu => Base::PerCpuSlot,
                Holds::Maps => Base::InnerSlot,
            };
            Value::pointer(base(selection.clone()), Word::ZERO)
        }
        (Base::MapObject(_) | Base::HashElement(_), _) => {
            Value::Scalar(symbols.unknown_word(64, "it depends on a kernel address"))
        }
        (base, _) => {
            let diagram = &mut symbols.diagram;
            let offset = match kind {
                Arithmetic::Sub => pointer.offset.sub(by, diagram),
                _ => pointer.offset.add(by, diagram),
            };
            Value::pointer(base.clone(), offset)
        }
    }
}

fn on_words(kind: Arithmetic, width: usize, dst: &Word, source: &Word, symbols: &mut Symbols) -> Word {
    if let Arithmetic::MoveSigned(bits) = kind {
        return source.sign_extended(bits).zero_extended(width);
    }
    let (a, b) = (dst.zero_extended(width), source.zero_extended(width));
    let length = length(kind, width, &a, &b);
    if let Some(why) = why_not_calculated(kind, &a, &b, symbols) {
        return symbols.unknown_word(length as u32, &why);
    }
    symbols.widened(&a, &b, length, |a, b, diagram| exact(kind, width, a, b, diagram).zero_extended(width))
}

/// Why a result is unknown that need not be calculated to know that it costs too much.
fn why_not_calculated(kind: Arithmetic, a: &Word, b: &Word, symbols: &Symbols) -> Option<String> {
    let is_power = |word: &Word| word.as_constant().is_some_and(u64::is_power_of_two);
    match kind {
        Arithmetic::Div | Arithmetic::Mod if is_power(b) => None,
        Arithmetic::Div | Arithmetic::Mod | Arithmetic::SignedDiv | Arithmetic::SignedMod => {
            symbols.why_plainly_unknown(a).or_else(|| symbols.why_plainly_unknown(b))
        }
        Arithmetic::Add | Arithmetic::Sub | Arithmetic::Mul => symbols.why_both_unknown(a, b),
        _ => None,
    }
}

/// How many bits a result has at most.
fn length(kind: Arithmetic, width: usize, a: &Word, b: &Word) -> usize {
    let (left, right) = (a.length(), b.length());
    let length = match kind {
        Arithmetic::Add => left.max(right) + 1,
        Arithmetic::Mul => left + right,
        Arithmetic::Div => left - left.min(b.as_constant().map_or(0, |_| right.saturating_sub(1))),
        Arithmetic::Mod => match b.as_constant() {
            Some(0) | None => left,
            Some(_) => left.min(right),
        },
        Arithmetic::Or | Arithmetic::Xor => left.max(right),
        Arithmetic::And => left.min(right),
        Arithmetic::ShiftRight => left,
        _ => width,
    };
    length.min(width)
}

fn exact(kind: Arithmetic, width: usize, a: &Word, b: &Word, diagram: &mut Diagram) -> Word {
    let signed = |word: &Word| word.sign_extended(width);
    let log_width = if width == 64 { 6 } else { 5 };
    match kind {
        Arithmetic::Add => a.add(b, diagram),
        Arithmetic::Sub => a.sub(b, diagram),
        Arithmetic::Mul => a.mul(b, diagram),
        Arithmetic::Div => a.div_rem(b, diagram).0,
        Arithmetic::Mod => a.div_rem(b, diagram).1,
        Arithmetic::SignedDiv => signed(a).signed_div_rem(&signed(b), diagram).0,
        Arithmetic::SignedMod => signed(a).signed_div_rem(&signed(b), diagram).1,
        Arithmetic::Or => a.or(b, diagram),
        Arithmetic::And => a.and(b, diagram),
        Arithmetic::Xor => a.xor(b, diagram),
        Arithmetic::ShiftLeft => a.shl(b, log_width, diagram),
        Arithmetic::ShiftRight => a.shr(b, log_width, diagram),
        Arithmetic::ShiftRightSigned => signed(a).sar(b, log_width, diagram),
        Arithmetic::Negate => Word::ZERO.sub(a, diagram),
        Arithmetic::Move | Arithmetic::MovePerCpu | Arithmetic::MoveSpace | Arithmetic::MoveSigned(_) => {
            b.clone()
        }
    }
}

/// The questions for which `dst comparison source` holds on the low `width` bits.
pub fn condition(
    comparison: Comparison,
    width: usize,
    dst: &Value,
    source: &Value,
    symbols: &mut Symbols,
) -> Bdd {
    if !matches!(dst, Value::Choice(_)) && !matches!(source, Value::Choice(_)) {
        return one_condition(comparison, width, dst, source, symbols);
    }
    let mut holds = Bdd::FALSE;
    for (left_guard, a) in &dst.alternatives() {
        for (right_guard, b) in &source.alternatives() {
            let guard = symbols.diagram.and(*left_guard, *right_guard);
            let here = one_condition(comparison, width, a, b, symbols);
            let both = symbols.diagram.and(guard, here);
            holds = symbols.diagram.or(holds, both);
        }
    }
    holds
}

fn one_condition(comparison: Comparison, width: usize, a: &Value, b: &Value, symbols: &mut Symbols) -> Bdd {
    match (a, b) {
        (Value::Scalar(a), Value::Scalar(b)) => word_condition(comparison, width, a, b, symbols),
        (Value::Pointer(a), Value::Pointer(b)) if are_in_one_place(a, b) && width == 64 => {
            pointer_condition(comparison, &a.offset, &b.offset, symbols)
        }
        (Value::Pointer(_), Value::Scalar(Word::Constant(0))) if width == 64 => match comparison {
            Comparison::Equal | Comparison::LessEqual => Bdd::FALSE,
            Comparison::NotEqual | Comparison::Greater => Bdd::TRUE,
            _ => symbols.unknown_bit("it depends on a kernel address"),
        },
        (Value::Unset, _) | (_, Value::Unset) => {
            symbols.unknown_bit("it depends on a register that was never set")
        }
        _ => symbols.unknown_bit("it depends on a kernel address"),
    }
}

/// Whether both lead into one and the same object, so that their distance is
/// known. Two lookups that may find any entry, two records and the copies of
/// two CPUs have equal descriptions and different addresses.
fn are_in_one_place(a: &Pointer, b: &Pointer) -> bool {
    let is_one = |base: &Base| match base {
        Base::Context | Base::Stack(_) | Base::MapObject(_) | Base::Subprogram(_) | Base::Array(_) => true,
        Base::HashElement(_) | Base::PerCpuSlot(_) | Base::MapValue(_) | Base::PerCpuSlots(_) => false,
        Base::InnerSlot(_) | Base::InnerSlots(_) | Base::Scratch | Base::Bytes(_) => false,
    };
    is_one(&a.base) && a.base == b.base
}

/// The questions for which the comparison of two addresses in one object holds.
/// Kernel addresses are in the upper half and no object crosses its end, so their
/// order, signed or not, is that of the signed distances from the object's start.
fn pointer_condition(comparison: Comparison, a: &Word, b: &Word, symbols: &mut Symbols) -> Bdd {
    let is_small = |word: &Word| word.bits()[31..].windows(2).all(|pair| pair[0] == pair[1]);
    let comparison = match comparison {
        Comparison::Equal | Comparison::NotEqual => comparison,
        Comparison::AnyBit => return symbols.unknown_bit("it depends on a kernel address"),
        _ if !(is_small(a) && is_small(b)) => return symbols.unknown_bit("it depends on a kernel address"),
        Comparison::Less => Comparison::SignedLess,
        Comparison::LessEqual => Comparison::SignedLessEqual,
        Comparison::Greater => Comparison::SignedGreater,
        Comparison::GreaterEqual => Comparison::SignedGreaterEqual,
        signed => signed,
    };
    word_condition(comparison, 64, a, b, symbols)
}

fn word_condition(comparison: Comparison, width: usize, a: &Word, b: &Word, symbols: &mut Symbols) -> Bdd {
    use Comparison::{
        AnyBit, Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual, SignedGreater, SignedGreaterEqual,
        SignedLess, SignedLessEqual,
    };
    if let Some(why) = symbols.why_both_unknown(a, b) {
        return symbols.unknown_bit(&why);
    }
    let (a, b) = match comparison {
        SignedGreater | SignedGreaterEqual | SignedLess | SignedLessEqual => {
            (a.sign_extended(width), b.sign_extended(width))
        }
        _ => (a.zero_extended(width), b.zero_extended(width)),
    };
    let holds = symbols.widened(&a, &b, 1, |a, b, diagram| {
        Word::from_bool(match comparison {
            Equal => a.equal_to(b, diagram),
            NotEqual => !a.equal_to(b, diagram),
            Less => a.less_than(b, diagram),
            GreaterEqual => !a.less_than(b, diagram),
            Greater => b.less_than(a, diagram),
            LessEqual => !b.less_than(a, diagram),
            SignedLess => a.signed_less_than(b, diagram),
            SignedGreaterEqual => !a.signed_less_than(b, diagram),
            SignedGreater => b.signed_less_than(a, diagram),
            SignedLessEqual => !b.signed_less_than(a, diagram),
            AnyBit => !a.and(b, diagram).equal_to(&Word::ZERO, diagram),
        })
    });
    holds.bits()[0]
}

/// The alternatives of `dst` for which the condition can hold, or with `holds`
/// false, can fail: after a null test only the pointer is left.
pub fn narrowed(
    comparison: Comparison,
    width: usize,
    dst: &Value,
    source: &Value,
    holds: bool,
    symbols: &mut Symbols,
) -> Value {
    let Value::Choice(alternatives) = dst else { return dst.clone() };
    let possible: Vec<(Bdd, Value)> = alternatives
        .iter()
        .filter(|(_, value)| condition(comparison, width, value, source, symbols) != Bdd::constant(!holds))
        .cloned()
        .collect();
    Value::of_alternatives(possible, symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that 32-bit operations ignore the upper halves and clear them.
    #[test]
    fn narrow_arithmetic_is_zero_extended() {
        let symbols = &mut Symbols::default();
        for (kind, a, b, want) in [
            (Arithmetic::Add, 0xffff_ffff, 1, 0),
            (Arithmetic::Sub, 0, 1, 0xffff_ffff),
            (Arithmetic::ShiftLeft, 1, 33, 2),
            (Arithmetic::ShiftRightSigned, 0x8000_0000, 4, 0xf800_0000),
            (Arithmetic::SignedDiv, 0xffff_fff8, 2, 0xffff_fffc),
            (Arithmetic::SignedMod, 0xffff_fff9, 4, 0xffff_fffd),
            (Arithmetic::MoveSigned(8), 0, 0x80, 0xffff_ff80),
            (Arithmetic::Negate, 1, 0, 0xffff_ffff),
            (Arithmetic::Move, 0, u64::MAX, 0xffff_ffff),
        ] {
            let got = arithmetic(kind, 32, &Value::from(a | 7 << 40), &Value::from(b), symbols);
            assert_eq!(got.as_constant(), Some(want), "{kind:?}");
        }
    }
}
