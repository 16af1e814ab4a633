//! The name of the GPU that a process uses.

use crate::render::gpu_names;
use crate::report::{Gpu, GpuUse};

/// The GPU's short name; `?` with the ordinal where it is not known which it is.
pub(super) fn gpu(one: &GpuUse, gpus: &[Gpu]) -> String {
    match (&one.instance, &one.gpu, one.ordinal) {
        (Some(instance), ..) => gpu_names::instance_name(instance, gpus),
        (None, Some(gpu), _) => gpu_names::name(gpu, gpus),
        (None, None, Some(ordinal)) => format!("? (its {ordinal})"),
        (None, None, None) => "?".to_owned(),
    }
}
