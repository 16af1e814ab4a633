//! The section of each node: its findings, who has what there, what was not known; and sets
//! of nodes, with links to the sections of those that have one.

use std::collections::HashMap;

use maud::{Markup, html};

use super::super::super::matrix::Glyph;
use super::super::super::names::counted;
use super::super::super::sanitize;
use super::super::text;
use crate::model::Severity;
use crate::report::{
    FleetNode, FleetNodeFinding, FleetOwner, FleetOwners, FleetPage, FleetSet, GpuNumbers, NodeSet,
};

/// All sections.
pub(super) fn section(page: &FleetPage) -> Markup {
    html! {
        section #nodes aria-labelledby="nodes-title" {
            div.title { h2 #nodes-title { "Nodes" } p.muted { "What each node said. Those with the worst findings stand first." } }
            @if page.nodes.is_empty() { p.empty { "No node answered." } }
            @else {
                div.tools {
                    label.filter { span { "Filter nodes" } input type="search" data-filter="nodes" data-rows="details.node" placeholder="gpu01, 4711, finding …" autocomplete="off"; }
                    span.shown role="status" data-shown="nodes" {}
                }
                @for (place, node) in page.nodes.iter().enumerate() { (self::node(place, node)) }
            }
        }
    }
}

fn node(place: usize, node: &FleetNode) -> Markup {
    html! {
        details.node {
            summary {
                span.question { (text::name(&node.name)) }
                (marks(node))
                @if let Some(gpus) = property(node, "gpus") { span.by { (text::name(gpus)) } }
            }
            div.inside id={ "n" (place) } tabindex="-1" {
                dl.properties {
                    dt { "Observed" } dd { @for (at, time) in node.taken_at.iter().enumerate() { @if at > 0 { ", " } (text::name(time.as_str())) } }
                    @for (what, value) in &node.properties { dt { (text::name(what)) } dd { (text::sentence(value)) } }
                }
                (findings(node))
                (owners(node))
                (unknown(node))
                (text::cuts(&node.cuts))
            }
        }
    }
}

fn property<'a>(node: &'a FleetNode, name: &str) -> Option<&'a str> {
    node.properties.iter().find(|(what, _)| what == name).map(|(_, value)| value.as_str())
}

/// What stands out.
fn marks(node: &FleetNode) -> Markup {
    html! {
        @for (severity, count) in &node.counts { span class={ "pill " (severity) } {
            span aria-hidden="true" { (text::severity_glyph(*severity)) " " }
            @match severity {
                Severity::Critical => { (count) " critical" },
                Severity::Warning => (counted(*count, "warning")),
                Severity::Note => (counted(*count, "note")),
            }
        } }
        @if node.findings.is_none() { span.pill { "not audited" } }
        @else if node.counts.is_empty() { span.pill.allow { "nothing found" } }
        @if !node.complete { span.pill.unknown { "? incomplete" } }
    }
}

fn findings(node: &FleetNode) -> Markup {
    let found = node.findings.as_deref().unwrap_or_default();
    html! {
        @if !found.is_empty() {
            h3 { "Findings" }
            ul.reasons { @for one in found { (finding(one)) } }
        }
    }
}

fn finding(one: &FleetNodeFinding) -> Markup {
    html! {
        li {
            (text::severity(one.severity)) " " code.id { (text::name(&one.id)) } " "
            @if let Some(why) = &one.accepted { span.pill { "accepted" } " " span.muted { (text::sentence(why)) } " " }
            (text::brief(&one.summary))
            @if let Some(path) = &one.cgroup { span.small.muted { (text::path(path, None)) } }
            @if !one.advice.is_empty() && one.accepted.is_none() { span.small { (text::sentence(&one.advice)) } }
        }
    }
}

fn owners(node: &FleetNode) -> Markup {
    let Some(owners) = &node.owners else {
        return html! { h3 { "Who has what" } p.muted { "There is an audit of this node alone, which does not say." } };
    };
    html! {
        h3 { "Who has what" }
        @if owners.rows.is_empty() && node.cuts.is_empty() { p.muted { "No job, container or virtual machine was there, and nobody was seen to hold a GPU." } }
        @if !owners.rows.is_empty() {
            p.small.muted { (numbers(owners)) }
            div.scroll tabindex="0" role="group" aria-label="Owners of this node" {
                table.owners {
                    thead { tr { @for title in ["Owner", "Allocated", "Allowed", "Asks for", "Holds"] { th scope="col" { (title) } } th.number scope="col" { "Processes" } } }
                    tbody { @for row in &owners.rows { (self::row(row)) } }
                }
            }
        }
    }
}

fn numbers(owners: &FleetOwners) -> &'static str {
    match owners.numbers {
        GpuNumbers::Nvml => {
            "GPUs by their NVML index, as nvidia-smi numbers them; GPU/GI/CI is a MIG instance."
        }
        GpuNumbers::Minor => "GPUs by the minor number of their device node; GPU/GI/CI is a MIG instance.",
        GpuNumbers::Place => "GPUs by their place in the node's list, from 0; GPU/GI/CI is a MIG instance.",
    }
}

fn row(row: &FleetOwner) -> Markup {
    html! {
        tr class={ "d" (row.depth.min(3)) } {
            th scope="row" {
                (text::name(&row.name))
                @for (state, gpus) in &row.contradictions { span.u.small { (gpus) ": " (Glyph::of(*state).meaning) } }
            }
            @for one in [&row.allocated, &row.allowed, &row.asked, &row.held] { td { (set(one)) } }
            td.number { (row.processes) }
        }
    }
}

fn set(set: &FleetSet) -> Markup {
    html! {
        @match set.gpus.as_deref() {
            None => span.u { "not known" },
            Some("") if set.maybe.is_empty() => span.none { "none" },
            Some(gpus) => {
                (gpus)
                @if set.claimed { span.muted { " (claimed)" } }
                @if !set.maybe.is_empty() { span.u { " " (set.maybe) " not known" } }
            },
        }
    }
}

fn unknown(node: &FleetNode) -> Markup {
    html! {
        @if !node.problems.is_empty() {
            h3 { "Not known" }
            ul.reasons { @for one in &node.problems { li {
                code.id { (text::name(&one.code)) } " " (text::sentence(&one.example))
                @if one.count > 1 { span.muted { " and " (one.count - 1) " more" } }
            } } }
        }
    }
}

/// Characters of a host list that are shown before it is folded, and at most.
const LIST: usize = 80;
const WHOLE: usize = 20_000;

/// Where the sections of nodes are.
pub(super) struct Sections<'a>(HashMap<&'a str, usize>);

impl<'a> Sections<'a> {
    pub(super) fn of(page: &'a FleetPage) -> Self {
        Self(page.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect())
    }

    /// The name of a node, which leads to its section.
    pub(super) fn node(&self, name: &str) -> Markup {
        html! {
            @match self.0.get(name) {
                Some(place) => a href={ "#n" (place) } { (text::name(name)) },
                None => (text::name(name)),
            }
        }
    }

    /// Nodes: few of them one by one, others as a host list, a long one folded.
    pub(super) fn set(&self, set: &NodeSet) -> Markup {
        let is_short = set.nodes.chars().take(LIST + 1).count() <= LIST;
        let rest = set.count.saturating_sub(set.first.len());
        html! {
            @if rest == 0 { (self.names(&set.first)) @if set.count > 2 { span.muted { " (" (set.count) " nodes)" } } }
            @else {
                @if is_short { bdi { (sanitize::short(&set.nodes, LIST, "…")) } span.muted { " (" (set.count) " nodes)" } }
                @else { details.more { summary { (set.count) " nodes" } p { bdi { (sanitize::short(&set.nodes, WHOLE, "…")) } } } }
                " " span.muted { "such as " } (self.names(&set.first))
            }
        }
    }

    fn names(&self, names: &[String]) -> Markup {
        html! { @for (at, name) in names.iter().enumerate() { @if at > 0 { ", " } (self.node(name)) } }
    }
}
