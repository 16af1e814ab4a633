//! The top of the page (the node, the sections, what stands out), its foot, and findings by
//! severity, with the evidence.

use maud::{Markup, html};

use super::super::names::counted;
use super::super::{audit, owner};
use super::text;
use super::text::View;
use crate::model::Time;
use crate::report::{Decision, Finding};

/// Entries of a kind that are shown of one finding.
const SHOWN: usize = 12;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    let remarks = &view.page.audit.remarks;
    html! {
        section #findings aria-labelledby="findings-title" {
            div.title { h2 #findings-title { "Findings" } p.muted { "Where GPUs are not isolated as they should be." } }
            @if view.findings.is_empty() {
                @if view.page.document.complete { p.empty { span.ok aria-hidden="true" { "✓ " } "Nothing was found." } }
                @else { p.empty { "Nothing was found, but not everything could be seen." } }
            }
            @for (number, finding) in view.findings.iter().enumerate() { (card(view, number, finding)) }
            @for remark in remarks { p.muted { "Remark: " (text::sentence(remark)) "." } }
        }
    }
}

fn card(view: &View<'_>, number: usize, found: &Finding) -> Markup {
    html! {
        article id={ "f" (number) } class={ "finding " (found.severity) } {
            header {
                (text::severity(found.severity))
                code.id { (text::name(&found.id)) }
                @if found.ignored.is_some() { span.pill { "accepted" } }
            }
            h3 { (text::brief(&found.summary)) }
            @if let Some(why) = &found.ignored { p { "Accepted by the configuration: " (text::sentence(why)) } }
            dl {
                (place(view, number, found))
                (list("With", found.others.iter().map(|other| html! { (text::sentence(&owner::full(other))) })))
                (list("Device", found.devices.iter().map(|device| text::sentence(&audit::device(device)))))
                (list("Process", found.processes.iter().map(|process| text::sentence(&audit::process(process)))))
                (list("Because", found.evidence.iter().map(|text| text::brief(text))))
                (list("Decided", found.programs.iter().map(decision)))
                (list("Ruled out", found.excuses.iter().map(|text| text::brief(text))))
                @if found.confidence != crate::model::Confidence::Certain { dt { "Certainty" } dd { (found.confidence) } }
                @if !found.advice.is_empty() { dt { "Do" } dd.do { (text::sentence(&found.advice)) } }
                @if let Some(command) = &found.command { dt { "Run" } dd { pre { code { (text::sentence(command)) } } } }
            }
        }
    }
}

fn place(view: &View<'_>, number: usize, found: &Finding) -> Markup {
    let Some(path) = &found.cgroup else { return html! {} };
    html! {
        dt { "Where" }
        dd {
            @if let Some(owner) = &found.owner { (text::sentence(&owner::full(owner))) ": " }
            @match view.page.finding_stacks.get(number).copied().flatten() {
                Some(stack) => a href={ "#s" (stack) } { (text::path(path, found.cgroup_hex.as_deref())) },
                None => (text::path(path, found.cgroup_hex.as_deref())),
            }
        }
    }
}

fn decision(decision: &Decision) -> Markup {
    html! {
        "program " (decision.id) " " (text::name(&decision.name))
        @if !decision.attached_at.is_empty() { " at " (text::path(&decision.attached_at, None)) }
        " returns " (decision.returns)
        @if let Some(at) = decision.decided_at { ", by instruction " (at) }
    }
}

fn list(name: &str, entries: impl Iterator<Item = Markup>) -> Markup {
    let entries: Vec<Markup> = entries.collect();
    html! {
        @if !entries.is_empty() {
            dt { (name) }
            @for entry in entries.iter().take(SHOWN) { dd { (entry) } }
            @if entries.len() > SHOWN { dd.muted { "and " (entries.len() - SHOWN) " more" } }
        }
    }
}

/// The node's name and when it was looked at.
pub(super) fn header(view: &View<'_>) -> Markup {
    let document = &view.page.document;
    let (critical, warnings) = (view.page.summary.findings.critical, view.page.summary.findings.warning);
    html! {
        header.top {
            div.wrap {
                p.brand { (mark()) "gpumap" span.muted { " · who may use which GPU, and why" } }
                h1 { bdi { (text::host(document)) } }
                p.facts {
                    span { "Observed " time datetime=(machine(&document.taken_at)) { (pretty(&document.taken_at)) } }
                    @if !document.host.kernel.is_empty() { span { "Linux " (text::name(&document.host.kernel)) } }
                    span { "gpumap " (text::name(&document.version)) }
                }
                p.chips {
                    @if critical > 0 { a.pill.critical href="#findings" { span aria-hidden="true" { "▲ " } (critical) " critical" } }
                    @if warnings > 0 { a.pill.warning href="#findings" { span aria-hidden="true" { "◆ " } (counted(warnings, "warning")) } }
                    @if critical + warnings == 0 { a.pill.allow href="#findings" { span aria-hidden="true" { "✓ " } "nothing found that needs attention" } }
                    @if document.complete {
                        a.pill.allow href="#unknown" { span aria-hidden="true" { "✓ " } "everything could be seen" }
                    } @else {
                        a.pill.unknown href="#unknown" { span aria-hidden="true" { "? " } "not everything could be seen" }
                    }
                }
            }
        }
    }
}

/// The sign of gpumap: lanes, of which one is stopped.
fn mark() -> Markup {
    html! {
        svg.logo viewBox="0 0 20 20" aria-hidden="true" {
            path.lane d="M3 2v16M17 2v16" {}
            path.stop d="M10 2v5M7.2 11l5.6 5.6m0-5.6l-5.6 5.6" {}
        }
    }
}

/// Time as `<time>` wants it; gpumap writes RFC 3339.
fn machine(time: &Time) -> String {
    super::super::sanitize::short(time.as_str(), 40, "")
}

/// `2026-11-21 09:17:03 UTC` for people.
fn pretty(time: &Time) -> String {
    let second = time.timestamp().map(|time| time.strftime("%F %T UTC").to_string());
    second.unwrap_or_else(|| machine(time))
}

/// Links to the sections, with how much each has.
pub(super) fn navigation(view: &View<'_>) -> Markup {
    let page = view.page;
    let policies = page.document.payload.policies.len();
    let sections = [
        ("findings", "Findings", view.findings.len()),
        ("matrix", "Matrix", page.rows.len()),
        ("levels", "Levels", page.stacks.len()),
        ("rules", "Rules", policies),
        ("proofs", "Proofs", page.proofs.len()),
        ("processes", "Processes", page.processes.len()),
        ("gpus", "GPUs", view.gpus.len()),
        ("unknown", "Not known", page.document.errors.len()),
    ];
    html! {
        nav.sections aria-label="Sections" {
            ul.wrap {
                @for (id, title, count) in sections {
                    li { a href={ "#" (id) } { (title) @if count > 0 { " " span.count { (count) } } } }
                }
                li { a href="#evidence" { "Evidence" } }
            }
        }
    }
}

/// Four numbers.
pub(super) fn tiles(view: &View<'_>) -> Markup {
    let summary = &view.page.summary;
    html! {
        dl.tiles {
            (tile("GPUs", summary.gpus, &format!("{} held open by somebody listed here", summary.held)))
            (tile("Owners", summary.owners, "jobs, containers and others with GPUs"))
            (tile("Contradictions", summary.contradictions, "cells of the matrix whose sets disagree, or that a finding is about"))
            (tile("Looked at", summary.cgroups, &format!("cgroups, and {}", counted(summary.processes, "process"))))
        }
    }
}

fn tile(title: &str, number: usize, note: &str) -> Markup {
    html! { div.tile { dt { (title) } dd { span.big { (number) } span.muted { (note) } } } }
}

/// How the page was made.
pub(super) fn footer(view: &View<'_>) -> Markup {
    html! {
        footer {
            div.wrap {
                p {
                    "Made by gpumap " (text::name(&view.page.document.version)) " from what the kernel said. "
                    "This file asks no network and needs no other file."
                }
            }
        }
    }
}
