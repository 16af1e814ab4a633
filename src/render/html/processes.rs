//! The GPUs in all their numberings, and processes with the four sets.

use maud::{Markup, html};

use super::super::names::counted;
use super::super::{gpus, owner, process, sanitize};
use super::text;
use super::text::View;
use crate::report::{Gpu, OwnerSets, PageProcess, Process};

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    html! {
        section #processes aria-labelledby="processes-title" {
            div.title {
                h2 #processes-title { "Processes" }
                p.muted { "Allocated: to the job or container around it. Allowed: by the programs of its cgroup." }
            }
            @if view.page.processes.is_empty() { p.empty { @if view.page.document.complete { "No process of a job or container is here, and none is seen to hold a GPU." } @else { "No process of a job or container was seen, and none that holds a GPU; but not all could be seen." } } }
            @else {
                div.tools {
                    label.filter { span { "Filter processes" } input type="search" data-filter="processes" placeholder="pid, user, command …" autocomplete="off"; }
                    span.shown role="status" data-shown="processes" {}
                }
                div.scroll tabindex="0" role="group" aria-label="List of processes" { (table(view)) }
            }
        }
    }
}

fn table(view: &View<'_>) -> Markup {
    let is_known = |one: &PageProcess| outermost(view, one).is_some_and(|row| row.allocated.gpus.is_some());
    let has_allocation = view.page.processes.iter().any(is_known);
    html! {
        table.processes {
            thead { tr {
                @for title in ["PID", "User", "Command", "Owner"] { th scope="col" { (title) } }
                @if has_allocation { th scope="col" { "Allocated" } }
                @for title in ["Allowed", "Asks with", "Gets", "Holds"] { th scope="col" { (title) } }
            } }
            tbody { @for one in &view.page.processes { (row(view, one, has_allocation)) } }
        }
    }
}

/// The job or container that a process is in.
fn outermost<'v>(view: &View<'v>, one: &PageProcess) -> Option<&'v OwnerSets> {
    one.outermost.and_then(|place| view.owners.get(place))
}

fn row(view: &View<'_>, one: &PageProcess, has_allocation: bool) -> Markup {
    let cgroups = view.page.document.payload.cgroups.as_slice();
    let Some(found) = cgroups.get(one.cgroup).and_then(|cgroup| cgroup.processes.get(one.process)) else {
        return html! {};
    };
    let owner = one.owner.and_then(|place| view.owners.get(place));
    let outermost = outermost(view, one);
    let [asks, gets, holds] = sets(view, found);
    html! {
        tr {
            td.number { (found.pid) }
            td { bdi { (process::user(found, 20)) } }
            td { bdi { (process::command(found)) } @if let Some(age) = found.age_seconds { span.muted.small { (process::age(age)) " old" } } }
            td {
                @if let (Some(owner), Some(place)) = (owner, one.owner) { a href={ "#o" (place) } { bdi { (sanitize::short(&owner::full(&owner.owner), 60, "…")) } } }
                @else { (text::path(&found.cgroup, None)) }
            }
            @if has_allocation { td.g { @if let Some(row) = outermost { (text::set(view, &row.allocated)) } } }
            td.g { (text::keys(view, &one.allowed)) @if !one.unknown.is_empty() { span.u { " " (text::keys(view, &one.unknown)) " not known" } } }
            td.asks { code { bdi { (asks) } } @for note in process::notes_of(found) { span.muted.small { bdi { (sanitize::short(&note, 300, "…")) } } } }
            td.g { (gets) }
            td.g { (holds) }
        }
    }
}

fn sets(view: &View<'_>, found: &Process) -> [String; 3] {
    let words = |text: String| match text.as_str() {
        "-" => "none".to_owned(),
        "?" => "not known".to_owned(),
        _ => text,
    };
    let process::Details { asks, gpus } = process::details(found, view.gpus);
    [asks, words(gpus), words(process::held(found, view.gpus))]
}

/// The section.
pub(super) fn gpus_section(view: &View<'_>) -> Markup {
    let is_known = |column: &&GpuColumn| view.gpus.iter().any(|gpu| (column.text)(gpu).is_some());
    let known: Vec<&GpuColumn> = GPU_COLUMNS.iter().filter(is_known).collect();
    html! {
        section #gpus aria-labelledby="gpus-title" {
            div.title { h2 #gpus-title { "GPUs" } p.muted { "Slurm, CUDA and nvidia-smi number them differently; the page calls them by their device nodes." } }
            @if view.gpus.is_empty() { p.empty { (gpus::none(view.page.document.payload.gpus_unread)) "." } }
            @else {
                div.scroll tabindex="0" role="group" aria-label="List of GPUs" {
                    table {
                        thead { tr {
                            @for title in ["Node", "Number", "Model"] { th scope="col" { (title) } }
                            @for column in &known { th scope="col" { (column.title) } }
                        } }
                        tbody { @for gpu in view.gpus { (gpu_row(view, gpu, &known)) } }
                    }
                }
            }
        }
    }
}

/// A column that the list of GPUs has if it is known of one of them.
struct GpuColumn {
    title: &'static str,
    class: Option<&'static str>,
    text: fn(&Gpu) -> Option<String>,
}

static GPU_COLUMNS: [GpuColumn; 5] = [
    GpuColumn { title: "NVML", class: Some("number"), text: |gpu| number(gpu.nvml_index) },
    GpuColumn { title: "Slurm", class: Some("number"), text: |gpu| number(gpu.slurm_index) },
    GpuColumn {
        title: "PCI", class: None, text: |gpu| Some(sanitize::short(gpu.pci.as_deref()?, 20, "…"))
    },
    GpuColumn { title: "NUMA", class: Some("number"), text: |gpu| number(gpu.numa_node) },
    GpuColumn {
        title: "UUID",
        class: None,
        text: |gpu| Some(sanitize::short(gpu.uuid.as_deref()?, 48, "…")),
    },
];

fn number(number: Option<u32>) -> Option<String> {
    number.map(|number| number.to_string())
}

fn gpu_row(view: &View<'_>, gpu: &Gpu, known: &[&GpuColumn]) -> Markup {
    let device = gpu.major.zip(gpu.minor).map(|(major, minor)| format!("{major}:{minor}"));
    let model = gpu.model.clone().unwrap_or_else(|| gpu.vendor.to_string());
    html! {
        tr {
            th scope="row" { bdi { (gpus::name(&gpu.key, view.gpus)) } }
            td.number { (device.unwrap_or_else(|| "–".to_owned())) }
            td { (text::name(&model)) @if gpu.excluded { " (excluded)" } @if !gpu.mig.is_empty() { span.muted.small { (counted(gpu.mig.len(), "MIG instance")) } } }
            @for column in known {
                td class=[column.class] {
                    @let text = (column.text)(gpu).unwrap_or_else(|| "–".to_owned());
                    @if column.class.is_some() { (text) } @else { code.uuid[column.title == "UUID"] { (text) } }
                }
            }
        }
    }
}
