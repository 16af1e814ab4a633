//! Describes the files of `gres.conf`: each is a GPU, or with its capabilities a
//! part of one.

use crate::report::Gpu;

/// The device that one of Slurm's numbers means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A whole GPU, by key.
    Whole(String),
    /// A part of a GPU: its key, and the instances as `KEY/GI/CI`.
    Part(String, Vec<String>),
    /// A file that is no GPU of the inventory.
    Strange(String),
}

/// Whether opening this file gives access to the GPU.
pub(super) fn gate(gpu: &Gpu, file: &str) -> bool {
    gpu.nodes.iter().any(|node| node.gate && node.path == file)
}

/// The GPU or instance with these files.
pub(super) fn slot(files: &[String], gpus: &[Gpu]) -> Slot {
    let gpu = |file: &String| gpus.iter().find(|gpu| gate(gpu, file));
    let part = || {
        let (caps, nodes): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.starts_with(CAPABILITY));
        let [node] = nodes[..] else { return None };
        let gpu = gpu(node)?;
        let instances = instances(&caps, gpu)?;
        Some(Slot::Part(gpu.key.clone(), instances))
    };
    let whole = || Some(Slot::Whole(gpu(files.first()?)?.key.clone()));
    let slot = if files.len() == 1 { whole() } else { part() };
    slot.unwrap_or_else(|| Slot::Strange(files.join(",")))
}

/// The name that nvidia-modprobe gives to the node of a capability, before its
/// minor.
const CAPABILITY: &str = "/dev/nvidia-caps/nvidia-cap";

/// The instances whose two capabilities are listed; `None` if a capability is left
/// over.
fn instances(caps: &[&String], gpu: &Gpu) -> Option<Vec<String>> {
    let minors: Option<Vec<u32>> =
        caps.iter().map(|cap| cap.strip_prefix(CAPABILITY)?.parse().ok()).collect();
    let minors = minors?;
    let has = |minor: Option<u32>| minor.is_some_and(|minor| minors.contains(&minor));
    let found: Vec<_> = gpu.mig.iter().filter(|mig| has(mig.gi_minor) && has(mig.ci_minor)).collect();
    let used = |minor: &u32| found.iter().any(|mig| [mig.gi_minor, mig.ci_minor].contains(&Some(*minor)));
    if found.is_empty() || !minors.iter().all(used) {
        return None;
    }
    found.into_iter().map(|instance| instance.key(gpu)).collect()
}
