//! Metrics of the gpumap that serves metrics, under the names that all exporters have. They
//! are not in text files: node_exporter, which reads these, has its own under these names.

use super::metric::{
    Family, OWN_BEGUN, OWN_CPU, OWN_FILES, OWN_FILES_LIMIT, OWN_RESIDENT, OWN_VIRTUAL, count,
};
use crate::observation::OwnProcess;

/// The metrics of these facts; those that are not known are left out.
#[must_use]
pub fn own_process(own: &OwnProcess) -> Vec<Family> {
    let one = |metric, value: Option<f64>| Family::of(metric, value.map(|value| (Vec::new(), value)));
    let families = [
        one(OWN_CPU, own.cpu_seconds),
        one(OWN_RESIDENT, own.resident_bytes.map(count)),
        one(OWN_VIRTUAL, own.virtual_bytes.map(count)),
        one(OWN_FILES, own.open_files.map(count)),
        one(OWN_FILES_LIMIT, own.files_limit.map(count)),
        one(OWN_BEGUN, own.begun_at),
    ];
    families.into_iter().filter(|family| !family.samples.is_empty()).collect()
}
