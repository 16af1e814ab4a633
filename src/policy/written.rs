//! Finds map contents that may differ from what was observed, because a program may
//! have written there since.
//!
//! A policy answers the next question. Before it, the kernel may have asked any other
//! question, and each ran the same programs. So what one of the programs may write, at
//! any question, is unknown to all of them.
//!
//! `stores` finds what a program writes from its instructions. Here is the bound for
//! programs whose instructions are not known, for stores to addresses that are not known,
//! and for programs of which a function was replaced by another program (freplace,
//! `BPF_PROG_TYPE_EXT`), whose instructions are not those that run: their list of maps.

use std::collections::{BTreeMap, BTreeSet};

use super::table::{self, Table, TableKind};
use crate::observation::{Answer, Map, Program};

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

/// What a store through an address of unknown origin may write: the maps that
/// the program was given, and the maps inside them.
pub fn own(maps: &[Table<'_>]) -> Written {
    let mut own = Written::default();
    for table in maps.iter().filter(|table| !table.read_only) {
        own.spoil(table.id, &Spoil::ALL);
        match (table.kind, &table.entries) {
            // The maps inside are in the list as well.
            (kind, Ok(_)) if kind.holds_maps() => {}
            // Which maps are inside is not known.
            (kind, Err(_)) if kind.holds_maps() => own.add_all(&Written::everything()),
            (TableKind::Absent, _) => own.add_all(&Written::everything()),
            _ => {}
        }
    }
    own
}

/// What a helper may write to that gpumap does not know: before Linux 6.12 some
/// helpers wrote to read-only maps as well (`bpf_strtol`, CVE-2024-49861).
pub fn handed(maps: &[Table<'_>], own: &Written) -> Written {
    let mut handed = own.clone();
    maps.iter().for_each(|table| handed.spoil(table.id, &Spoil::ALL));
    handed
}

/// The maps that a program may write whose instructions are not known.
pub fn unread(program: &Program, maps: &[Map]) -> Written {
    let tables = table::of_program(program, maps, None);
    let may_go_on = |table: &Table<'_>| matches!(table.kind, TableKind::Programs | TableKind::Absent);
    // The kernel tells the tag together with the list of maps: without it, the
    // list is not known either.
    // What runs in the place of a function has maps of its own.
    if program.tag.is_empty() || replaced(program).is_some() || tables.iter().any(may_go_on) {
        return Written::everything();
    }
    handed(&tables, &own(&tables))
}

/// The reason if something else may run in place of the instructions; `None` if
/// nothing does.
pub fn replaced(program: &Program) -> Option<String> {
    let id = program.id;
    match &program.replaced_by {
        Answer::Known(by) => {
            let first = by.first()?;
            Some(format!("program {first} runs in the place of a function of program {id} (freplace)"))
        }
        Answer::Missing(why) => Some(format!(
            "it is not known whether another program runs in the place of a function of program {id} (freplace): {why}"
        )),
    }
}
