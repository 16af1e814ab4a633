//! The matrix of owners and GPUs, and the four marks of a cell: a diamond for allocated, a
//! tick for allowed, a ring for asked for, a dot for held.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::beside::{Beside, Facts};
use super::super::{owner, sanitize};
use super::text;
use super::text::View;
use crate::model::{CellState, JobIdSource, Membership};
use crate::report::{Gpu, MatrixCell, OwnerSets, PageCell, PageColumn, PageRow};

/// The words of the four sets.
const SETS: [(&str, &str); 4] = [
    ("allocated", "the scheduler gave it"),
    ("allowed", "the device programs let it open it"),
    ("asks for", "its environment names it"),
    ("holds", "it has it open"),
];

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    html! {
        section #matrix aria-labelledby="matrix-title" {
            div.title {
                h2 #matrix-title { "Who may use which GPU" }
                p.muted { "A cell leads to the programs that decide, and from there to the instruction." }
            }
            (legend(view))
            @if view.page.rows.is_empty() {
                p.empty {
                    @if view.page.document.complete { "No job, container or virtual machine is here, and nobody is seen to hold a GPU." }
                    @else { "No job, container or virtual machine was seen, and nobody who holds a GPU; but not all could be seen." }
                }
            } @else {
                div.tools {
                    label.filter { span { "Filter owners" } input type="search" data-filter="matrix" placeholder="4711, alice, extern …" autocomplete="off"; }
                    label.check { input #only-jobs type="checkbox"; "Hide steps and tasks" }
                    label.check { input #only-conflicts type="checkbox"; "Only contradictions and findings" }
                    span.shown role="status" data-shown="matrix" {}
                }
                div.scroll tabindex="0" role="group" aria-label="Matrix of owners and GPUs" { (table(view)) }
            }
        }
    }
}

fn legend(view: &View<'_>) -> Markup {
    let is_in = |place| single(place, Membership::Yes);
    let is_allocation_known = is_allocation_known(view);
    let mut cells = view.page.rows.iter().flat_map(|row| &row.cells);
    let is_claimed = cells.any(|cell| cell.sets.allocated == Membership::Claimed);
    html! {
        ul.legend {
            @for (place, (word, meaning)) in SETS.into_iter().enumerate() {
                @if place > 0 || is_allocation_known { li { (is_in(place)) b { (word) } span.muted { (meaning) } } }
                @if place == 0 && is_claimed {
                    li { (single(0, Membership::Claimed)) b { "claimed" } span.muted { "its own environment alone says so" } }
                }
            }
            li { (single(1, Membership::No)) b { "denied" } }
            li { (single(2, Membership::No)) b { "no" } }
            li { (single(0, Membership::Unknown)) b { "not known" } }
            @if !is_allocation_known { li { span.muted { "Nothing says what was allocated: see Not known." } } }
        }
    }
}

fn table(view: &View<'_>) -> Markup {
    html! {
        table.matrix {
            thead { tr {
                th scope="col" { "Owner" }
                th scope="col" { (Beside::User.heading()) }
                @for column in &view.page.columns { (heading(view, column)) }
                th.number scope="col" { (Beside::Processes.heading()) }
                @if is_counted(view) { @for one in WORK { th.number scope="col" { (one.heading()) } } }
            } }
            tbody { @for row in &view.page.rows { (self::row(view, row)) } }
        }
    }
}

/// The name of a GPU with its other numbers, which people know it by.
fn heading(view: &View<'_>, column: &PageColumn) -> Markup {
    let gpu = view.gpus.get(column.gpu).filter(|_| column.instance.is_none());
    html! {
        th.gpu.part[column.instance.is_some()] scope="col" {
            span.name { bdi { (text::column(view, column)) } }
            @if let Some(gpu) = gpu { span.numbers { (numbers(gpu)) } }
            @if column.instance.is_some() { span.numbers { "MIG instance" } }
        }
    }
}

fn numbers(gpu: &Gpu) -> String {
    let nvml = gpu.nvml_index.map(|index| format!("NVML {index}"));
    let slurm = gpu.slurm_index.map(|index| format!("Slurm {index}"));
    let pci = gpu.pci.as_deref().map(|pci| sanitize::short(pci, 16, "…"));
    let known: Vec<String> = [nvml, slurm].into_iter().flatten().collect();
    if known.is_empty() { pci.unwrap_or_default() } else { known.join(" · ") }
}

fn row(view: &View<'_>, row: &PageRow) -> Markup {
    let Some(sets) = view.owners.get(row.owner) else { return html! {} };
    let has_conflict = row.cells.iter().any(|cell| cell.sets.is_wrong());
    let users = sanitize::short(&sets.users.join(" "), 24, "…");
    let facts = Facts::of_owner(sets, row.activity.as_ref());
    html! {
        tr id={ "o" (row.owner) } class={ "d" (sets.depth.min(3)) @if has_conflict { " conflict" } } {
            th scope="row" { (owner_cell(sets)) }
            td.user { bdi { (users) } }
            @for (place, cell) in row.cells.iter().enumerate() { (self::cell(cell, place)) }
            td.number { (Beside::Processes.text(&facts)) }
            @if is_counted(view) {
                @for one in WORK { td.number { @if row.activity.is_some() { (one.text(&facts)) } } }
            }
        }
    }
}

/// Whether calls are counted of an owner here.
fn is_counted(view: &View<'_>) -> bool {
    view.page.rows.iter().any(|row| row.activity.is_some())
}

/// What an owner does. Its parts have no numbers of their own.
const WORK: [Beside; 3] = [Beside::Launches, Beside::Memory, Beside::Idle];

fn owner_cell(sets: &OwnerSets) -> Markup {
    let is_fake = sets.owner.job_id_source == Some(JobIdSource::Environment);
    html! {
        bdi { (owner::label_as_squeue(&sets.owner, sets.depth, sets.squeue_name()).trim_start()) }
        @if is_fake { span.muted.small { "number by its own environment alone" } }
    }
}

fn cell(cell: &PageCell, place: usize) -> Markup {
    let words = words(&cell.sets);
    let symbol = format!("#{}", symbol(&cell.sets));
    let picture = html! { svg { use href=(symbol) {} } };
    html! {
        td class=[cell.sets.is_wrong().then_some("x")] {
            @if let Some(stack) = cell.stack {
                a href={ "#s" (stack) "-" (place) } aria-label=(words) { (picture) }
            } @else {
                span role="img" aria-label=(words) { (picture) }
            }
        }
    }
}

/// The cell in words, for those who cannot see it and for the tip. That it is not asked
/// for or not held is not said.
fn words(cell: &MatrixCell) -> String {
    let allocated = match cell.allocated {
        Membership::Yes => "allocated",
        Membership::Claimed => "allocated, by its own claim",
        Membership::No => "not allocated",
        Membership::Unknown => "allocation not known",
    };
    let allowed = word(cell.allowed, ["allowed", "denied", "allowed: not known"]);
    let asked = word(cell.asked, ["asks for it", "", "asks: not known"]);
    let held = word(cell.held, ["holds it", "", "holds: not known"]);
    let told = [allocated, allowed, asked, held].into_iter().filter(|word| !word.is_empty());
    let mut words = told.collect::<Vec<_>>().join("; ");
    if let Some(contradiction) = contradiction(cell.state) {
        words.push_str(". Contradiction: ");
        words.push_str(contradiction);
    } else if cell.is_wrong() {
        words.push_str(". A finding is about it");
    }
    words
}

fn word(is_in: Membership, [yes, no, unknown]: [&'static str; 3]) -> &'static str {
    match is_in {
        Membership::Yes => yes,
        Membership::No => no,
        Membership::Unknown | Membership::Claimed => unknown,
    }
}

fn contradiction(state: CellState) -> Option<&'static str> {
    match state {
        CellState::HeldDenied => Some("held although its rules deny it now"),
        CellState::BeyondHeld => Some("held and not allocated"),
        CellState::Beyond => Some("may be opened and was not allocated"),
        CellState::Lost => Some("allocated and denied"),
        _ => None,
    }
}

/// The id of the symbol for a cell: a letter for each set.
pub(super) fn symbol(cell: &MatrixCell) -> String {
    let letter = |is_in: Membership| match is_in {
        Membership::Yes => 'i',
        Membership::No => 'o',
        Membership::Unknown => 'u',
        Membership::Claimed => 'c',
    };
    ['m'].into_iter().chain(marks(cell).map(letter)).collect()
}

fn marks(cell: &MatrixCell) -> [Membership; 4] {
    [cell.allocated, cell.allowed, cell.asked, cell.held]
}

/// Whether somebody says of a cell whether it was allocated: where nobody does, the page
/// has no mark for that.
fn is_allocation_known(view: &View<'_>) -> bool {
    let mut cells = view.page.rows.iter().flat_map(|row| &row.cells);
    cells.any(|cell| cell.sets.allocated != Membership::Unknown)
}

/// Every symbol that the page refers to.
pub(super) fn symbols(view: &View<'_>) -> Markup {
    let cells = view.page.rows.iter().flat_map(|row| &row.cells).map(|cell| &cell.sets);
    let is_allocation_known = is_allocation_known(view);
    let used: BTreeMap<String, [Membership; 4]> = cells.map(|cell| (symbol(cell), marks(cell))).collect();
    html! {
        svg.defs aria-hidden="true" width="0" height="0" {
            @for (id, marks) in &used {
                symbol id=(id) viewBox="0 0 72 18" {
                    @for (place, one) in marks.iter().enumerate() {
                    @if place > 0 || is_allocation_known { (mark(place, *one)) }
                }
                }
            }
        }
    }
}

/// One mark by itself, for the legend.
pub(super) fn single(place: usize, is_in: Membership) -> Markup {
    let view = format!("{} 0 18 18", place * 18);
    html! { svg.mark viewBox=(view) aria-hidden="true" { (mark(place, is_in)) } }
}

fn mark(place: usize, is_in: Membership) -> Markup {
    let x = place * 18 + 9;
    match (is_in, place) {
        (Membership::Claimed, _) => html! { path.kc d="M9 3.5l5.5 5.5-5.5 5.5-5.5-5.5z" {} },
        (Membership::Unknown, _) => html! { text.ku x=(x) y="13" text-anchor="middle" { "?" } },
        (Membership::Yes, 0) => html! { path.ka d="M9 3.5l5.5 5.5-5.5 5.5-5.5-5.5z" {} },
        (Membership::Yes, 1) => html! { path.kl d="M21.5 9.5l3.5 4 7-9" {} },
        (Membership::Yes, 2) => html! { circle.kv cx=(x) cy="9" r="5" {} },
        (Membership::Yes, _) => html! { circle.kh cx=(x) cy="9" r="6" {} },
        (Membership::No, 1) => html! { path.kd d="M24 6l6 6m0-6l-6 6" {} },
        (Membership::No, _) => html! { path.ko d={ "M" (x - 3) " 9h6" } {} },
    }
}
