//! Why a cell is as it is: what `explain` answers for the devices of a GPU.

use crate::analyse::{self, Subject, TimeLimit};
use crate::model::{Device, DeviceType, InstanceKey, Request};
use crate::observation::{Observation, Text};
use crate::report::{Gpu, MatrixRow, MigInstance, Payload};
use crate::top::{CellPosition, Content, Moment};

/// The answer.
pub(super) fn of(facts: &Observation, moment: &Moment, cell: &CellPosition) -> Content {
    let row = moment.matrix.rows.get(cell.row);
    let column = moment.matrix.columns.get(cell.column);
    let Some((row, column)) = row.zip(column) else {
        return Content::Message("This is no more.".to_owned());
    };
    let Some(path) = cgroup(facts, row) else {
        return Content::Message("Its cgroup is not among the facts.".to_owned());
    };
    let devices = devices(column, &moment.gpus);
    if devices.is_empty() {
        return Content::Message("The GPU has no device that could be opened.".to_owned());
    }
    let subject = Subject::Cgroup(path);
    let no_limit = &TimeLimit::default();
    let proofs = devices
        .into_iter()
        .map(|(device, request)| analyse::explain(facts, &subject, device, request, no_limit));
    match proofs.collect::<Result<Vec<Payload>, _>>() {
        Ok(proofs) => Content::Proofs(proofs),
        Err(error) => Content::Message(error.to_string()),
    }
}

fn cgroup(facts: &Observation, row: &MatrixRow) -> Option<Text> {
    let is_it = |path: &&Text| path.lossy() == row.cgroup && path.hex() == row.cgroup_hex;
    facts.cgroups.iter().map(|cgroup| &cgroup.path).find(is_it).cloned()
}

/// The devices that have to be opened, and how: the GPU itself, and for an instance its
/// capabilities, too.
fn devices(column: &str, gpus: &[Gpu]) -> Vec<(Device, Request)> {
    let on = |gpu: &&Gpu| column == gpu.key || InstanceKey::is_on(column, &gpu.key);
    let Some(gpu) = gpus.iter().find(on) else { return Vec::new() };
    let device = |major, minor| Device { kind: DeviceType::Char, major, minor };
    let gate = gpu.major.zip(gpu.minor).map(|(major, minor)| (device(major, minor), Request::ReadWrite));
    let instance = gpu.mig.iter().find(|mig| mig.key(gpu).as_deref() == Some(column));
    let capabilities = |mig: &MigInstance| {
        let major = mig.major;
        let minors = [mig.gi_minor, mig.ci_minor].into_iter().flatten();
        minors.filter_map(move |minor| Some((device(major?, minor), Request::Read))).collect::<Vec<_>>()
    };
    gate.into_iter().chain(instance.map(capabilities).unwrap_or_default()).collect()
}
