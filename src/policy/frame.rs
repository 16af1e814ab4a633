//! One stack frame: 512 bytes, byte by byte, so that stores and loads of
//! different sizes may overlap in any way.

use std::collections::BTreeMap;

use super::diagram::Bdd;
use super::inputs::Symbols;
use super::value::Value;
use super::word::Word;

/// Bytes of stack a frame has (`MAX_BPF_STACK`, `linux/filter.h`).
pub const SIZE: i64 = 512;

const UNSET: &str = "it depends on stack that was never written";

/// One byte.
#[derive(Clone, Debug, PartialEq)]
enum Byte {
    /// Eight bits of a number, least significant first.
    Bits([Bdd; 8]),
    /// A byte of a spilled value that is not a plain number.
    Part(Value, u8),
}

/// A frame's written bytes by offset from its top, -512 to -1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame(BTreeMap<i16, Byte>);

impl Frame {
    /// Whether `size` bytes from `offset` are inside the frame.
    pub fn holds(offset: i64, size: usize) -> bool {
        (-SIZE..=-(size as i64)).contains(&offset)
    }

    /// Writes the low `size` bytes of `value`; the place must be inside.
    pub fn store(&mut self, offset: i16, size: usize, value: &Value, symbols: &mut Symbols) {
        if size == 8 && !matches!(value, Value::Scalar(_)) {
            for part in 0..8 {
                self.0.insert(offset + part as i16, Byte::Part(value.clone(), part));
            }
            return;
        }
        let bits = value.word(symbols).bits();
        for (place, byte) in bits.chunks_exact(8).take(size).enumerate() {
            self.0.insert(offset + place as i16, Byte::Bits(std::array::from_fn(|bit| byte[bit])));
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
        let Some(Byte::Part(value, 0)) = self.0.get(&offset) else { return None };
        let unbroken = (1..8u8).all(|part| {
            self.0
                .get(&(offset + i16::from(part)))
                .is_some_and(|byte| *byte == Byte::Part(value.clone(), part))
        });
        (size == 8 && unbroken).then(|| value.clone())
    }

    fn byte(&self, offset: i16, symbols: &mut Symbols) -> [Bdd; 8] {
        let unknown = |symbols: &mut Symbols, why| {
            let bits = symbols.unknown_word(8, why).bits();
            std::array::from_fn(|bit| bits[bit])
        };
        match self.0.get(&offset) {
            Some(Byte::Bits(bits)) => *bits,
            Some(Byte::Part(value, part)) => {
                let bits = value.word(symbols).bits();
                std::array::from_fn(|bit| bits[usize::from(*part) * 8 + bit])
            }
            None => unknown(symbols, UNSET),
        }
    }

    /// Forgets everything from `offset` to the top: a helper may have written
    /// there.
    pub fn forget(&mut self, offset: i64, why: &str, symbols: &mut Symbols) {
        for place in offset.max(-SIZE)..0 {
            let unknown = Value::Scalar(symbols.unknown_word(8, why));
            self.store(place as i16, 1, &unknown, symbols);
        }
    }

    /// `self` where `guard` holds and `other` elsewhere.
    #[must_use]
    pub fn merged_with(&self, other: &Self, guard: Bdd, symbols: &mut Symbols) -> Self {
        let mut merged = self.clone();
        let mut offsets: Vec<i16> = self.0.keys().chain(other.0.keys()).copied().collect();
        offsets.sort_unstable();
        offsets.dedup();
        for offset in offsets {
            if self.0.get(&offset) == other.0.get(&offset) {
                continue;
            }
            let (start, size) =
                self.spill_at(offset).or(other.spill_at(offset)).map_or((offset, 1), |at| (at, 8));
            if size == 8 && start != offset {
                continue; // done with the slot's first byte
            }
            let (ours, theirs) =
                (self.load_or_unset(start, size, symbols), other.load_or_unset(start, size, symbols));
            let value = ours.merged_with(&theirs, guard, symbols);
            merged.store(start, size, &value, symbols);
        }
        merged
    }

    /// Where the spilled value begins that `offset` is part of.
    fn spill_at(&self, offset: i16) -> Option<i16> {
        match self.0.get(&offset) {
            Some(Byte::Part(_, part)) => Some(offset - i16::from(*part)),
            _ => None,
        }
    }

    fn load_or_unset(&self, offset: i16, size: usize, symbols: &mut Symbols) -> Value {
        if (0..size).all(|place| !self.0.contains_key(&(offset + place as i16))) {
            return Value::Unset;
        }
        self.load(offset, size, symbols)
    }
}
