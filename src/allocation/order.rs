//! The order of slurmd's device list, from `gres.conf` and the inventory.
//!
//! Slurm 21.08 and later number devices by their place in that list; 20.11
//! and before by the digits at the end of the file's name, which are not
//! modelled. The list is
//!
//! - without AutoDetect, as configured: the lines are taken as they are
//!   (`gres_p_node_config_load` merges only with what AutoDetect found), but
//!   lines of several types come in the order of `slurm.conf`. gpumap answers
//!   only where configured and natural order of the names are the same, so
//!   that no version's sorting can matter;
//! - with `nvml`, `rsmi` and `oneapi`, in PCI order (`_sort_gpu_by_links_order`);
//! - with `nvidia`, which has no links, in natural order of the file names
//!   (`_sort_gpu_by_file`).
//!
//! `slurm.conf` is not read: it is taken to configure every GPU that
//! `gres.conf` lists or AutoDetect finds. See [`super::Numbering::assumes`].

use std::cmp::Ordering;

use super::gres::{AutoDetect, Gres, Listed};
use crate::model::{GpuKey, InOrder as _, Vendor};
use crate::report::Gpu;

/// The meaning of every number, and whether it rests on `slurm.conf`
/// configuring all GPUs that AutoDetect finds.
///
/// # Errors
///
/// Why the order is not determined.
pub(super) fn slots(gres: &Gres, gpus: &[Gpu]) -> Result<(Vec<Slot>, bool), String> {
    match gres.detect {
        AutoDetect::Off => Ok((configured(&gres.listed, gpus)?, false)),
        AutoDetect::Nvml => detected(gres, gpus, &Vendor::Nvidia, by_nvml),
        AutoDetect::Nvidia => detected(gres, gpus, &Vendor::Nvidia, by_file),
        AutoDetect::Rsmi => detected(gres, gpus, &Vendor::Amd, by_address),
        AutoDetect::Oneapi => detected(gres, gpus, &Vendor::Intel, by_address),
    }
}

/// Without AutoDetect.
fn configured(listed: &[Listed], gpus: &[Gpu]) -> Result<Vec<Slot>, String> {
    let Some(first) = listed.first() else { return Err("no line lists GPUs for this node".to_owned()) };
    if first.files.is_empty() {
        return Err(format!("line {}: GPUs without File have no device", first.line));
    }
    if let Some(other) = listed.iter().find(|other| other.kind != first.kind) {
        let why = "lines of several types are in the order of slurm.conf";
        return Err(format!("line {}: {why}", other.line));
    }
    let files: Vec<&Vec<String>> = listed.iter().flat_map(|listed| &listed.files).collect();
    let sorted = files.is_sorted_by(|one, two| natural_order(&one.join(","), &two.join(",")).is_le());
    if !sorted {
        return Err("the files are not listed in the order of their names".to_owned());
    }
    Ok(files.into_iter().map(|files| slot(files, gpus)).collect())
}

/// With AutoDetect: the GPUs it finds, in its order.
fn detected(
    gres: &Gres,
    gpus: &[Gpu],
    vendor: &Vendor,
    order: fn(&[&Gpu]) -> Result<Vec<GpuKey>, String>,
) -> Result<(Vec<Slot>, bool), String> {
    let found: Vec<&Gpu> = gpus.iter().filter(|gpu| gpu.vendor == *vendor && !gpu.excluded).collect();
    if found.is_empty() {
        return Err(format!("AutoDetect finds {vendor} GPUs, and there is none here"));
    }
    if let Some(gpu) = found.iter().find(|gpu| !gpu.mig.is_empty()) {
        return Err(format!(
            "{} has MIG instances, whose order AutoDetect does not fix (SchedMD bug 21163)",
            gpu.key
        ));
    }
    let chosen = chosen(&gres.listed, &found)?;
    let keys = order(&chosen)?;
    // slurm.conf with fewer GPUs keeps the first as they are listed, else by
    // name: where that is PCI order too, no number changes its meaning.
    let first = match gres.listed.first().is_some_and(|listed| !listed.files.is_empty()) {
        true => chosen.iter().map(|gpu| gpu.key.clone()).collect(),
        false => by_file(&chosen).unwrap_or_default(),
    };
    let rests = first != keys;
    Ok((keys.into_iter().map(Slot::Whole).collect(), rests))
}

/// The found GPUs that the lines leave in the list (`_merge_system_gres_conf`).
fn chosen<'a>(listed: &[Listed], found: &[&'a Gpu]) -> Result<Vec<&'a Gpu>, String> {
    let kinds: Vec<&str> = listed.iter().filter_map(|listed| listed.kind.as_deref()).collect();
    if let Some(line) = listed.iter().find(|listed| listed.compared).map(|listed| listed.line) {
        return Err(format!(
            "line {line}: a GPU whose Cores or Links differ from what AutoDetect finds is left out"
        ));
    }
    let Some(first) = listed.first() else { return Ok(found.to_vec()) };
    if first.files.is_empty() {
        return uncounted(listed, found);
    }
    let mut chosen = Vec::new();
    for listed in listed {
        for file in listed.files.iter().flatten() {
            let gpu = found.iter().find(|gpu| gate(gpu, file));
            let gpu = gpu.ok_or_else(|| format!("line {}: AutoDetect does not find {file}", listed.line))?;
            typed(listed, &kinds, gpu)?;
            chosen.push(*gpu);
        }
    }
    Ok(chosen)
}

/// Lines without files: they take what AutoDetect finds, all or some of it.
fn uncounted<'a>(listed: &[Listed], found: &[&'a Gpu]) -> Result<Vec<&'a Gpu>, String> {
    let count = listed.iter().fold(0_usize, |sum, listed| sum.saturating_add(listed.count));
    match listed {
        [one] if count == found.len() => {
            let kinds: Vec<&str> = one.kind.as_deref().into_iter().collect();
            found.iter().try_for_each(|gpu| typed(one, &kinds, gpu))?;
            Ok(found.to_vec())
        }
        _ => Err(format!("{count} GPUs are configured without File, and AutoDetect finds {}", found.len())),
    }
}

/// Makes sure that the GPU has the line's type and none of the others: a type
/// matches if it is part of the name that AutoDetect makes from the model.
fn typed(listed: &Listed, kinds: &[&str], gpu: &Gpu) -> Result<(), String> {
    let Some(kind) = &listed.kind else { return Ok(()) };
    let model = gpu.model.as_deref().unwrap_or_default().to_ascii_lowercase().replace(' ', "_");
    if kinds.iter().all(|other| model.contains(other) == (other == kind)) {
        return Ok(());
    }
    Err(format!("line {}: whether {} is of Type {kind} is not certain", listed.line, gpu.key))
}

fn by_nvml(gpus: &[&Gpu]) -> Result<Vec<GpuKey>, String> {
    let mut places: Vec<(u32, &GpuKey)> = Vec::new();
    for gpu in gpus {
        let index = gpu.nvml_index.ok_or_else(|| format!("whether NVML lists {} is not known", gpu.key))?;
        places.push((index, &gpu.key));
    }
    places.sort_unstable();
    Ok(places.into_iter().map(|(_, key)| key.clone()).collect())
}

/// The inventory is in PCI order within a vendor.
fn by_address(gpus: &[&Gpu]) -> Result<Vec<GpuKey>, String> {
    let mut sorted = gpus.to_vec();
    sorted.order_by_key(|gpu| gpu.pci.clone());
    match sorted.windows(2).find(|pair| pair[0].pci == pair[1].pci) {
        Some(pair) => Err(format!("{} and {} have one PCI address", pair[0].key, pair[1].key)),
        None if sorted.len() > 1
            && sorted.iter().any(|gpu| gpu.pci.as_ref().is_none_or(|pci| pci.len() != 12)) =>
        {
            Err("not every GPU has a PCI address of the usual form".to_owned())
        }
        None => Ok(sorted.into_iter().map(|gpu| gpu.key.clone()).collect()),
    }
}

fn by_file(gpus: &[&Gpu]) -> Result<Vec<GpuKey>, String> {
    let mut files: Vec<(&str, &GpuKey)> = Vec::new();
    for gpu in gpus {
        let node = gpu.nodes.iter().find(|node| node.gate);
        let node = node.ok_or_else(|| format!("{} has no device node", gpu.key))?;
        files.push((&node.path, &gpu.key));
    }
    files.order_by(|one, two| natural_order(one.0, two.0));
    Ok(files.into_iter().map(|(_, key)| key.clone()).collect())
}

/// The device that one of Slurm's numbers means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// A whole GPU, by key.
    Whole(GpuKey),
    /// A part of a GPU: its key, and the instances as `KEY/GI/CI`.
    Part(GpuKey, Vec<GpuKey>),
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
fn instances(caps: &[&String], gpu: &Gpu) -> Option<Vec<GpuKey>> {
    let minors: Option<Vec<u32>> =
        caps.iter().map(|cap| cap.strip_prefix(CAPABILITY)?.parse().ok()).collect();
    let minors = minors?;
    let has = |minor: Option<u32>| minor.is_some_and(|minor| minors.contains(&minor));
    let found: Vec<_> = gpu.mig.iter().filter(|mig| has(mig.gi_minor) && has(mig.ci_minor)).collect();
    let used = |minor: &u32| found.iter().any(|mig| [mig.gi_minor, mig.ci_minor].contains(&Some(*minor)));
    if found.is_empty() || !minors.iter().all(used) {
        return None;
    }
    found.into_iter().map(|instance| instance.compute_key(gpu)).collect()
}

/// Compares as people do: runs of digits by their value.
pub(super) fn natural_order(one: &str, two: &str) -> Ordering {
    let (mut one, mut two) = (one.as_bytes(), two.as_bytes());
    loop {
        match (digits(one), digits(two)) {
            (0, _) | (_, 0) => match (one.split_first(), two.split_first()) {
                (Some((a, rest)), Some((b, other))) if a == b => (one, two) = (rest, other),
                (a, b) => return a.map(|(byte, _)| byte).cmp(&b.map(|(byte, _)| byte)),
            },
            (a, b) => {
                let ((left, rest), (right, other)) = (one.split_at(a), two.split_at(b));
                match number(left).cmp(&number(right)) {
                    Ordering::Equal => (one, two) = (rest, other),
                    unequal => return unequal,
                }
            }
        }
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Orders runs of digits: without leading zeros the longer one is larger.
fn number(digits: &[u8]) -> (usize, &[u8]) {
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    let digits = &digits[zeros..];
    (digits.len(), digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_by_value() {
        let names =
            ["", "/dev/dri/renderD128", "/dev/nvidia0", "/dev/nvidia9", "/dev/nvidia10", "/dev/nvidia10,x"];
        assert!(names.is_sorted_by(|one, two| natural_order(one, two).is_lt()));
        assert_eq!(natural_order("a01", "a1"), Ordering::Equal);
        assert_eq!(natural_order("a1", "ab"), Ordering::Less);
    }
}
