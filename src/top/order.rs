//! The order of whole owners. What is inside an owner stays with it.

use std::cmp::Ordering;

use crate::model::{MatrixOrder, Membership};
use crate::report::MatrixRow;

/// Compares two whole owners. Equal ones keep their place.
pub(super) fn compare(order: MatrixOrder, a: &MatrixRow, b: &MatrixRow) -> Ordering {
    let count = |row: &MatrixRow, of: fn(&crate::report::MatrixCell) -> Membership| {
        row.cells.iter().filter(|cell| of(cell) == Membership::Yes).count()
    };
    match order {
        MatrixOrder::Owner => Ordering::Equal,
        MatrixOrder::User => a.users.cmp(&b.users),
        MatrixOrder::Finding => b.finding.cmp(&a.finding),
        MatrixOrder::Held => count(b, |cell| cell.held).cmp(&count(a, |cell| cell.held)),
        MatrixOrder::Allowed => count(b, |cell| cell.allowed).cmp(&count(a, |cell| cell.allowed)),
        MatrixOrder::Launches => launches(b).total_cmp(&launches(a)),
        MatrixOrder::Memory => memory(b).cmp(&memory(a)),
        MatrixOrder::Processes => b.processes.cmp(&a.processes),
    }
}

/// In a second; of rows without a rate, none.
fn launches(row: &MatrixRow) -> f64 {
    row.activity.and_then(|activity| activity.launches_per_second).unwrap_or(0.0)
}

fn memory(row: &MatrixRow) -> u64 {
    row.activity.map_or(0, |activity| activity.memory_bytes)
}
