//! Instructions of which a listing does not show which of several they are: what they
//! leave is known as far as it is the same for all of them.

use crate::bytecode::Arithmetic;

use super::super::compute;
use super::super::diagram::Bdd;
use super::super::table::TableKind;
use super::super::value::Value;
use super::super::word::Word;
use super::Machine;

/// The plain kind, the width, and whether a register is moved to itself.
type Unclear = (Arithmetic, usize, bool);

impl Machine<'_> {
    /// The result of an instruction that is not clear.
    pub(super) fn unclear(&mut self, pc: usize, unclear: Unclear, left: &Value, right: &Value) -> Value {
        let (kind, width, _) = unclear;
        let why = format!(
            "it depends on instruction {pc}, which a listing without opcodes does not show whole: dump the program again with `opcodes`"
        );
        if kind != Arithmetic::Move {
            return self.agreed(unclear, left, right, &why);
        }
        let moved: Vec<(Bdd, Value)> = right
            .alternatives()
            .into_iter()
            .map(|(guard, value)| match value {
                Value::Scalar(_) | Value::Unset if self.may_change_space(unclear) => {
                    (guard, Value::Scalar(self.symbols.unknown_word(64, &why)))
                }
                Value::Scalar(_) | Value::Unset => (guard, self.agreed(unclear, left, &value, &why)),
                Value::Pointer(_) | Value::Choice(_) if width == 64 && !self.code.moves_addresses(pc) => {
                    (guard, Value::Scalar(self.symbols.unknown_word(64, &why)))
                }
                address => (guard, compute::arithmetic(kind, width, left, &address, self.symbols)),
            })
            .collect();
        Value::of_alternatives(moved, self.symbols)
    }

    /// Whether the move may be one to or from an arena, or to the copy of a CPU: the
    /// verifier alone writes that, to the register that it is from.
    fn may_change_space(&self, (_, width, is_own): Unclear) -> bool {
        let may_be_arena = |kind| matches!(kind, TableKind::Arena | TableKind::Absent);
        width == 64 && (is_own || self.code.maps.iter().any(|table| may_be_arena(table.kind)))
    }

    /// The bits that all readings share; the others are unknown.
    fn agreed(&mut self, (kind, width, _): Unclear, left: &Value, right: &Value, why: &str) -> Value {
        let mut result =
            |kind| compute::arithmetic(kind, width, left, right, self.symbols).word(self.symbols);
        let first = result(kind);
        let others: Vec<Word> = others(kind, width).iter().map(|kind| result(*kind)).collect();
        let mut differs = Word::ZERO;
        for other in others {
            let diagram = &mut self.symbols.diagram;
            let here = first.xor(&other, diagram);
            differs = differs.or(&here, diagram);
        }
        let (mut bits, differs) = (first.bits(), differs.bits());
        for (bit, differs) in bits.iter_mut().zip(differs) {
            if differs != Bdd::FALSE {
                let unknown = self.symbols.unknown_bit(why);
                *bit = self.symbols.diagram.ite(differs, unknown, *bit);
            }
        }
        Value::Scalar(Word::from_bits(bits))
    }
}

/// What else an instruction may be that is printed as this kind.
fn others(kind: Arithmetic, width: usize) -> &'static [Arithmetic] {
    use Arithmetic::{Div, Mod, MoveSigned, SignedDiv, SignedMod};
    const MOVES: [Arithmetic; 3] = [MoveSigned(8), MoveSigned(16), MoveSigned(32)];
    match kind {
        Div => &[SignedDiv],
        Mod => &[SignedMod],
        _ if width == 64 => &MOVES,
        _ => &MOVES[..2],
    }
}
