//! Where the addresses of a program can lead, whatever the question: which
//! maps, and which bytes of their values, a store may touch.
//!
//! `machine` follows each question through the conditions of a
//! program. This module ignores the conditions and follows only addresses, as the
//! verifier does. That is quick and always ends. An address is a set of places, and
//! where paths meet their sets are joined.

use std::collections::BTreeSet;

use super::table::{Table, TableKind};

/// Most offsets into the values of one map that are told apart.
const MAX_OFFSETS: usize = 16;

/// Something that an address can lead to. Maps are named by their place in the
/// program's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pointee {
    /// The stack of any function of the program.
    Stack,
    /// The program's argument.
    Argument,
    /// A record for user space.
    Record,
    /// The kernel's structure of a map.
    Map(usize),
    /// An element of a hash table, before the step to its value.
    Element(usize),
    /// Where a map keeps the address of a value of one CPU, or of a map inside.
    Slot(usize),
    /// A value of a map, so many bytes from its start; `None` is anywhere in it.
    Value(usize, Option<i64>),
    /// A function of the program.
    Function,
    /// Anything: a function of the kernel that gpumap does not know gave it.
    Anywhere,
}

/// A number, as far as it matters for addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// It is this.
    Exact(u64),
    /// A multiple of the first, at most the second.
    Multiple(u64, u64),
}

/// What a register may hold: a number, or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet {
    /// Where it may lead.
    pub places: BTreeSet<Pointee>,
    /// The number that it is, if it is none of these addresses.
    pub number: Number,
}

impl Number {
    /// A number of which nothing is known.
    pub const ANY: Self = Self::Multiple(1, u64::MAX);

    /// A number of so many bytes.
    pub fn of_bytes(size: usize) -> Self {
        if size >= 8 { Self::ANY } else { Self::Multiple(1, (1 << (size * 8)) - 1) }
    }

    /// What divides it, and how large it is at most.
    fn parts(self) -> (u64, u64) {
        match self {
            Self::Exact(number) => (number, number),
            Self::Multiple(of, most) => (of, most),
        }
    }

    fn of_parts(of: u64, most: u64) -> Self {
        if of == 0 { Self::Exact(0) } else { Self::Multiple(of, most) }
    }

    /// Either number. The bound grows in two steps only, so that loops end.
    fn joined(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        let ((a, a_most), (b, b_most)) = (self.parts(), other.parts());
        let most = if a_most.max(b_most) <= u32::MAX.into() { u32::MAX.into() } else { u64::MAX };
        Self::of_parts(common(a, b), most)
    }

    pub fn plus(self, other: Self) -> Self {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other) {
            return Self::Exact(a.wrapping_add(b));
        }
        let ((a, a_most), (b, b_most)) = (self.parts(), other.parts());
        Self::bounded(common(a, b), a_most.checked_add(b_most))
    }

    pub fn times(self, other: Self) -> Self {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other) {
            return Self::Exact(a.wrapping_mul(b));
        }
        let ((a, a_most), (b, b_most)) = (self.parts(), other.parts());
        Self::bounded(a.checked_mul(b).unwrap_or(1), a_most.checked_mul(b_most))
    }

    /// A multiple of `of`. One that may have wrapped round is a multiple of
    /// powers of two alone.
    fn bounded(of: u64, most: Option<u64>) -> Self {
        match most {
            Some(most) => Self::of_parts(of, most),
            None => Self::of_parts(of & of.wrapping_neg(), u64::MAX),
        }
    }

    /// Its low 32 bits.
    pub fn low_half(self) -> Self {
        match self {
            Self::Exact(number) => Self::Exact(number & u64::from(u32::MAX)),
            Self::Multiple(_, most) if most <= u32::MAX.into() => self,
            Self::Multiple(of, _) => Self::of_parts((of & of.wrapping_neg()).min(1 << 31), u32::MAX.into()),
        }
    }

    /// What is left of it behind a mask.
    pub fn masked(self, mask: Self) -> Self {
        match (self, mask) {
            (Self::Exact(a), Self::Exact(b)) => Self::Exact(a & b),
            (a, b) => Self::Multiple(1, a.parts().1.min(b.parts().1)),
        }
    }
}

fn common(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl From<Number> for AddressSet {
    fn from(number: Number) -> Self {
        Self { places: BTreeSet::new(), number }
    }
}

impl From<Pointee> for AddressSet {
    fn from(place: Pointee) -> Self {
        Self { places: BTreeSet::from([place]), number: Number::Exact(0) }
    }
}

impl AddressSet {
    /// A number of which nothing is known.
    pub fn any_number() -> Self {
        Number::ANY.into()
    }

    /// All of `places`, or null.
    pub fn of(places: impl IntoIterator<Item = Pointee>) -> Self {
        let mut reach = Self { places: places.into_iter().collect(), number: Number::Exact(0) };
        reach.bound();
        reach
    }

    /// Adds what `other` may be; whether that was anything new.
    pub fn join(&mut self, other: &Self) -> bool {
        let before = (self.places.len(), self.number);
        let is_new = other.places.iter().any(|place| !self.places.contains(place) && !self.covers(*place));
        if is_new {
            self.places.extend(&other.places);
            self.bound();
        }
        self.number = self.number.joined(other.number);
        is_new || before.1 != self.number
    }

    fn covers(&self, place: Pointee) -> bool {
        matches!(place, Pointee::Value(map, _) if self.places.contains(&Pointee::Value(map, None)))
    }

    /// Many offsets into one map's values become any.
    fn bound(&mut self) {
        let maps: BTreeSet<usize> = self.places.iter().filter_map(|place| value_of(*place)).collect();
        for map in maps {
            let is_here = |place: &Pointee| value_of(*place) == Some(map);
            let many = self.places.iter().filter(|place| is_here(place)).count() > MAX_OFFSETS;
            if many || self.places.contains(&Pointee::Value(map, None)) {
                self.places.retain(|place| !is_here(place));
                self.places.insert(Pointee::Value(map, None));
            }
        }
    }

    /// The address moved by a number of bytes. Where that is added to the
    /// kernel's structure of a map or to an element, the kernel wrote out a
    /// lookup.
    pub fn moved(&self, by: Number, maps: &[Table<'_>]) -> Vec<Pointee> {
        self.places.iter().map(|place| moved(*place, by, maps)).collect()
    }
}

fn value_of(place: Pointee) -> Option<usize> {
    match place {
        Pointee::Value(map, _) => Some(map),
        _ => None,
    }
}

fn moved(place: Pointee, by: Number, maps: &[Table<'_>]) -> Pointee {
    let step = match by {
        Number::Exact(step) => Some(step.cast_signed()),
        Number::Multiple(..) => None,
    };
    match place {
        Pointee::Value(map, Some(at)) => Pointee::Value(map, offset(&maps[map], at, by)),
        Pointee::Map(map) if step.is_some() => match (maps[map].kind, maps[map].per_cpu) {
            (TableKind::Array, false) => Pointee::Value(map, Some(0)),
            (TableKind::Array, true) | (TableKind::ArrayOfMaps, _) => Pointee::Slot(map),
            _ => Pointee::Anywhere,
        },
        Pointee::Element(map) if step.is_some() => match maps[map].per_cpu || maps[map].kind.holds_maps() {
            true => Pointee::Slot(map),
            false => Pointee::Value(map, Some(0)),
        },
        Pointee::Map(_) | Pointee::Element(_) => Pointee::Anywhere,
        other => other,
    }
}

/// The offset into a value `by` bytes behind `at`. The values of an array
/// follow each other, so that whole values lead to the same offset again.
fn offset(table: &Table<'_>, at: i64, by: Number) -> Option<i64> {
    let is_array = table.kind == TableKind::Array && !table.per_cpu;
    let stride = table.stride() as i64;
    match by {
        Number::Exact(step) if is_array => Some(at.checked_add(step.cast_signed())?.rem_euclid(stride)),
        Number::Exact(step) => at.checked_add(step.cast_signed()),
        Number::Multiple(of, _) if is_array && of.is_multiple_of(stride.cast_unsigned()) => Some(at),
        Number::Multiple(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a product that wraps round is not taken for a multiple.
    #[test]
    fn products_that_wrap_round() {
        let index = Number::of_bytes(4);
        assert_eq!(index.times(Number::Exact(24)), Number::Multiple(24, 24 * u64::from(u32::MAX)));
        assert_eq!(Number::ANY.times(Number::Exact(24)), Number::Multiple(8, u64::MAX));
        assert_eq!(Number::ANY.times(Number::Exact(24)).low_half(), Number::Multiple(8, u32::MAX.into()));
        assert_eq!(index.times(Number::Exact(24)).low_half(), Number::Multiple(8, u32::MAX.into()));
    }

    /// Make sure that a loop that moves an address, or counts, comes to an end.
    #[test]
    fn joins_end() {
        let mut sum = AddressSet::from(Number::Exact(0));
        let mut places = AddressSet::from(Pointee::Stack);
        let mut changes = 0;
        for step in 1..1000 {
            let one = AddressSet {
                places: BTreeSet::from([Pointee::Value(0, Some(step))]),
                number: sum.number.plus(Number::Exact(8)),
            };
            changes += usize::from(sum.join(&one));
            changes += usize::from(places.join(&one));
        }
        assert!(changes < 60, "{changes}");
        assert_eq!(sum.number, Number::Multiple(8, u64::MAX));
        assert_eq!(places.places, BTreeSet::from([Pointee::Stack, Pointee::Value(0, None)]));
    }
}
