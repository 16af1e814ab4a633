//! Findings by severity, with the evidence.

use maud::{Markup, html};

use super::super::{finding, owner};
use super::text;
use super::view::View;
use crate::report::{Decision, Finding};

/// Entries of a kind that are shown of one finding.
const SHOWN: usize = 12;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    let remarks = view.page.document.payload.audit.iter().flat_map(|audit| &audit.remarks);
    html! {
        section #findings aria-labelledby="findings-title" {
            div.title { h2 #findings-title { "Findings" } p.muted { "Where GPUs are not isolated as they should be." } }
            @if view.findings.is_empty() { p.empty { span.ok aria-hidden="true" { "✓ " } "Nothing was found." } }
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
                (list("Device", found.devices.iter().map(|device| text::sentence(&finding::device(device)))))
                (list("Process", found.processes.iter().map(|process| text::sentence(&finding::process(process)))))
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
