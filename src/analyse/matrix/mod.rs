//! The matrix of owners and GPUs: the answer of `node` and the findings of an audit,
//! brought into rows and columns.

pub(super) mod cell;
mod rows;
#[cfg(test)]
mod tests;

use rows::Members;

use crate::report::listed::{self, Concerned};
use crate::report::{Finding, Gpu, Matrix, MatrixRow, MigInstance, NodeAnswer, OwnerSets};
pub(super) use cell::Column;
pub use cell::{allocation as allocation_cell, of_memberships as matrix_cell};
pub use rows::add_rates;
pub(super) use rows::{Severities, Works, worst};

/// The matrix of a node. `payload` is the answer of [`super::node()`], `findings` are
/// those of an audit of the same facts. `all`: whether services and sessions that hold
/// no GPU are among the rows.
pub fn matrix(payload: &NodeAnswer, findings: &[Finding], all: bool) -> Matrix {
    let gpus = &payload.gpus;
    let columns = columns(gpus);
    let owners = payload.owners.as_deref().unwrap_or_default();
    let builder = Builder {
        columns: &columns,
        members: Members::of(payload),
        works: Works::of(payload.activity.as_deref()),
        severities: Severities::of(findings),
    };
    let mut matrix = Matrix {
        columns: columns.iter().map(|column| column.key.clone()).collect(),
        counted_at: payload.activity.as_ref().map(|activity| activity.at.clone()),
        ..Matrix::default()
    };
    let wrong = Concerned::of(findings);
    for (_, (row, below)) in listed::sorted(owners) {
        match listed::is_shown(row, below, gpus.len(), &wrong) || all {
            true => builder.add(row, &mut matrix.rows),
            false if listed::is_unseen(row, gpus.len()) => matrix.left_out_unseen += 1,
            false => matrix.left_out += 1,
        }
    }
    matrix
}

/// Every GPU, followed by its compute instances.
pub(super) fn columns(gpus: &[Gpu]) -> Vec<Column> {
    let of = |(place, gpu): (usize, &Gpu)| {
        let whole = Column { key: gpu.key.clone(), gpu: None, place: (place, None) };
        let instance = |(number, mig): (usize, &MigInstance)| {
            let key = mig.compute_key(gpu)?;
            Some(Column { key, gpu: Some(gpu.key.clone()), place: (place, Some(number)) })
        };
        let instances: Vec<Column> = gpu.mig.iter().enumerate().filter_map(instance).collect();
        std::iter::once(whole).chain(instances)
    };
    gpus.iter().enumerate().flat_map(of).collect()
}

/// Makes rows.
struct Builder<'a> {
    columns: &'a [Column],
    members: Members<'a>,
    works: Works<'a>,
    severities: Severities<'a>,
}

impl Builder<'_> {
    /// Adds an owner and, below it, the processes that are in no owner inside it.
    fn add(&self, sets: &OwnerSets, rows: &mut Vec<MatrixRow>) {
        let processes = self.members.within(sets);
        let mut users: Vec<String> = processes.iter().map(|process| rows::user(process)).collect();
        users.sort();
        users.dedup();
        let mut about = self.severities.about_owner(sets);
        about.extend(processes.iter().flat_map(|process| self.severities.about_process(process)));
        let cell = |column: &Column| cell::of_owner(column, sets, rows::worst(&about, Some(&column.key)));
        rows.push(MatrixRow {
            depth: sets.depth,
            owner: Some(sets.owner.clone()),
            array_task: sets.array_task.clone(),
            component: sets.component.clone(),
            process: None,
            cgroup: sets.cgroup.clone(),
            cgroup_hex: sets.cgroup_hex.clone(),
            users,
            processes: sets.processes,
            unseen: sets.unseen.clone(),
            cells: self.columns.iter().map(cell).collect(),
            finding: rows::worst(&about, None),
            activity: self.works.of_owner(&sets.owner),
            limits: rows::of(&processes),
        });
        for (cgroup, process) in self.members.directly(sets) {
            let about = self.severities.about_process(process);
            let cell = |column: &Column| {
                let finding = rows::worst(&about, Some(&column.key));
                cell::of_process(column, process, cgroup, &sets.allocated, finding)
            };
            rows.push(MatrixRow {
                depth: sets.depth + 1,
                owner: None,
                array_task: None,
                component: None,
                process: Some(rows::process(process)),
                cgroup: cgroup.path.clone(),
                cgroup_hex: cgroup.path_hex.clone(),
                users: vec![rows::user(process)],
                processes: 1,
                unseen: None,
                cells: self.columns.iter().map(cell).collect(),
                finding: rows::worst(&about, None),
                activity: self.works.of_process(process),
                limits: rows::of(&[process]),
            });
        }
    }
}
