//! The rows of the matrix, and the processes of a page: those of jobs, containers and
//! other owners of GPUs, and whoever else holds a GPU or may hold one.

use super::places::{self, Column, Limits, Places};
use super::stacks::Stacks;
use crate::analyse::levels;
use crate::analyse::matrix::{self, Severities, Works, cell};
use crate::model::{Membership, Verdict};
use crate::report::listed::{self, Concerned};
use crate::report::{Activity, Cgroup, Finding, OwnerSets, PageCell, PageProcess, PageRow, Process};

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
        cgroups.get(**place).is_some_and(|cgroup| places::verdict(cgroup, column).0 == verdict)
    };
    let found = deciding.iter().find(is_same).or(deciding.first())?;
    stacks.of_cgroup(*found)
}

/// The processes in walk order.
pub(super) fn processes(
    owners: &[OwnerSets],
    cgroups: &[Cgroup],
    columns: &[Column],
    places: &Places,
    all: bool,
    limits: &mut Limits,
) -> Vec<PageProcess> {
    let (mut listed, mut others, mut beyond) = (Vec::new(), 0, 0);
    for (place, cgroup) in cgroups.iter().enumerate() {
        let around = places.owners_of(place);
        let is_workload =
            around.iter().any(|owner| owners.get(*owner).is_some_and(|row| row.owner.is_workload()))
                && !levels::is_service(cgroup.owner.as_ref());
        for (number, process) in cgroup.processes.iter().enumerate() {
            let is_listed = all || holds(process) || (is_workload && !process.kernel_thread);
            if !is_listed {
                others += 1;
            } else if listed.len() == Limits::processes() {
                beyond += 1;
            } else {
                listed.push(process_of(place, number, cgroup, columns, around));
            }
        }
    }
    limits.cut("processes of services and schedulers that hold no GPU", others, "-v lists them");
    limits.cut("processes", beyond, "gpumap cgroup PATH lists those of one cgroup");
    listed
}

/// Whether it holds a GPU, as far as it could be seen.
fn holds(process: &Process) -> bool {
    process.held.as_ref().is_some_and(|held| !held.is_empty())
}

fn process_of(
    place: usize,
    number: usize,
    cgroup: &Cgroup,
    columns: &[Column],
    around: &[usize],
) -> PageProcess {
    let keys = |wanted: Verdict| {
        let of = columns.iter().filter(|column| places::verdict(cgroup, column).0 == wanted);
        of.map(|column| column.shown.key.clone()).collect()
    };
    PageProcess {
        cgroup: place,
        process: number,
        owner: around.last().copied(),
        outermost: around.first().copied(),
        allowed: keys(Verdict::Allow),
        unknown: keys(Verdict::Unknown),
    }
}
