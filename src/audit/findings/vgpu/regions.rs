//! Regions whose limits are not those that were meant, or that others can
//! change.

use std::collections::BTreeMap;

use super::by_cgroup::{About, report};
use super::pages;
use crate::audit::facts::Facts;
use crate::audit::finding;
use crate::model::Confidence;
use crate::report::{Finding, Gpu, Process, Vgpu, VgpuDevice};
use crate::vgpu::memory_of;

const STALE: About = About {
    kind: &pages::STALE,
    summary: "its region has other limits than it was meant to have",
    excuses: &["the environment at exec or the job's file names a limit, and the region another"],
    advice: "End the container's processes and remove the region: limits are written when it is made.",
};

const WRITABLE: About = About {
    kind: &pages::WRITABLE,
    summary: "every user of the node can write its region, and so its limits",
    excuses: &["it is in no container: the file lies where all users of the node are"],
    advice: "Keep the region in a directory of the job's own (SLURM_TMPDIR, a private /tmp), with mode 0600.",
};

/// Permission to write for everybody.
const OTHERS_WRITE: u16 = 0o002;

pub(super) fn find(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &STALE, stale);
    found.extend(report(facts, &WRITABLE, |process, limits| writable(facts, process, limits)));
    found.extend(facts.inspection.gpus().iter().filter_map(|gpu| sum(facts, gpu)));
    found
}

fn stale(_: &Process, limits: &Vgpu) -> Option<String> {
    limits.devices.iter().find_map(|device| {
        let memory = device.memory_meant.zip(device.memory_limit);
        let sm = device.sm_meant.zip(device.sm_limit);
        match (memory, sm) {
            (Some((meant, limit)), _) if meant > 0 && limit > 0 && meant != limit => {
                Some(format!("device {}: {meant} bytes were meant, the region has {limit}", device.device))
            }
            (_, Some((meant, limit)))
                if (1..100).contains(&meant) && (1..100).contains(&limit) && meant != limit =>
            {
                Some(format!(
                    "device {}: {meant} % of the SMs were meant, the region has {limit} %",
                    device.device
                ))
            }
            _ => None,
        }
    })
}

fn writable(facts: &Facts<'_>, process: &Process, limits: &Vgpu) -> Option<String> {
    let region = limits.region.as_ref()?;
    let cgroup = facts.cgroups().iter().find(|cgroup| cgroup.path == process.cgroup)?;
    let mut around = std::iter::successors(cgroup.owner.as_ref(), |owner| owner.outer.as_deref());
    let is_inside = around.any(|owner| owner.kind.is_container());
    let is_open = region.mode? & OTHERS_WRITE != 0 && !region.deleted;
    (is_open && !is_inside).then(|| format!("{} has mode {:04o}", region.path, region.mode.unwrap_or(0)))
}

/// The memory limits of all regions on a GPU, if together they are over what it
/// has.
fn sum(facts: &Facts<'_>, gpu: &Gpu) -> Option<Finding> {
    let total = gpu.model.as_deref().and_then(memory_of)?;
    let mut by_region: BTreeMap<([u32; 2], u64), (u64, &Process)> = BTreeMap::new();
    for process in facts.processes() {
        let Some(limits) = process.vgpu.as_deref() else { continue };
        let Some(region) = &limits.region else { continue };
        let is_this = |device: &&VgpuDevice| device.gpu.as_ref() == Some(&gpu.key);
        let limit = limits.devices.iter().find(is_this).and_then(|device| device.memory_limit);
        if let Some(limit) = limit.filter(|limit| *limit > 0 && *limit < total) {
            by_region.entry((region.dev, region.inode)).or_insert((limit, process));
        }
    }
    let sum = by_region.values().map(|(limit, _)| *limit).fold(0, u64::saturating_add);
    if sum <= total || by_region.len() < 2 {
        return None;
    }
    let evidence =
        by_region.values().map(|(limit, process)| format!("process {}: {limit} bytes", process.pid));
    let name = crate::audit::wording::gpu(gpu);
    let summary =
        format!("the memory limits of {} regions on {name} are together over its memory", by_region.len());
    Some(Finding {
        devices: vec![finding::gpu(gpu)],
        processes: by_region.values().take(finding::LISTED).map(|(_, process)| finding::process(process)).collect(),
        evidence: crate::audit::wording::clauses(evidence.collect()),
        excuses: vec!["each limit by itself is below the GPU's memory".to_owned()],
        advice: "Lower the limits or the device plugin's memory scaling: whoever comes last is refused memory that \
                 its limit promises."
            .to_owned(),
        confidence: Confidence::Certain,
        ..finding::new(&pages::SUM, summary)
    })
}
