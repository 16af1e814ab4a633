//! Reads the list of GPUs that the caller passes with `--allocated`.

use super::resolve::{self, Numbering, by_uuid, is_uuid};
use crate::model::{AllocationSource, InOrder as _};
use crate::report::{Gpu, GpuSet};
use crate::slurm_conf::short;

/// The forms of an entry that are accepted, for error messages.
const FORMS: &str =
    "a UUID (GPU-…), a PCI address (0000:3b:00.0), a device node (/dev/nvidia3), Slurm's number, or `none`";

/// What `--allocated LIST` names: UUIDs, PCI addresses, `/dev` nodes, Slurm's
/// numbers; `none` for none.
///
/// # Errors
///
/// An entry that names no GPU of this node, with the reason.
pub fn caller_list(list: &str, numbering: &Numbering, gpus: &[Gpu]) -> Result<GpuSet, String> {
    let list = list.trim();
    if list.is_empty() {
        return Err(format!("the list is empty; give {FORMS}"));
    }
    let mut keys = Vec::new();
    let mut instances = Vec::new();
    if list != "none" {
        for entry in list.split(',').map(str::trim) {
            let set = one(entry, numbering, gpus)?;
            keys.extend(set.gpus.unwrap_or_default());
            instances.extend(set.instances);
        }
    }
    let gpus = gpus.iter().map(|gpu| gpu.key.clone()).filter(|key| keys.contains(key)).collect();
    instances.order();
    instances.dedup();
    Ok(GpuSet { gpus: Some(gpus), instances, source: Some(AllocationSource::Given), ..GpuSet::default() })
}

fn one(entry: &str, numbering: &Numbering, gpus: &[Gpu]) -> Result<GpuSet, String> {
    let numeric = !entry.is_empty() && entry.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    if numeric || entry.starts_with("MIG-") {
        let set = resolve::list(entry, numbering, gpus);
        return match set.why.first() {
            Some(why) => Err(format!("`{}`: {why}; give {FORMS}", short(entry))),
            None => Ok(set),
        };
    }
    let named = match gpus.iter().find(|gpu| *gpu.key == *entry) {
        Some(gpu) => vec![gpu],
        None if is_uuid(entry) => by_uuid(entry, gpus),
        None => {
            let is = |gpu: &&Gpu| is_address(gpu, entry) || is_node(gpu, entry) || is_number(gpu, entry);
            gpus.iter().filter(is).collect()
        }
    };
    let in_range: Vec<&Gpu> = gpus.iter().filter(|gpu| named.is_empty() && is_in_range(gpu, entry)).collect();
    if !in_range.is_empty() {
        let keys = in_range.into_iter().map(|gpu| gpu.key.clone()).collect();
        return Ok(GpuSet { gpus: Some(keys), ..GpuSet::default() });
    }
    match named[..] {
        [gpu] => Ok(GpuSet { gpus: Some(vec![gpu.key.clone()]), ..GpuSet::default() }),
        [] => Err(format!("`{}` names no GPU of this node; give {FORMS}", short(entry))),
        _ => {
            let keys: Vec<&str> = named.iter().map(|gpu| gpu.key.as_str()).collect();
            Err(format!("`{}` names several GPUs: {}", short(entry), keys.join(", ")))
        }
    }
}

/// Whether this is the GPU's PCI address, with or without its domain.
fn is_address(gpu: &Gpu, entry: &str) -> bool {
    let Some(pci) = gpu.pci.as_deref() else { return false };
    let brief = pci.strip_prefix("0000:").unwrap_or(pci);
    pci.eq_ignore_ascii_case(entry) || brief.eq_ignore_ascii_case(entry)
}

/// Whether an entry is the number of the GPU's device, `195:0` or `c 195:0`.
fn is_number(gpu: &Gpu, entry: &str) -> bool {
    let entry = entry.strip_prefix("c ").unwrap_or(entry);
    let Some((major, minor)) = entry.split_once(':') else { return false };
    gpu.major.is_some() && (gpu.major, gpu.minor) == (major.parse().ok(), minor.parse().ok())
}

/// Whether the name of the GPU's node is in a range of them, `nvidia0-3`.
fn is_in_range(gpu: &Gpu, entry: &str) -> bool {
    let entry = entry.strip_prefix("/dev/").unwrap_or(entry);
    let Some((first, last)) = entry.rsplit_once('-') else { return false };
    let name = first.trim_end_matches(|it: char| it.is_ascii_digit());
    let number = |text: &str| text.parse::<u32>().ok();
    let (Some(first), Some(last)) = (number(&first[name.len()..]), number(last)) else { return false };
    let own = |path: &str| path.strip_prefix("/dev/").and_then(|path| number(path.strip_prefix(name)?));
    let mut gates = gpu.nodes.iter().filter(|node| node.gate && !name.is_empty());
    gates.any(|node| own(&node.path).is_some_and(|own| (first..=last).contains(&own)))
}

/// Whether an entry, a path or a name, is the node whose opening gives access to the
/// GPU.
fn is_node(gpu: &Gpu, entry: &str) -> bool {
    let name = |path: &str| path.rsplit('/').next() == Some(entry);
    gpu.nodes.iter().any(|node| node.gate && (node.path == entry || name(&node.path)))
}
