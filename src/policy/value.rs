//! What a register or a stack slot can hold: a number, a pointer, or one of
//! several depending on the path taken.

use std::rc::Rc;

use super::diagram::Bdd;
use super::inputs::Symbols;
use super::word::Word;

/// The content of a register.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Never written.
    Unset,
    /// A number.
    Scalar(Word),
    /// An address.
    Pointer(Rc<Pointer>),
    /// Depends on the path: for the questions of each guard, the value with it. The
    /// guards are disjoint, and the values are never `Choice` themselves.
    Choice(Rc<Vec<(Bdd, Value)>>),
}

/// An address gpumap understands.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointer {
    /// The object that it points into.
    pub base: Base,
    /// The distance from its start in bytes.
    pub offset: Word,
}

/// The object that a pointer points into. Maps are named by their position in the
/// program's list.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// The program's argument.
    Context,
    /// The top of the stack of the n-th frame.
    Stack(usize),
    /// The kernel's map structure itself.
    MapObject(usize),
    /// A hash table element: a fixed, kernel dependent step before its value.
    HashElement(Rc<Selection>),
    /// The slot in a per-CPU hash table's element that has the address of its
    /// values.
    PerCpuSlot(Rc<Selection>),
    /// The value of one of the selected entries of a map.
    MapValue(Rc<Selection>),
    /// The values of an array map, one after the other.
    Array(usize),
    /// The slots of a per-CPU array map that have the addresses of its values, 8
    /// bytes each.
    PerCpuSlots(usize),
    /// The slot in a hash table's element that has the address of a map.
    InnerSlot(Rc<Selection>),
    /// The slots of an array of maps that have the addresses of maps, 8 bytes each.
    InnerSlots(usize),
    /// Memory of which nothing is known, and which is neither a map's nor a stack:
    /// a record for user space, or an object that a program has made.
    Scratch,
    /// The subprogram that begins here, to be called back by a helper.
    Subprogram(usize),
    /// Bytes that no code writes: the key of a map whose entries a helper visits.
    Bytes(Rc<[u8]>),
}

/// The contents of the elements of a hash table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Values.
    Values,
    /// Addresses of values, one for each CPU.
    PerCpu,
    /// Addresses of maps.
    Maps,
}

/// The entries of a map that a lookup may have found.
#[derive(Debug)]
pub struct Selection {
    /// The map.
    pub map: usize,
    /// The contents of its elements.
    pub holds: Holds,
    /// Entry numbers, each with where it is the one found; `None` if it may be
    /// any entry, also one that was not observed.
    pub hits: Option<Vec<(Bdd, usize)>>,
}

impl PartialEq for Selection {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.map == other.map && self.hits == other.hits
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Scalar(Word::Constant(number))
    }
}

impl Value {
    /// A pointer `offset` bytes into `base`.
    pub fn pointer(base: Base, offset: Word) -> Self {
        Self::Pointer(Rc::new(Pointer { base, offset }))
    }

    /// The value as alternatives: one, or those of a choice.
    pub fn alternatives(&self) -> Vec<(Bdd, Self)> {
        match self {
            Self::Choice(alternatives) => alternatives.to_vec(),
            value => vec![(Bdd::TRUE, value.clone())],
        }
    }

    /// The value that is one of `alternatives`, whose guards are disjoint;
    /// alternatives of one kind are folded into one.
    pub fn of_alternatives(alternatives: Vec<(Bdd, Self)>, symbols: &mut Symbols) -> Self {
        let mut folded: Vec<(Bdd, Self)> = Vec::with_capacity(alternatives.len());
        for (guard, value) in alternatives {
            if guard == Bdd::FALSE {
                continue;
            }
            let merged = folded.iter_mut().find_map(|(known_guard, known)| {
                let both = value.folded_with(known, guard, symbols)?;
                Some((known_guard, known, both))
            });
            match merged {
                Some((known_guard, known, both)) => {
                    *known = both;
                    *known_guard = symbols.diagram.or(*known_guard, guard);
                }
                None => folded.push((guard, value)),
            }
        }
        match folded.len() {
            0 => Self::Unset,
            1 => folded.swap_remove(0).1,
            _ => Self::Choice(Rc::new(folded)),
        }
    }

    /// `self` where `guard` holds and `other` elsewhere, as one value of the
    /// same kind; `None` if the kinds differ.
    fn folded_with(&self, other: &Self, guard: Bdd, symbols: &mut Symbols) -> Option<Self> {
        match (self, other) {
            (a, b) if a == b => Some(a.clone()),
            (Self::Scalar(a), Self::Scalar(b)) => {
                Some(Self::Scalar(Word::ite(guard, a, b, &mut symbols.diagram)))
            }
            (Self::Pointer(a), Self::Pointer(b)) if a.base == b.base => {
                let offset = Word::ite(guard, &a.offset, &b.offset, &mut symbols.diagram);
                Some(Self::pointer(a.base.clone(), offset))
            }
            _ => None,
        }
    }

    /// `self` where `guard` holds and `other` elsewhere.
    #[must_use]
    pub fn merged_with(&self, other: &Self, guard: Bdd, symbols: &mut Symbols) -> Self {
        if let Some(both) = self.folded_with(other, guard, symbols) {
            return both;
        }
        let mut alternatives = Vec::new();
        for (guard, side) in [(guard, self), (!guard, other)] {
            for (inner, value) in side.alternatives() {
                alternatives.push((symbols.diagram.and(guard, inner), value));
            }
        }
        Self::of_alternatives(alternatives, symbols)
    }

    /// The value as a number; a value that is no number is unknown.
    pub fn word(&self, symbols: &mut Symbols) -> Word {
        match self {
            Self::Scalar(word) => word.clone(),
            Self::Unset => symbols.unknown_word(64, "it depends on a register that was never set"),
            Self::Pointer(_) => symbols.unknown_word(64, "it depends on a kernel address"),
            Self::Choice(alternatives) => alternatives.iter().fold(Word::ZERO, |sum, (guard, value)| {
                let word = value.word(symbols);
                Word::ite(*guard, &word, &sum, &mut symbols.diagram)
            }),
        }
    }

    /// Whether this is a constant that may be an address in the kernel.
    pub fn is_constant_address(&self) -> bool {
        matches!(self, Self::Scalar(word @ Word::Constant(_)) if word.may_be_address())
    }

    /// The number, if it is the same on every path and for every question.
    pub fn as_constant(&self) -> Option<u64> {
        match self {
            Self::Scalar(word) => word.as_constant(),
            _ => None,
        }
    }
}
