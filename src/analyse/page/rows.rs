//! The rows of the matrix.

use crate::analyse::matrix::{self, Severities, Works, cell};
use crate::model::{Membership, Verdict};
use crate::report::listed::Concerned;
use crate::report::{Activity, Cgroup, Finding, OwnerSets, PageCell, PageRow, listed};

use super::columns::{self, Column};
use super::limits::Limits;
use super::places::Places;
use super::stacks::Stacks;

/// The places of the owners that have rows: jobs first, then containers, then whoever
/// else holds a GPU; what belongs together stays together.
pub(super) fn shown(
    owners: &[OwnerSets],
    gpus: usize,
    columns: usize,
    all: bool,
    findings: &[Finding],
    limits: &mut Limits,
) -> Vec<usize> {
    let wrong = Concerned::of(findings);
    let rows = listed::sorted(owners).into_iter();
    let rows = rows.filter(|(_, (row, below))| all || listed::is_shown(row, below, gpus, &wrong));
    let mut shown: Vec<usize> = rows.map(|(place, _)| place).collect();
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

/// The rows with their cells, each with the stack that decides it, and with what the owner
/// does with its GPUs. The findings and the counts of calls
/// are those of the node.
pub(super) fn of(
    shown: &[usize],
    owners: &[OwnerSets],
    cgroups: &[Cgroup],
    columns: &[Column],
    places: &Places,
    stacks: &Stacks,
    (findings, activity): (&[Finding], Option<&Activity>),
) -> Vec<PageRow> {
    let severities = Severities::of(findings);
    let works = Works::of(activity);
    let row = |place: &usize| {
        let sets = owners.get(*place)?;
        let about = severities.about_owner(sets);
        let cell = |column: &Column| {
            let worst = matrix::worst(&about, Some(&column.in_sets.key));
            let sets = cell::of_owner(&column.in_sets, sets, worst);
            let stack = deciding(sets.allowed, column, places.of_owner(*place), cgroups, stacks);
            PageCell { sets, stack }
        };
        Some(PageRow {
            owner: *place,
            cells: columns.iter().map(cell).collect(),
            activity: works.of_owner(&sets.owner),
        })
    };
    shown.iter().filter_map(row).collect()
}

/// The stack of the first of the owner's cgroups with the owner's verdict; where single
/// processes differ, that of its first cgroup.
fn deciding(
    allowed: Membership,
    column: &Column,
    deciding: &[usize],
    cgroups: &[Cgroup],
    stacks: &Stacks,
) -> Option<usize> {
    let verdict = match allowed {
        Membership::Yes => Verdict::Allow,
        Membership::No => Verdict::Deny,
        Membership::Unknown | Membership::Claimed => Verdict::Unknown,
    };
    let is_same = |place: &&usize| {
        cgroups.get(**place).is_some_and(|cgroup| columns::verdict(cgroup, column).0 == verdict)
    };
    let found = deciding.iter().find(is_same).or(deciding.first())?;
    stacks.of_cgroup(*found)
}
