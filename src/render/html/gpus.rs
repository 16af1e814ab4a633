//! The GPUs in all their numberings.

use maud::{Markup, html};

use super::super::counted::counted;
use super::super::{gpu_names, inventory, sanitize};
use super::text;
use super::view::View;
use crate::report::Gpu;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    html! {
        section #gpus aria-labelledby="gpus-title" {
            div.title { h2 #gpus-title { "GPUs" } p.muted { "Slurm, CUDA and nvidia-smi number them differently; the page calls them by their device nodes." } }
            @if view.gpus.is_empty() { p.empty { (inventory::none(&view.page.document.payload)) "." } }
            @else {
                div.scroll tabindex="0" role="group" aria-label="List of GPUs" {
                    table {
                        thead { tr { @for title in ["Node", "Number", "Model", "NVML", "Slurm", "PCI", "NUMA", "UUID"] { th scope="col" { (title) } } } }
                        tbody { @for gpu in view.gpus { (row(view, gpu)) } }
                    }
                }
            }
        }
    }
}

fn row(view: &View<'_>, gpu: &Gpu) -> Markup {
    let number = |number: Option<u32>| number.map_or_else(|| "–".to_owned(), |number| number.to_string());
    let device = gpu.major.zip(gpu.minor).map(|(major, minor)| format!("{major}:{minor}"));
    let model = gpu.model.clone().unwrap_or_else(|| gpu.vendor.to_string());
    html! {
        tr {
            th scope="row" { bdi { (gpu_names::name(&gpu.key, view.gpus)) } }
            td.number { (device.unwrap_or_else(|| "–".to_owned())) }
            td { (text::name(&model)) @if gpu.excluded { " (excluded)" } @if !gpu.mig.is_empty() { span.muted.small { (counted(gpu.mig.len(), "MIG instance")) } } }
            td.number { (number(gpu.nvml_index)) }
            td.number { (number(gpu.slurm_index)) }
            td { code { (gpu.pci.as_deref().map_or_else(|| "–".to_owned(), |pci| sanitize::short(pci, 20, "…"))) } }
            td.number { (number(gpu.numa_node)) }
            td { code.uuid { (gpu.uuid.as_deref().map_or_else(|| "–".to_owned(), |uuid| sanitize::short(uuid, 48, "…"))) } }
        }
    }
}
