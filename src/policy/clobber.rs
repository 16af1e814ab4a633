//! Finds what a program may overwrite, whatever it does. This bounds the parts of a
//! program that gpumap cannot follow.

use std::collections::BTreeMap;

use crate::bytecode::Operation;
use crate::observation::{Map, Program};

use super::helpers;
use super::table::{self, Table, TableKind};
use super::written::{Spoil, Written};

/// The frame pointer.
const R10: usize = 10;

/// The maps that a store through an address of unknown origin may write: those of
/// the program, and the maps inside them.
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

/// The maps that a part of the program may write that is not followed.
pub fn unfollowed<'o>(
    operations: impl Iterator<Item = &'o Operation>,
    calls: &BTreeMap<i32, String>,
    maps: &[Table<'_>],
    own: &Written,
) -> Written {
    let mut written = Written::default();
    for operation in operations {
        match operation {
            Operation::Store { base, .. } | Operation::Atomic { base, .. } if *base == R10 => {}
            Operation::Store { .. } | Operation::Atomic { .. } => written.add_all(own),
            Operation::CallHelper { helper } => match calls.get(helper).map(String::as_str) {
                Some(name) if helpers::is_harmless(name) => {}
                // The program continues in another one, with other maps.
                name if helpers::is_tail_call(*helper, name) => return Written::everything(),
                _ => written.add_all(&handed(maps, own)),
            },
            // An iterator is on the stack.
            Operation::CallKernel { function } if helpers::is_known_function(calls, *function) => {}
            Operation::CallKernel { .. } | Operation::Unsupported(_) | Operation::LoadSubprogram { .. } => {
                written.add_all(&handed(maps, own));
            }
            _ => {}
        }
    }
    written
}

/// The maps that a helper may write that gpumap does not know. Before Linux 6.12
/// some helpers wrote to read-only maps as well (`bpf_strtol`, CVE-2024-49861).
fn handed(maps: &[Table<'_>], own: &Written) -> Written {
    let mut handed = own.clone();
    maps.iter().for_each(|table| handed.spoil(table.id, &Spoil::ALL));
    handed
}

/// The maps that a program may write whose instructions are not known.
pub fn unread(program: &Program, maps: &[Map]) -> Written {
    let tables = table::of_program(program, maps);
    let may_go_on = |table: &Table<'_>| matches!(table.kind, TableKind::Programs | TableKind::Absent);
    // The kernel tells the tag together with the list of maps: without it, the
    // list is not known either.
    if program.tag.is_empty() || tables.iter().any(may_go_on) {
        return Written::everything();
    }
    handed(&tables, &own(&tables))
}
