//! The processes of a page: those of jobs, containers and other owners of GPUs, and
//! whoever else holds a GPU or may hold one.

use crate::model::Verdict;
use crate::report::{Cgroup, OwnerSets, PageProcess, Process};

use super::super::levels;
use super::columns::{self, Column};
use super::limits::Limits;
use super::places::Places;

/// The processes in walk order.
pub(super) fn of(
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
        let of = columns.iter().filter(|column| columns::verdict(cgroup, column).0 == wanted);
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
