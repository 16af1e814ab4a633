//! GPUs: the table of one cgroup, the compact list of a summary row, the node's inventory
//! with a column for each numbering, and short names (`nvidia0`, `nvidia0/1/0`).

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use super::table::{Last, Table, or_dash};
use super::{Style, names, sanitize, wrap};
use crate::model::{GpuKey, RequestSet, Verdict};
use crate::report::{DevicesEvent, Gpu, GpuNode, GpuVerdict, InstanceVerdict, MigInstance};

/// Prints one row per GPU, verdict first.
pub(super) fn write(
    out: &mut dyn Write,
    style: Style,
    verdicts: &[GpuVerdict],
    gpus: &[Gpu],
) -> io::Result<()> {
    let has_slurm = gpus.iter().any(|gpu| gpu.slurm_index.is_some());
    let rows: Vec<Row<'_>> = verdicts.iter().flat_map(|verdict| rows(verdict, gpus)).collect();
    // An instance has its name, its capability nodes and its verdict.
    let whole = |text: fn(&Whole<'_>) -> String| {
        move |row: &Row<'_>| match row {
            Row::Gpu(gpu) => text(gpu),
            Row::Instance(..) => String::new(),
        }
    };
    Table::of(&rows)
        .text("VERDICT", |row| match row {
            Row::Gpu(gpu) => gpu.verdict.verdict.to_string(),
            Row::Instance(part, _) => part.verdict.to_string(),
        })
        .text("NODE", |row| match row {
            Row::Gpu(gpu) => sanitize::text(gpu.node()).into_owned(),
            Row::Instance(part, _) => format!("  {}", instance_name(&part.instance, gpus)),
        })
        .text("NUMBER", |row| match row {
            Row::Gpu(gpu) => number(gpu.verdict.major.zip(gpu.verdict.minor)),
            Row::Instance(_, mig) => capability(mig),
        })
        .number("NVML", whole(|gpu| index(gpu.known.and_then(|gpu| gpu.nvml_index))))
        .number("SLURM", whole(|gpu| index(gpu.known.and_then(|gpu| gpu.slurm_index))))
        .only_if(has_slurm)
        .text("PCI", whole(|gpu| text(gpu.known.and_then(|gpu| gpu.pci.as_deref()), usize::MAX)))
        .text(
            "REQUESTS",
            whole(|gpu| text(Some(&*gpu.verdict.requests).filter(|text| !text.is_empty()), usize::MAX)),
        )
        .only_if(!verdicts.iter().all(says_all))
        .text("MODEL", whole(|gpu| sanitize::text(&gpu.known.map(model).unwrap_or_default()).into_owned()))
        .write(out, style, Last::Wraps)?;
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
/// A GPU of a cgroup's table, or below it a MIG instance.
enum Row<'a> {
    Gpu(Whole<'a>),
    Instance(&'a InstanceVerdict, &'a MigInstance),
}

/// A GPU's verdict, and what the inventory knows of it.
struct Whole<'a> {
    verdict: &'a GpuVerdict,
    known: Option<&'a Gpu>,
}

impl Whole<'_> {
    fn node(&self) -> &str {
        self.known.and_then(gate).map_or(self.verdict.gpu.as_str(), |node| &node.path)
    }
}

fn rows<'a>(verdict: &'a GpuVerdict, gpus: &'a [Gpu]) -> impl Iterator<Item = Row<'a>> {
    let known = find(&verdict.gpu, gpus);
    let mig = known.map(|gpu| gpu.mig.as_slice()).unwrap_or_default();
    let instances = verdict.instances.iter().zip(mig).map(|(part, mig)| Row::Instance(part, mig));
    std::iter::once(Row::Gpu(Whole { verdict, known })).chain(instances)
}

fn number(number: Option<(u32, u32)>) -> String {
    or_dash(number.map(|(major, minor)| format!("{major}:{minor}")))
}

fn index(index: Option<u32>) -> String {
    or_dash(index.map(|index| index.to_string()))
}

fn text(text: Option<&str>, max: usize) -> String {
    or_dash(text.map(|text| sanitize::short(text, max, "…")))
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

/// The same as the heading of a list.
pub(super) fn none_in_list(gpus_unread: bool) -> &'static str {
    match gpus_unread {
        false => "GPUs: none on this node",
        true => "GPUs: none was seen, and whether this node has one is not known",
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
    let rows: Vec<Listed<'_>> = list.iter().flat_map(|gpu| listed(gpu)).collect();
    let mut table = columns(&rows, usize::MAX);
    if !style.all && table.width() > usize::from(style.width) {
        table = columns(&rows, UUID);
    }
    let room = usize::from(style.width).saturating_sub(table.width() + 2);
    let room = if style.all { usize::MAX } else { room.max(MODEL) };
    let model = |gpu: &Gpu| sanitize::short(&inventory_model(gpu), room, "…");
    table.text("MODEL", whole(model)).only_if(same.is_none()).write(out, style, Last::Runs)
}

/// A GPU of the inventory, or below it one of its MIG instances.
type Listed<'a> = (&'a Gpu, Option<&'a MigInstance>);

fn listed(gpu: &Gpu) -> impl Iterator<Item = Listed<'_>> {
    std::iter::once((gpu, None)).chain(gpu.mig.iter().map(move |mig| (gpu, Some(mig))))
}

/// What a column says of a GPU; of an instance it says nothing.
fn whole<'a>(text: impl Fn(&Gpu) -> String + 'a) -> impl Fn(&Listed<'_>) -> String + 'a {
    move |(gpu, instance)| if instance.is_none() { text(gpu) } else { String::new() }
}

/// The columns that say something, without the model.
fn columns<'a>(rows: &'a [Listed<'a>], uuid: usize) -> Table<'a, Listed<'a>> {
    let any = |known: fn(&Gpu) -> bool| rows.iter().any(|(gpu, _)| known(gpu));
    let is_amd = any(|gpu| gpu.hip_index.is_some());
    Table::of(rows)
        .text("NODE", |(gpu, instance)| {
            let name = name(&gpu.key, std::slice::from_ref(*gpu));
            instance.map_or_else(|| name.clone(), |mig| format!("  {name}/{}", self::instance(mig)))
        })
        .text("NUMBER", |(gpu, instance)| match instance {
            Some(mig) => capability(mig),
            None => number(gpu.major.zip(gpu.minor)),
        })
        .number("NVML", whole(|gpu| index(gpu.nvml_index)))
        .number("HIP", whole(|gpu| index(gpu.hip_index)))
        .only_if(is_amd)
        .number("ROCM-SMI", whole(|gpu| index(gpu.rocm_smi_index)))
        .only_if(is_amd)
        .number("SLURM", whole(|gpu| index(gpu.slurm_index)))
        .only_if(any(|gpu| gpu.slurm_index.is_some()))
        .text("PCI", whole(|gpu| text(gpu.pci.as_deref(), 16)))
        .number("NUMA", whole(|gpu| index(gpu.numa_node)))
        .only_if(any(|gpu| gpu.numa_node.is_some()))
        .text("UUID", |(gpu, instance)| match instance {
            Some(mig) => {
                mig.uuid.as_deref().map_or_else(String::new, |name| sanitize::short(name, uuid, "…"))
            }
            None => text(gpu.uuid.as_deref(), uuid),
        })
}

/// The model alone: that it is split is seen by its instances.
fn inventory_model(gpu: &Gpu) -> String {
    let model = gpu.model.clone().unwrap_or_else(|| gpu.vendor.to_string());
    if gpu.excluded { format!("{model} (excluded)") } else { model }
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
