//! Finds map contents that may differ from what was observed, because a program may
//! have written there since.
//!
//! A policy answers the next question. Before it, the kernel may have asked any other
//! question, and each ran the same programs. So what one of the programs may write, at
//! any question, is unknown to all of them.

use std::collections::{BTreeMap, BTreeSet};

/// What may have changed in one map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spoil {
    /// Entries may have been added and removed.
    pub keys: bool,
    /// The bytes of values that may have changed.
    pub bytes: Bytes,
}

/// Some bytes of every value of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// These bytes, counted from the start of the value.
    Only(BTreeSet<usize>),
    /// All of them.
    All,
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl Bytes {
    /// Whether `size` bytes from `place` on touch one of these.
    pub fn touch(&self, place: usize, size: usize) -> bool {
        match self {
            Self::All => true,
            Self::Only(bytes) => bytes.range(place..place.saturating_add(size)).next().is_some(),
        }
    }

    fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Only(ours), Self::Only(theirs)) => ours.extend(theirs),
            _ => *self = Self::All,
        }
    }
}

impl Spoil {
    /// Everything in the map: entries and values.
    pub const ALL: Self = Self { keys: true, bytes: Bytes::All };
    /// The values of all entries; which entries there are is known.
    pub const VALUES: Self = Self { keys: false, bytes: Bytes::All };

    /// Adds what `other` spoils.
    pub fn add(&mut self, other: &Self) {
        self.keys |= other.keys;
        self.bytes.add(&other.bytes);
    }

    /// Whether `other` spoils nothing more.
    fn covers(&self, other: &Self) -> bool {
        let mut sum = self.clone();
        sum.add(other);
        sum == *self
    }
}

/// What programs may have written, by map id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    maps: BTreeMap<u32, Spoil>,
    /// Any map that a program can write to at all.
    everything: bool,
}

impl Written {
    /// Any map that a program can write to.
    pub fn everything() -> Self {
        Self { maps: BTreeMap::new(), everything: true }
    }

    /// What may have changed in map `id`; `None` if nothing has. `read_only` maps
    /// are those that the verifier lets no program write to.
    pub fn of(&self, id: u32, read_only: bool) -> Option<Spoil> {
        match self.everything && !read_only {
            true => Some(Spoil::ALL),
            false => self.maps.get(&id).cloned(),
        }
    }

    /// Adds a write to one map.
    pub fn spoil(&mut self, id: u32, spoil: &Spoil) {
        self.maps.entry(id).or_default().add(spoil);
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: &Self) {
        let _ = self.add(other);
    }

    /// Adds all of `other`; whether that was anything new.
    pub fn add(&mut self, other: &Self) -> bool {
        let mut is_new = other.everything && !self.everything;
        self.everything |= other.everything;
        for (id, spoil) in &other.maps {
            is_new |= !self.maps.get(id).is_some_and(|known| known.covers(spoil));
            self.spoil(*id, spoil);
        }
        is_new
    }
}

/// What may have changed in a program's maps, by their position in its list.
pub type SpoiledMaps = BTreeMap<usize, Spoil>;
