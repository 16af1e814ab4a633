//! GPUs: the table of one cgroup, the compact list of a summary row, the node's inventory
//! with a column for each numbering, and short names (`nvidia0`, `nvidia0/1/0`).

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use super::table::Last;
use super::{Style, names, sanitize, table, wrap};
use crate::model::{GpuKey, RequestSet, Verdict};
use crate::report::{DevicesEvent, Gpu, GpuNode, GpuVerdict, MigInstance};

/// Places of the columns that are left out where they say nothing.
const SLURM: usize = 4;
const REQUESTS: usize = 6;
/// Columns with those.
const COLUMNS: usize = 8;

/// Prints one row per GPU, verdict first.
pub(super) fn write(
    out: &mut dyn Write,
    style: Style,
    verdicts: &[GpuVerdict],
    gpus: &[Gpu],
) -> io::Result<()> {
    let mut header = vec!["VERDICT", "NODE", "NUMBER", "NVML", "SLURM", "PCI", "REQUESTS", "MODEL"];
    let mut rows: Vec<Vec<String>> = verdicts.iter().flat_map(|verdict| self::rows(verdict, gpus)).collect();
    let has_slurm = gpus.iter().any(|gpu| gpu.slurm_index.is_some());
    for (place, says_nothing) in [(REQUESTS, verdicts.iter().all(says_all)), (SLURM, !has_slurm)] {
        if says_nothing {
            header.remove(place);
            rows.iter_mut().for_each(|row| drop(row.remove(place)));
        }
    }
    table::write(out, style, &header, &["NVML", "SLURM"], rows, Last::Wraps)?;
    reasons(verdicts).into_iter().try_for_each(|(why, count)| {
        let first = format!("  {count} {} because ", style.verdict(Verdict::Unknown));
        wrap::write(out, &first, 4, usize::from(style.width), why)
    })
}

/// Whether the verdict for `rw` tells those for all requests.
fn says_all(gpu: &GpuVerdict) -> bool {
    match gpu.verdict {
        Verdict::Allow => gpu.requests == RequestSet::ALL.to_string(),
        _ => gpu.requests.is_empty(),
    }
}

/// The GPUs of one verdict among all: `2/8 nvidia0-1`.
pub(super) fn compact(verdicts: &[GpuVerdict], gpus: &[Gpu]) -> String {
    if verdicts.is_empty() {
        return "-".to_owned();
    }
    let of = |verdict| verdicts.iter().filter(|gpu| gpu.verdict == verdict).collect::<Vec<_>>();
    let (allowed, unknown) = (of(Verdict::Allow), of(Verdict::Unknown));
    let count = match (allowed.len(), unknown.is_empty()) {
        (0, false) => "?".to_owned(),
        (least, false) => format!("{least}-{}", least + unknown.len()),
        (exact, true) => exact.to_string(),
    };
    let mut text = format!("{count}/{}", verdicts.len());
    if !allowed.is_empty() {
        text.push_str(&format!(" {}", names(&allowed, gpus)));
    }
    if !unknown.is_empty() {
        text.push_str(&format!(" unknown: {}", names(&unknown, gpus)));
    }
    text
}

/// The number of allowed GPUs; GPUs with unknown verdicts are not counted as denied.
pub(super) fn tally(verdicts: &[GpuVerdict]) -> String {
    let count = |verdict| verdicts.iter().filter(|gpu| gpu.verdict == verdict).count();
    let all = verdicts.len();
    match (count(Verdict::Allow), count(Verdict::Unknown)) {
        (allowed, 0) => format!("{allowed} of {all} allowed"),
        (0, unknown) if unknown == all => format!("unknown which of {all} are allowed"),
        (allowed, unknown) => format!("{allowed} of {all} allowed, {unknown} unknown"),
    }
}

/// A GPU's row, and below it those of its MIG instances.
fn rows(verdict: &GpuVerdict, gpus: &[Gpu]) -> Vec<Vec<String>> {
    let mig = find(&verdict.gpu, gpus).map(|gpu| gpu.mig.as_slice()).unwrap_or_default();
    let instances = verdict.instances.iter().zip(mig).map(|(part, mig)| {
        let node = format!("  {}", instance_name(&part.instance, gpus));
        let mut cells = vec![part.verdict.to_string(), node, capability(mig)];
        cells.resize(COLUMNS, String::new());
        cells
    });
    std::iter::once(row(verdict, gpus)).chain(instances).collect()
}

fn row(verdict: &GpuVerdict, gpus: &[Gpu]) -> Vec<String> {
    let gpu = find(&verdict.gpu, gpus);
    let node = gpu.and_then(gate).map_or(verdict.gpu.as_str(), |node| &node.path);
    let number = verdict.major.zip(verdict.minor).map(|(major, minor)| format!("{major}:{minor}"));
    let requests = if verdict.requests.is_empty() { "-" } else { &verdict.requests };
    let plain = |text: &str| sanitize::text(text).into_owned();
    let index = |index: Option<u32>| index.map_or_else(|| "-".to_owned(), |index| index.to_string());
    vec![
        verdict.verdict.to_string(),
        plain(node),
        number.unwrap_or_else(|| "-".to_owned()),
        index(gpu.and_then(|gpu| gpu.nvml_index)),
        index(gpu.and_then(|gpu| gpu.slurm_index)),
        plain(gpu.and_then(|gpu| gpu.pci.as_deref()).unwrap_or("-")),
        requests.to_owned(),
        plain(&gpu.map(model).unwrap_or_default()),
    ]
}

fn model(gpu: &Gpu) -> String {
    let model = gpu.model.clone().unwrap_or_else(|| gpu.vendor.to_string());
    match (gpu.excluded, gpu.mig.len()) {
        (true, _) => format!("{model} (excluded)"),
        (false, 0) => model,
        (false, count) => format!("{model} (MIG, {count})"),
    }
}

/// Each distinct reason with how many GPUs it concerns.
fn reasons(verdicts: &[GpuVerdict]) -> BTreeMap<&str, usize> {
    let mut reasons = BTreeMap::new();
    for why in verdicts.iter().filter_map(|gpu| gpu.why.as_deref()) {
        *reasons.entry(why).or_default() += 1;
    }
    reasons
}

fn names(verdicts: &[&GpuVerdict], gpus: &[Gpu]) -> String {
    names::set(verdicts.iter().map(|verdict| name(&verdict.gpu, gpus)).collect())
}

/// The short name of a GPU: that of the node which gives access to it.
pub(super) fn name(key: &str, gpus: &[Gpu]) -> String {
    let gate = find(key, gpus).and_then(gate);
    sanitize::text(gate.map_or(key, |node| node.path.rsplit('/').next().unwrap_or(key))).into_owned()
}

/// Names of GPUs by key; one of which only instances are meant is named by
/// those.
pub(super) fn key_names(keys: &[GpuKey], instances: &[GpuKey], gpus: &[Gpu]) -> Vec<String> {
    let is_split = |key: &GpuKey| instances.iter().any(|instance| instance.is_on(key));
    let whole = keys.iter().filter(|key| !is_split(key)).map(|key| name(key, gpus));
    whole.chain(instances.iter().map(|instance| instance_name(instance, gpus))).collect()
}

/// The set that an owner or process holds; what is denied now is marked: `nvidia1!`.
pub(super) fn held_names(keys: &[GpuKey], instances: &[GpuKey], denied: &[GpuKey], gpus: &[Gpu]) -> String {
    let part = |is_denied: bool| {
        let of =
            |all: &[GpuKey]| all.iter().filter(|key| denied.contains(key) == is_denied).cloned().collect();
        let (keys, instances): (Vec<_>, Vec<_>) = (of(keys), of(instances));
        names::set(key_names(&keys, &instances, gpus))
    };
    let marked: Vec<String> = part(true).split_whitespace().map(|name| format!("{name}!")).collect();
    let parts = [part(false), marked.join(" ")];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Says what the mark of [`held_names`] means, if it is there.
pub(super) fn denied_legend(out: &mut dyn Write, is_there: bool) -> io::Result<()> {
    if is_there { writeln!(out, "  ! held although its rules deny it now") } else { Ok(()) }
}

/// The short name of a MIG instance, `nvidia0/1/0` for `KEY/1/0`, or of a GPU.
pub(super) fn instance_name(key: &GpuKey, gpus: &[Gpu]) -> String {
    let instance = gpus.iter().find_map(|gpu| key.below(&gpu.key).zip(Some(gpu)));
    match instance {
        Some((numbers, gpu)) => name(&gpu.key, gpus) + &sanitize::text(numbers),
        None => name(key, gpus),
    }
}

/// The capability nodes that give access to an instance: `235:12,13`.
pub(super) fn capability(mig: &MigInstance) -> String {
    let minors: Vec<_> =
        [mig.gi_minor, mig.ci_minor].into_iter().flatten().map(|minor| minor.to_string()).collect();
    match (mig.major, minors.is_empty()) {
        (Some(major), false) => format!("{major}:{}", minors.join(",")),
        _ => "-".to_owned(),
    }
}

/// The GPU with this key.
pub(super) fn find<'a>(key: &str, gpus: &'a [Gpu]) -> Option<&'a Gpu> {
    gpus.iter().find(|gpu| *gpu.key == *key)
}

/// The node that gives access to a GPU.
pub(super) fn gate(gpu: &Gpu) -> Option<&GpuNode> {
    gpu.nodes.iter().find(|node| node.gate)
}

/// Characters of a UUID where there is no room for all 40.
const UUID: usize = 13;
/// The least that a model's name has.
const MODEL: usize = 12;

/// What an empty list of GPUs says.
pub(super) fn none(gpus_unread: bool) -> &'static str {
    match gpus_unread {
        false => "This node has no GPU",
        true => "No GPU was seen, and whether this node has one is not known",
    }
}

/// Prints a heading and one row per GPU, its MIG instances below it.
pub(super) fn write_inventory(
    out: &mut dyn Write,
    style: Style,
    title: &str,
    list: &[&Gpu],
) -> io::Result<()> {
    let models: Vec<_> = list.iter().map(|gpu| inventory_model(gpu)).collect();
    let same = models.first().filter(|first| models.iter().all(|model| model == *first));
    match same {
        Some(inventory_model) => writeln!(out, "{title}: {}", sanitize::short(inventory_model, 60, "…"))?,
        None => writeln!(out, "{title}")?,
    }
    if list.is_empty() {
        return Ok(());
    }
    let mut columns = columns(list, usize::MAX);
    if !style.all && table::width(&columns) > usize::from(style.width) {
        columns = self::columns(list, UUID);
    }
    if same.is_none() {
        let room = usize::from(style.width).saturating_sub(table::width(&columns) + 2);
        let room = if style.all { usize::MAX } else { room.max(MODEL) };
        let short = |gpu: &Gpu| sanitize::short(&inventory_model(gpu), room, "…");
        columns.push(("MODEL", column(list, short, |_, _| String::new())));
    }
    let header: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let count = columns.first().map_or(0, |(_, cells)| cells.len());
    let cell = |row: usize| columns.iter().map(move |(_, cells)| cells.get(row).cloned().unwrap_or_default());
    let rows = (0..count).map(|row| cell(row).collect()).collect();
    table::write(out, style, &header, &["NVML", "HIP", "ROCM-SMI", "SLURM", "NUMA"], rows, Last::Runs)
}

/// The columns that say something.
fn columns(list: &[&Gpu], uuid: usize) -> Vec<(&'static str, Vec<String>)> {
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mut columns = vec![
        (
            "NODE",
            column(
                list,
                |gpu| name(&gpu.key, list_of(gpu)),
                |gpu, mig| format!("  {}/{}", name(&gpu.key, list_of(gpu)), instance(mig)),
            ),
        ),
        ("NUMBER", column(list, gate_number, |_, mig| capability(mig))),
        ("NVML", column(list, |gpu| number(gpu.nvml_index), |_, _| String::new())),
    ];
    if list.iter().any(|gpu| gpu.hip_index.is_some()) {
        columns.push(("HIP", column(list, |gpu| number(gpu.hip_index), |_, _| String::new())));
        columns.push(("ROCM-SMI", column(list, |gpu| number(gpu.rocm_smi_index), |_, _| String::new())));
    }
    if list.iter().any(|gpu| gpu.slurm_index.is_some()) {
        columns.push(("SLURM", column(list, |gpu| number(gpu.slurm_index), |_, _| String::new())));
    }
    let text =
        |text: Option<&str>, max| text.map_or_else(|| "-".to_owned(), |text| sanitize::short(text, max, "…"));
    columns.push(("PCI", column(list, |gpu| text(gpu.pci.as_deref(), 16), |_, _| String::new())));
    if list.iter().any(|gpu| gpu.numa_node.is_some()) {
        columns.push(("NUMA", column(list, |gpu| number(gpu.numa_node), |_, _| String::new())));
    }
    let of_instance = |_: &Gpu, mig: &MigInstance| {
        mig.uuid.as_deref().map_or_else(String::new, |name| sanitize::short(name, uuid, "…"))
    };
    columns.push(("UUID", column(list, |gpu| text(gpu.uuid.as_deref(), uuid), of_instance)));
    columns
}

/// The model alone: that it is split is seen by its instances.
fn inventory_model(gpu: &Gpu) -> String {
    let model = gpu.model.clone().unwrap_or_else(|| gpu.vendor.to_string());
    if gpu.excluded { format!("{model} (excluded)") } else { model }
}

fn column(
    list: &[&Gpu],
    of_gpu: impl Fn(&Gpu) -> String,
    of_instance: impl Fn(&Gpu, &MigInstance) -> String,
) -> Vec<String> {
    let mut cells = Vec::new();
    for gpu in list {
        cells.push(of_gpu(gpu));
        cells.extend(gpu.mig.iter().map(|mig| of_instance(gpu, mig)));
    }
    cells
}

fn list_of(gpu: &Gpu) -> &[Gpu] {
    std::slice::from_ref(gpu)
}

fn gate_number(gpu: &Gpu) -> String {
    let number = gpu.major.zip(gpu.minor).map(|(major, minor)| format!("{major}:{minor}"));
    number.unwrap_or_else(|| "-".to_owned())
}

/// GPU instance and compute instance: `1/0`.
fn instance(mig: &MigInstance) -> String {
    mig.ci.map_or_else(|| mig.gi.to_string(), |ci| format!("{}/{ci}", mig.gi))
}

/// The names of GPUs, instances and shared nodes.
pub(super) fn device_names(devices: &DevicesEvent, denied: &[GpuKey], gpus: &[Gpu]) -> Vec<String> {
    let names = held_names(&devices.held, &devices.held_instances, denied, gpus);
    let shared = devices.held_shared.iter().map(|role| sanitize::text(&role.to_string()).into_owned());
    std::iter::once(names).chain(shared).filter(|name| !name.is_empty() && name != "-").collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::GpuNode;

    fn gpu(key: &str, path: &str) -> Gpu {
        let node = GpuNode { path: path.to_owned(), gate: true, ..GpuNode::default() };
        Gpu { key: key.into(), nodes: vec![node], ..Gpu::default() }
    }

    fn verdict(gpu: &str, verdict: Verdict) -> GpuVerdict {
        GpuVerdict { gpu: gpu.into(), verdict, ..GpuVerdict::default() }
    }

    /// Make sure that runs fold, vendors stay apart and unknown shows.
    #[test]
    fn compact_list() {
        let gpus: Vec<Gpu> = [("a", "nvidia0"), ("b", "nvidia1"), ("c", "nvidia5"), ("d", "dri/renderD128")]
            .map(|(key, node)| gpu(key, &format!("/dev/{node}")))
            .into();
        let all = ["a", "b", "c", "d"].map(|key| verdict(key, Verdict::Allow));
        assert_eq!(compact(&all, &gpus), "4/4 nvidia0-1,5 renderD128");
        assert_eq!(compact(&[verdict("a", Verdict::Deny)], &gpus), "0/1");
        let mixed = [
            verdict("a", Verdict::Allow),
            verdict("b", Verdict::Unknown),
            verdict("0000:1b:00.0", Verdict::Allow),
        ];
        assert_eq!(compact(&mixed, &gpus), "2-3/3 nvidia0 0000:1b:00.0 unknown: nvidia1");
        assert_eq!(tally(&mixed), "2 of 3 allowed, 1 unknown");
        let unknown = [verdict("a", Verdict::Unknown), verdict("b", Verdict::Unknown)];
        assert_eq!(compact(&unknown, &gpus), "?/2 unknown: nvidia0-1");
        assert_eq!(tally(&unknown), "unknown which of 2 are allowed");
        assert_eq!(tally(&[verdict("a", Verdict::Deny)]), "0 of 1 allowed");
        assert_eq!(compact(&[], &gpus), "-");
    }
}

#[cfg(test)]
mod inventory_tests {
    use super::*;

    /// Make sure that what could not be read is not said to be none.
    #[test]
    fn no_gpus() {
        assert_eq!(none(false), "This node has no GPU");
        assert!(none(true).ends_with("is not known"));
    }
}
