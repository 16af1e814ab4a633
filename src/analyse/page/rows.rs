//! The rows of the matrix.

use crate::model::{OwnerKind, Verdict};
use crate::report::{Cgroup, Member, OwnerSets, PageCell, PageRow};

use super::columns::{self, Column};
use super::limits::Limits;
use super::members;
use super::places::Places;
use super::stacks::Stacks;

/// The places of the owners that have rows: jobs first, then containers, then whoever
/// else holds a GPU; what belongs together stays together.
pub(super) fn shown(
    owners: &[OwnerSets],
    gpus: usize,
    columns: usize,
    all: bool,
    limits: &mut Limits,
) -> Vec<usize> {
    let mut groups: Vec<(usize, &[OwnerSets])> = Vec::new();
    for group in owners.chunk_by(|_, next| next.depth > 0) {
        let start = groups.last().map_or(0, |(start, before)| start + before.len());
        groups.push((start, group));
    }
    groups.sort_by_key(|(_, group)| group.first().map(|top| (rank(top), top.owner.job_id)));
    let mut shown = Vec::new();
    for (start, group) in groups {
        let inside =
            group.iter().enumerate().filter(|(at, row)| all || matters(row, below(group, *at), gpus));
        shown.extend(inside.map(|(at, _)| start + at));
    }
    limits.cut(
        "owners without a GPU",
        owners.len() - shown.len(),
        "they are services and logins; -v lists them",
    );
    let most = Limits::rows(columns);
    limits.cut("owners", shown.len().saturating_sub(most), "name a cgroup: gpumap report PATH");
    shown.truncate(most);
    shown
}

/// The rows that are inside of one.
fn below(group: &[OwnerSets], at: usize) -> &[OwnerSets] {
    let depth = group.get(at).map_or(0, |row| row.depth);
    let rest = group.get(at + 1..).unwrap_or_default();
    let end = rest.iter().position(|row| row.depth <= depth).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

fn rank(row: &OwnerSets) -> u8 {
    match &row.owner.kind {
        _ if !row.owner.is_workload() => 3,
        kind if kind.is_job() => 0,
        OwnerKind::Libvirt => 2,
        _ => 1,
    }
}

/// A node has hundreds of services that no program restricts; those that hold no GPU are
/// not interesting.
fn matters(row: &OwnerSets, below: &[OwnerSets], gpus: usize) -> bool {
    let one = |row: &OwnerSets| row.owner.is_workload() || holds(row, gpus);
    one(row) || below.iter().any(one)
}

/// Whether it holds a GPU or may hold one. Of many services nothing is known without
/// rights: then every GPU is possible, and that says nothing about this one.
fn holds(row: &OwnerSets, gpus: usize) -> bool {
    let held = &row.held;
    let certain = held.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty()) || !held.instances.is_empty();
    certain || (held.gpus.is_some() && !held.unknown.is_empty() && held.unknown.len() < gpus)
}

/// The rows with their cells, each with the stack that decides it.
pub(super) fn of(
    shown: &[usize],
    owners: &[OwnerSets],
    cgroups: &[Cgroup],
    columns: &[Column],
    places: &Places,
    stacks: &Stacks,
) -> Vec<PageRow> {
    let row = |place: &usize| {
        let sets = owners.get(*place)?;
        let cell = |column: &Column| {
            let cell = members::cell(sets, &column.shown);
            let stack = deciding(&cell, column, places.of_owner(*place), cgroups, stacks);
            PageCell { stack, ..cell }
        };
        Some(PageRow { owner: *place, cells: columns.iter().map(cell).collect() })
    };
    shown.iter().filter_map(row).collect()
}

/// The stack of the first of the owner's cgroups with the owner's verdict; where single
/// processes differ, that of its first cgroup.
fn deciding(
    cell: &PageCell,
    column: &Column,
    deciding: &[usize],
    cgroups: &[Cgroup],
    stacks: &Stacks,
) -> Option<usize> {
    let verdict = match cell.allowed {
        Member::In => Verdict::Allow,
        Member::Out => Verdict::Deny,
        Member::Unknown => Verdict::Unknown,
    };
    let is_same = |place: &&usize| {
        cgroups.get(**place).is_some_and(|cgroup| columns::verdict(cgroup, column).0 == verdict)
    };
    let found = deciding.iter().find(is_same).or(deciding.first())?;
    stacks.of_cgroup(*found)
}
