//! One GPU or instance in the four sets of an owner, and in what these contradict each
//! other.

use crate::model::InstanceKey;
use crate::report::{Conflict, GpuSet, Member, OwnerSets, PageCell, PageColumn};

/// The cell of an owner; its stack is left open.
pub(super) fn cell(row: &OwnerSets, column: &PageColumn) -> PageCell {
    let mut cell = PageCell {
        allocated: allocated(&row.allocated, column),
        allowed: member(&row.allowed, column),
        asked: member(&row.visible, column),
        held: member(&row.held, column),
        ..PageCell::default()
    };
    let is_denied = row.held_denied.contains(&column.key);
    cell.conflicts = conflicts(&cell, is_denied);
    cell
}

fn conflicts(cell: &PageCell, is_held_denied: bool) -> Vec<Conflict> {
    let is = |first: Member, second: Member| first == Member::In && second == Member::Out;
    let found = [
        (is_held_denied, Conflict::HeldDenied),
        (is(cell.held, cell.allocated), Conflict::HeldNotAllocated),
        (is(cell.allowed, cell.allocated), Conflict::AllowedNotAllocated),
        (is(cell.allocated, cell.allowed), Conflict::AllocatedDenied),
    ];
    found.into_iter().filter(|(is_there, _)| *is_there).map(|(_, conflict)| conflict).collect()
}

fn member(set: &GpuSet, column: &PageColumn) -> Member {
    let Some(certain) = &set.gpus else { return Member::Unknown };
    let names = if column.instance.is_some() { &set.instances } else { certain };
    if names.contains(&column.key) {
        Member::In
    } else if set.unknown.contains(&column.key) {
        Member::Unknown
    } else {
        Member::Out
    }
}

/// An allocation may name a GPU and no instance of it: then nobody said which of them.
fn allocated(set: &GpuSet, column: &PageColumn) -> Member {
    let found = member(set, column);
    if column.instance.is_none() || found != Member::Out {
        return found;
    }
    let gpu = column.key.split('/').next().unwrap_or_default();
    let has_gpu = set.gpus.iter().flatten().any(|key| key == gpu);
    let has_instance = set.instances.iter().any(|key| InstanceKey::is_on(key, gpu));
    if has_gpu && !has_instance { Member::Unknown } else { Member::Out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(keys: &[&str]) -> GpuSet {
        GpuSet { gpus: Some(keys.iter().map(|key| (*key).to_owned()).collect()), ..GpuSet::default() }
    }

    fn column(key: &str, instance: Option<usize>) -> PageColumn {
        PageColumn { key: key.to_owned(), instance, ..PageColumn::default() }
    }

    /// Make sure that what is not known contradicts nothing, and that each contradiction
    /// is found.
    #[test]
    fn contradictions() {
        let row = OwnerSets { allowed: set(&["a"]), held: set(&["b"]), ..OwnerSets::default() };
        assert_eq!(cell(&row, &column("a", None)).allocated, Member::Unknown);
        assert!(cell(&row, &column("a", None)).conflicts.is_empty());
        let row = OwnerSets { allocated: set(&["b", "c"]), held_denied: vec!["b".to_owned()], ..row };
        let of = |key| cell(&row, &column(key, None)).conflicts;
        assert_eq!(of("a"), [Conflict::AllowedNotAllocated]);
        assert_eq!(of("b"), [Conflict::HeldDenied, Conflict::AllocatedDenied]);
        assert_eq!(of("c"), [Conflict::AllocatedDenied]);
        let row = OwnerSets { allocated: set(&["c"]), ..row };
        assert_eq!(
            cell(&row, &column("b", None)).conflicts,
            [Conflict::HeldDenied, Conflict::HeldNotAllocated]
        );
    }

    /// Make sure that an allocated GPU does not stand for its instances, nor against
    /// them.
    #[test]
    fn instances() {
        let whole = OwnerSets { allocated: set(&["a"]), ..OwnerSets::default() };
        assert_eq!(cell(&whole, &column("a/1/0", Some(0))).allocated, Member::Unknown);
        let split = GpuSet { instances: vec!["a/1/0".to_owned()], ..set(&["a"]) };
        let split = OwnerSets { allocated: split, ..OwnerSets::default() };
        assert_eq!(cell(&split, &column("a/1/0", Some(0))).allocated, Member::In);
        assert_eq!(cell(&split, &column("a/2/0", Some(1))).allocated, Member::Out);
    }
}
