//! One stack frame. It is kept byte by byte, because stores and loads of different
//! sizes may overlap in any way.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::diagram::Bdd;
use super::inputs::Symbols;
use super::value::Value;
use super::word::Word;

/// Bytes of stack a frame has: 512 for the program (`MAX_BPF_STACK`,
/// `linux/filter.h`), and below them what the verifier adds for the loops that
/// it writes out itself (at most 24 for `bpf_loop` and 16 for `may_goto`,
/// `kernel/bpf/verifier.c`).
pub const SIZE: i64 = 512 + 24 + 16;

const UNSET: &str = "it depends on stack that was never written";

/// One byte.
#[derive(Clone, Debug, PartialEq)]
enum Byte {
    /// Eight bits of a number, least significant first.
    Bits([Bdd; 8]),
    /// These bits for the questions of the first function. For the others nothing
    /// was written here, or what was written is not known.
    Partly(Bdd, [Bdd; 8]),
    /// A byte of a spilled value that is not a plain number.
    Part(Value, u8),
}

/// The questions for which a byte is known, and its bits for these.
type PartlyKnown = (Bdd, [Bdd; 8]);

/// The first byte where `guard` holds and the second elsewhere.
fn either(
    (known, bits): PartlyKnown,
    (other_known, other): PartlyKnown,
    guard: Bdd,
    symbols: &mut Symbols,
) -> PartlyKnown {
    let diagram = &mut symbols.diagram;
    let is_known = diagram.ite(guard, known, other_known);
    let bits = match (known, other_known) {
        (Bdd::FALSE, _) => other,
        (_, Bdd::FALSE) => bits,
        _ => std::array::from_fn(|bit| diagram.ite(guard, bits[bit], other[bit])),
    };
    (is_known, bits)
}

/// A frame's written bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    /// By offset from the top, all below 0.
    bytes: BTreeMap<i16, Byte>,
    /// Why the other bytes are unknown, if not because nothing was ever
    /// written there.
    forgotten: Option<Rc<str>>,
}

impl Frame {
    /// Whether `size` bytes from `offset` are inside the frame.
    pub fn holds(offset: i64, size: usize) -> bool {
        (-SIZE..=-(size as i64)).contains(&offset)
    }

    /// Writes the low `size` bytes of `value`; the place must be inside.
    pub fn store(&mut self, offset: i16, size: usize, value: &Value, symbols: &mut Symbols) {
        if size == 8 && !matches!(value, Value::Scalar(_)) {
            for part in 0..8 {
                self.bytes.insert(offset + part as i16, Byte::Part(value.clone(), part));
            }
            return;
        }
        let bits = value.word(symbols).bits();
        for (place, byte) in bits.chunks_exact(8).take(size).enumerate() {
            self.bytes.insert(offset + place as i16, Byte::Bits(std::array::from_fn(|bit| byte[bit])));
        }
    }

    /// Reads `size` bytes; the place must be inside.
    pub fn load(&self, offset: i16, size: usize, symbols: &mut Symbols) -> Value {
        if let Some(value) = self.whole(offset, size) {
            return value;
        }
        let mut bits = [Bdd::FALSE; 64];
        for place in 0..size {
            let byte = self.byte(offset + place as i16, symbols);
            bits[place * 8..place * 8 + 8].copy_from_slice(&byte);
        }
        Value::Scalar(Word::from_bits(bits))
    }

    /// A spilled value that is read back as it was stored.
    fn whole(&self, offset: i16, size: usize) -> Option<Value> {
        let Some(Byte::Part(value, 0)) = self.bytes.get(&offset) else { return None };
        let unbroken = (1..8u8).all(|part| {
            self.bytes
                .get(&(offset + i16::from(part)))
                .is_some_and(|byte| *byte == Byte::Part(value.clone(), part))
        });
        (size == 8 && unbroken).then(|| value.clone())
    }

    fn byte(&self, offset: i16, symbols: &mut Symbols) -> [Bdd; 8] {
        match self.bytes.get(&offset) {
            Some(Byte::Bits(bits)) => *bits,
            Some(Byte::Partly(known, bits)) => {
                let unknown = self.unknown_byte(symbols);
                std::array::from_fn(|bit| symbols.diagram.ite(*known, bits[bit], unknown[bit]))
            }
            Some(Byte::Part(value, part)) => {
                let bits = value.word(symbols).bits();
                std::array::from_fn(|bit| bits[usize::from(*part) * 8 + bit])
            }
            None => self.unknown_byte(symbols),
        }
    }

    /// A byte of which nothing is known.
    fn unknown_byte(&self, symbols: &mut Symbols) -> [Bdd; 8] {
        let why = self.forgotten.as_deref().unwrap_or(UNSET);
        let bits = symbols.unknown_word(8, why).bits();
        std::array::from_fn(|bit| bits[bit])
    }

    /// Forgets `size` bytes from `offset` on, or without a size all from there
    /// to the top: a helper may have written there.
    pub fn forget(&mut self, offset: i64, size: Option<u64>, why: &Rc<str>) {
        let end = size.and_then(|size| offset.checked_add_unsigned(size)).unwrap_or(0).min(0);
        self.bytes.retain(|place, _| !(offset..end).contains(&i64::from(*place)));
        self.forgotten = Some(why.clone());
    }

    /// Forgets everything.
    pub fn forget_all(&mut self, why: &Rc<str>) {
        self.bytes.clear();
        self.forgotten = Some(why.clone());
    }

    /// `self` where `guard` holds and `other` elsewhere.
    ///
    /// Eight bytes that one side holds as a whole spilled value are merged as
    /// a value, so that a pointer stays one. All else is merged byte by byte:
    /// half of a spilled pointer is eight bits a byte like any number. A byte that
    /// one side does not have costs nothing until it is read, which most never are.
    #[must_use]
    pub fn merged_with(&self, other: &Self, guard: Bdd, symbols: &mut Symbols) -> Self {
        let mut merged = self.clone();
        merged.forgotten = self.forgotten.clone().or_else(|| other.forgotten.clone());
        let mut offsets: Vec<i16> = self.bytes.keys().chain(other.bytes.keys()).copied().collect();
        offsets.sort_unstable();
        offsets.dedup();
        let mut done = i16::MIN;
        for offset in offsets {
            if offset < done || self.bytes.get(&offset) == other.bytes.get(&offset) {
                continue;
            }
            if let (Some(ours), Some(theirs)) = (self.bits_at(offset), other.bits_at(offset)) {
                merged.set_bits(offset, either(ours, theirs, guard, symbols));
                continue;
            }
            let (start, size) =
                self.spill_at(offset).or_else(|| other.spill_at(offset)).map_or((offset, 1), |at| (at, 8));
            let (ours, theirs) =
                (self.load_or_unset(start, size, symbols), other.load_or_unset(start, size, symbols));
            let value = ours.merged_with(&theirs, guard, symbols);
            merged.store(start, size, &value, symbols);
            done = start + size as i16;
        }
        merged
    }

    /// The start of the spilled value that contains `offset`, if all of it is still
    /// there.
    fn spill_at(&self, offset: i16) -> Option<i16> {
        match self.bytes.get(&offset) {
            Some(Byte::Part(_, part)) => {
                let start = offset - i16::from(*part);
                self.whole(start, 8).map(|_| start)
            }
            _ => None,
        }
    }

    /// The bits of a byte and the questions for which they are known; `None` for a
    /// part of a spilled value.
    fn bits_at(&self, offset: i16) -> Option<PartlyKnown> {
        match self.bytes.get(&offset) {
            None => Some((Bdd::FALSE, [Bdd::FALSE; 8])),
            Some(Byte::Bits(bits)) => Some((Bdd::TRUE, *bits)),
            Some(Byte::Partly(known, bits)) => Some((*known, *bits)),
            Some(Byte::Part(..)) => None,
        }
    }

    fn set_bits(&mut self, offset: i16, (known, bits): PartlyKnown) {
        match known {
            Bdd::FALSE => drop(self.bytes.remove(&offset)),
            Bdd::TRUE => drop(self.bytes.insert(offset, Byte::Bits(bits))),
            _ => drop(self.bytes.insert(offset, Byte::Partly(known, bits))),
        }
    }

    fn load_or_unset(&self, offset: i16, size: usize, symbols: &mut Symbols) -> Value {
        let is_unset = |place: usize| !self.bytes.contains_key(&(offset + place as i16));
        if self.forgotten.is_none() && (0..size).all(is_unset) {
            return Value::Unset;
        }
        self.load(offset, size, symbols)
    }
}
