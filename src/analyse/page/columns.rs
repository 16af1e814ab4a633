//! The columns of the matrix, with the questions that programs are asked about each.

use crate::analyse::matrix::cell;
use crate::model::{Device, DeviceType, Request, Verdict};
use crate::report::{Cgroup, Gpu, MigInstance, PageColumn};

/// A column and its questions.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) shown: PageColumn,
    /// The same for whoever asks whether it is in a set.
    pub(super) in_sets: cell::Column,
    pub(super) questions: Vec<(Device, Request)>,
}

/// Each GPU, followed by its MIG instances that can be used.
pub(super) fn of(gpus: &[Gpu]) -> Vec<Column> {
    gpus.iter().enumerate().flat_map(|(place, gpu)| of_gpu(place, gpu)).collect()
}

fn of_gpu(place: usize, gpu: &Gpu) -> Vec<Column> {
    let gate = gpu.major.zip(gpu.minor).map(|(major, minor)| (char(major, minor), Request::ReadWrite));
    let whole = cell::Column { key: gpu.key.clone(), gpu: None };
    let mut columns = vec![column(place, None, whole, gate.into_iter().collect())];
    for (number, part) in gpu.mig.iter().enumerate() {
        let Some(key) = part.key(gpu) else { continue };
        let instance = cell::Column { key, gpu: Some(gpu.key.clone()) };
        columns.push(column(place, Some(number), instance, capabilities(part)));
    }
    columns
}

/// An instance takes the capabilities of both levels, which are opened for reading. Its
/// GPU has a column of its own.
fn capabilities(part: &MigInstance) -> Vec<(Device, Request)> {
    let minors = [part.gi_minor, part.ci_minor].into_iter().flatten();
    let devices = minors.filter_map(|minor| Some(char(part.major?, minor)));
    devices.map(|device| (device, Request::Read)).collect()
}

fn column(
    gpu: usize,
    instance: Option<usize>,
    in_sets: cell::Column,
    questions: Vec<(Device, Request)>,
) -> Column {
    let text = |(device, request): &(Device, Request)| format!("{device} {}", request.letters());
    let texts = questions.iter().map(text).collect();
    let shown = PageColumn { key: in_sets.key.clone(), gpu, instance, questions: texts };
    Column { shown, in_sets, questions }
}

fn char(major: u32, minor: u32) -> Device {
    Device { kind: DeviceType::Char, major, minor }
}

/// What a cgroup's answer says of a column, and why if there is a reason.
pub(super) fn verdict<'a>(cgroup: &'a Cgroup, column: &Column) -> (Verdict, Option<&'a str>) {
    let Some(gpu) = cgroup.gpus.get(column.shown.gpu) else { return (Verdict::Unknown, None) };
    match column.shown.instance {
        None => (gpu.verdict, gpu.why.as_deref()),
        Some(number) => {
            let verdict = gpu.instances.get(number).map_or(Verdict::Unknown, |instance| instance.verdict);
            (verdict, gpu.why.as_deref())
        }
    }
}
