//! The page of `fleet`: many nodes on one page, from the whole down to the node.

mod node;

use std::io::{self, Write};

use maud::{Markup, html};

use super::super::names::counted;
use super::super::sanitize;
use super::text;
use crate::report::{Drift, Fleet, FleetFinding, FleetPage, FleetProblem, JobDifference};
use node::Sections;

/// Findings, jobs and values that are shown.
const SHOWN: usize = 500;

/// Writes the page.
///
/// # Errors
///
/// Those of `out`.
pub fn fleet_page(out: &mut dyn Write, page: &FleetPage, problems: &[String]) -> io::Result<()> {
    let (fleet, sections) = (&page.fleet, &Sections::of(page));
    let body = html! {
        (header(fleet))
        nav.sections aria-label="Sections" {
            ul.wrap {
                @for (id, title, count) in [
                    ("findings", "Findings", fleet.findings.len()),
                    ("jobs", "Jobs", fleet.jobs.differing.len()),
                    ("drift", "Differences", fleet.drift.iter().filter(|one| one.values.len() > 1).count()),
                    ("nodes", "Nodes", page.nodes.len()),
                    ("unknown", "Not known", fleet.problems.len()),
                ] { li { a href={ "#" (id) } { (title) @if count > 0 { " " span.count { (count) } } } } }
            }
        }
        main #main {
            (tiles(fleet))
            (findings(fleet, sections))
            (jobs(fleet, sections))
            (drift(fleet, sections))
            (node::section(page))
            (unknown(page, sections, problems))
        }
        footer { div.wrap { p { "Made by gpumap " (env!("CARGO_PKG_VERSION")) " from what it said on the nodes. This file asks no network and needs no other file." } } }
    };
    out.write_all(text::page("Fleet · gpumap", &body).into_string().as_bytes())
}

fn header(fleet: &Fleet) -> Markup {
    html! {
        header.top {
            div.wrap {
                p.brand { "gpumap" span.muted { " · who may use which GPU, on many nodes" } }
                h1 { (counted(fleet.nodes.answered.count, "node")) }
                p.facts {
                    span { bdi { (sanitize::short(&fleet.nodes.answered.nodes, 200, "…")) } }
                    @if let Some(times) = &fleet.times { span { "observed from " (text::name(times.first.as_str())) " to " (text::name(times.last.as_str())) } }
                }
                p.chips {
                    @if fleet.counts.critical > 0 { a.pill.critical href="#findings" { span aria-hidden="true" { "▲ " } (fleet.counts.critical) " critical" } }
                    @if fleet.counts.warning > 0 { a.pill.warning href="#findings" { span aria-hidden="true" { "◆ " } (counted(fleet.counts.warning, "warning")) } }
                    @if fleet.is_incomplete() { a.pill.unknown href="#unknown" { span aria-hidden="true" { "? " } "not everything could be seen" } }
                    @else { a.pill.allow href="#unknown" { span aria-hidden="true" { "✓ " } "everything could be seen" } }
                }
            }
        }
    }
}

fn tiles(fleet: &Fleet) -> Markup {
    let missing = fleet.nodes.missing.as_ref().map_or(0, |missing| missing.count);
    let tile = |title: &str, count: usize, note: &str| {
        html! { div.tile { dt { (title) } dd { span.big { (count) } span.muted { (note) } } } }
    };
    html! {
        dl.tiles {
            (tile("Nodes", fleet.nodes.answered.count, &format!("answered; {missing} did not")))
            (tile("Findings", fleet.counts.critical + fleet.counts.warning + fleet.counts.note, "on all nodes together"))
            (tile("Jobs", fleet.jobs.all, &format!("{} on several nodes", fleet.jobs.several)))
            (tile("Unlike jobs", fleet.jobs.differing.len(), "whose GPUs differ from node to node"))
        }
    }
}

fn findings(fleet: &Fleet, sections: &Sections<'_>) -> Markup {
    html! {
        section #findings aria-labelledby="findings-title" {
            div.title { h2 #findings-title { "Findings" } p.muted { "Those that are alike are one. A node's name leads to its section, " code { "gpumap audit" } " on it says more." } }
            @if fleet.findings.is_empty() { p.empty { "No finding." } }
            @for finding in fleet.findings.iter().take(SHOWN) { (card(finding, sections)) }
            (more(fleet.findings.len()))
        }
    }
}

fn card(found: &FleetFinding, sections: &Sections<'_>) -> Markup {
    html! {
        article class={ "finding " (found.severity) } {
            header { (text::severity(found.severity)) code.id { (text::name(&found.id)) } }
            h3 { (text::brief(&found.example)) }
            dl {
                dt { "How many" } dd { (found.count) @if let Some(kind) = &found.owner { " of " (text::name(&kind.to_string())) } }
                dt { "Where" } dd { (sections.set(&found.on)) }
                dt { "As on" } dd { (sections.node(&found.example_on)) }
            }
        }
    }
}

fn jobs(fleet: &Fleet, sections: &Sections<'_>) -> Markup {
    html! {
        section #jobs aria-labelledby="jobs-title" {
            div.title { h2 #jobs-title { "Jobs" } p.muted { "Jobs that do not have alike GPUs on all their nodes." } }
            @if fleet.jobs.differing.is_empty() { p.empty { "Every job has alike GPUs on all its nodes, as far as they are known." } }
            @for job in fleet.jobs.differing.iter().take(SHOWN) { (self::job(job, sections)) }
            (more(fleet.jobs.differing.len()))
        }
    }
}

fn job(job: &JobDifference, sections: &Sections<'_>) -> Markup {
    html! {
        article {
            header { h3 { (text::name(&job.job)) } span.muted { (text::name(&job.set.to_string())) } }
            dl { @for grant in &job.grants {
                dt { (text::name(&grant.compared.to_string())) }
                dd { (text::name(&grant.gpus)) @if !grant.numbers.is_empty() { " (" (text::name(&grant.numbers)) ")" } " on " (sections.set(&grant.on)) }
            } }
        }
    }
}

fn drift(fleet: &Fleet, sections: &Sections<'_>) -> Markup {
    let (same, different): (Vec<&Drift>, Vec<&Drift>) =
        fleet.drift.iter().partition(|one| one.values.len() < 2);
    html! {
        section #drift aria-labelledby="drift-title" {
            div.title { h2 #drift-title { "Differences" } p.muted { "What most nodes have stands first." } }
            @if different.is_empty() { p.empty { "The nodes are alike in all that was compared." } }
            @for one in different { article { header { h3 { (text::name(&one.what)) } } (values(one, sections)) } }
            @if !same.is_empty() { h3 { "Alike on all nodes that tell" } @for one in same { article { header { h3 { (text::name(&one.what)) } } (values(one, sections)) } } }
        }
    }
}

fn values(one: &Drift, sections: &Sections<'_>) -> Markup {
    html! {
        ul.reasons { @for value in one.values.iter().take(SHOWN) { li { code { (text::sentence(&value.value)) } span.small { (sections.set(&value.on)) } } } }
        @if one.omitted > 0 { p.muted { "other values on " (counted(one.omitted, "node")) } }
    }
}

fn unknown(page: &FleetPage, sections: &Sections<'_>, problems: &[String]) -> Markup {
    let fleet = &page.fleet;
    let sets = [
        (&fleet.nodes.incomplete, "Not everything could be seen"),
        (&fleet.nodes.not_audited, "Not audited"),
        (&fleet.nodes.only_audited, "Jobs are not known"),
        (&fleet.nodes.unexpected, "Nobody expected them"),
    ];
    let missing = fleet.nodes.missing.as_ref().map(|set| (set, "No answer"));
    let told = missing.into_iter().chain(sets).filter(|(set, _)| !set.is_empty());
    html! {
        section #unknown aria-labelledby="unknown-title" {
            div.title { h2 #unknown-title { "Not known" } }
            ul.reasons {
                @for (set, what) in told { li { b { (what) } " " (sections.set(set)) } }
                @for one in fleet.problems.iter().take(SHOWN) { (problem(one, sections)) }
                @for line in problems.iter().take(SHOWN) { li { (text::sentence(line)) } }
            }
            (text::cuts(&page.cuts))
        }
    }
}

fn problem(one: &FleetProblem, sections: &Sections<'_>) -> Markup {
    html! { li { code { (text::name(&one.code)) } " " (text::sentence(&one.example)) span.small { (sections.set(&one.on)) } } }
}

fn more(count: usize) -> Markup {
    html! { @if count > SHOWN { p.muted { "and " (count - SHOWN) " more" } } }
}
