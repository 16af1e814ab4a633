//! Which maps a program may overwrite, judged by its list of maps alone.
//!
//! This is a bound for programs whose instructions are not known, and for stores to
//! addresses that are not known. `stores` finds a closer bound from
//! the instructions.

use crate::observation::{Map, Program};

use super::replaced::replaced;
use super::table::{self, Table, TableKind};
use super::written::{Spoil, Written};

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
