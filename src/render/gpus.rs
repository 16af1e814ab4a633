//! GPUs: the table of one cgroup, and the compact list of a summary row.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::gpu_names::{self, find, gate, instance_name, name};
use super::table::{self, Last};
use super::{Style, names, sanitize};
use crate::model::{RequestSet, Verdict};
use crate::report::{Gpu, GpuVerdict};

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
        writeln!(out, "  {count} {} because {}", style.verdict(Verdict::Unknown), sanitize::text(why))
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
        let mut cells = vec![part.verdict.to_string(), node, gpu_names::capability(mig)];
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::GpuNode;

    fn gpu(key: &str, path: &str) -> Gpu {
        let node = GpuNode { path: path.to_owned(), gate: true, ..GpuNode::default() };
        Gpu { key: key.to_owned(), nodes: vec![node], ..Gpu::default() }
    }

    fn verdict(gpu: &str, verdict: Verdict) -> GpuVerdict {
        GpuVerdict { gpu: gpu.to_owned(), verdict, ..GpuVerdict::default() }
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
