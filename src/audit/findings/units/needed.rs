//! Lists the devices that decide whether GPUs can be used.

use crate::audit::facts::{Facts, char};
use crate::audit::finding;
use crate::model::{Request, Verdict};
use crate::report::{FindingDevice, Gpu};

/// A device that decides whether GPUs can be used.
#[derive(Clone, Debug)]
pub(super) struct Needed {
    pub(super) number: (u32, u32),
    pub(super) device: FindingDevice,
    pub(super) is_gpu: bool,
}

/// The GPUs, and the nodes without which they cannot be used.
pub(super) fn needed(facts: &Facts<'_>) -> Vec<Needed> {
    let gpu = |gpu: &Gpu| {
        let number = gpu.major.zip(gpu.minor)?;
        Some(Needed { number, device: finding::gpu(gpu), is_gpu: true })
    };
    let shared = facts.inspection.shared_nodes().iter().filter(|node| node.needed);
    let shared = shared.map(|node| {
        let number = (node.major, node.minor);
        Needed { number, device: finding::device(number, Some(&node.role.to_string())), is_gpu: false }
    });
    facts.inspection.gpus().iter().filter_map(gpu).chain(shared).collect()
}

impl Needed {
    pub(super) fn is_allowed_by(&self, id: u32, facts: &mut Facts<'_>) -> Verdict {
        facts.inspection.program_verdict(id, char(self.number), Request::ReadWrite)
    }
}

/// The names of lost devices in a sentence.
pub(super) fn names(lost: &[&Needed]) -> String {
    let name = |one: &&Needed| {
        let device = &one.device;
        device.name.clone().or_else(|| device.number.clone()).unwrap_or_default()
    };
    let mut names: Vec<String> = lost.iter().map(name).collect();
    if names.len() > 8 {
        let rest = names.len() - 8;
        names.truncate(8);
        names.push(format!("{rest} more"));
    }
    names.join(", ")
}
