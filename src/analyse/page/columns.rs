//! The columns of the matrix, with the questions that programs are asked about each.

use crate::analyse::matrix;
use crate::model::{Device, DeviceType, Request, Verdict};
use crate::report::{Cgroup, Gpu, MigInstance, PageColumn};

/// A column and its questions.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) shown: PageColumn,
    /// The column of the matrix.
    pub(super) in_sets: matrix::Column,
    pub(super) questions: Vec<(Device, Request)>,
}

/// The columns of the matrix.
pub(super) fn of(gpus: &[Gpu]) -> Vec<Column> {
    let column = |in_sets: matrix::Column| {
        let (place, number) = in_sets.place;
        let gpu = gpus.get(place);
        let questions = match number {
            None => gpu.and_then(gate).into_iter().collect(),
            Some(number) => gpu.and_then(|gpu| gpu.mig.get(number)).map(capabilities).unwrap_or_default(),
        };
        let text = |(device, request): &(Device, Request)| format!("{device} {}", request.letters());
        let texts = questions.iter().map(text).collect();
        let shown = PageColumn { key: in_sets.key.clone(), gpu: place, instance: number, questions: texts };
        Column { shown, in_sets, questions }
    };
    matrix::columns(gpus).into_iter().map(column).collect()
}

/// What using a GPU asks of the programs.
fn gate(gpu: &Gpu) -> Option<(Device, Request)> {
    Some((char(gpu.major?, gpu.minor?), Request::ReadWrite))
}

/// An instance takes the capabilities of both levels, which are opened for reading. Its
/// GPU has a column of its own.
fn capabilities(part: &MigInstance) -> Vec<(Device, Request)> {
    let minors = [part.gi_minor, part.ci_minor].into_iter().flatten();
    let devices = minors.filter_map(|minor| Some(char(part.major?, minor)));
    devices.map(|device| (device, Request::Read)).collect()
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
