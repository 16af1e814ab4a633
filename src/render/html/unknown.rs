//! What was not known, and why; and what the page left out.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::super::counted::counted;
use super::super::{owner, sanitize};
use super::text;
use super::view::View;
use crate::observation::Problem;

/// Things of one kind of problem that are named.
const NAMED: usize = 20;
/// Kinds of problems.
const KINDS: usize = 200;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    let problems = alike(&view.page.document.errors);
    let reasons = reasons(view);
    html! {
        section #unknown aria-labelledby="unknown-title" {
            div.title { h2 #unknown-title { "Not known" } p.muted { "What could not be seen, why, and what would help. Nothing on this page is guessed." } }
            @if problems.is_empty() && reasons.is_empty() { p.empty { span.ok aria-hidden="true" { "✓ " } "Everything that was looked at could be seen." } }
            @for (first, all) in problems.iter().take(KINDS) { (kind(first, all)) }
            @if problems.len() > KINDS { p.muted { "and " (problems.len() - KINDS) " more kinds of problem" } }
            @if !reasons.is_empty() {
                h3 { "Sets of owners, with reasons" }
                ul.reasons { @for (why, names) in reasons { li { (text::sentence(&why)) span.muted.small { (names) } } } }
            }
            (text::cuts(&view.page.cuts))
        }
    }
}

/// Problems that differ only in the thing that they are about.
fn alike(problems: &[Problem]) -> Vec<(&Problem, Vec<&Problem>)> {
    let mut kinds: BTreeMap<(&str, &str, &str), Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        kinds.entry((problem.code.as_str(), &problem.why, &problem.needs)).or_default().push(problem);
    }
    kinds.into_values().filter_map(|all| Some((*all.first()?, all))).collect()
}

fn kind(first: &Problem, all: &[&Problem]) -> Markup {
    html! {
        article.problem {
            h3 { code.id { (text::name(first.code.as_str())) } " " (text::sentence(&first.why)) }
            @if !first.needs.is_empty() { p { "What would help: " (text::sentence(&first.needs)) } }
            @match all {
                [one] => p.where { (text::path(&one.what, None)) },
                all => details.more {
                    summary { (counted(all.len(), "thing")) }
                    ul { @for one in all.iter().take(NAMED) { li { (text::path(&one.what, None)) } } }
                    @if all.len() > NAMED { p.muted { "and " (all.len() - NAMED) " more" } }
                },
            }
        }
    }
}

/// Why sets of owners are not known or empty, each reason once.
fn reasons(view: &View<'_>) -> Vec<(String, String)> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for row in &view.page.rows {
        let Some(sets) = view.owners.get(row.owner) else { continue };
        let four = [
            ("allocated", &sets.allocated),
            ("allowed", &sets.allowed),
            ("asks for", &sets.visible),
            ("holds", &sets.held),
        ];
        for (name, set) in four {
            for why in &set.why {
                let line = format!("{name}: {}", sanitize::short(why, 300, "…"));
                match told.iter_mut().find(|(known, _)| *known == line) {
                    Some((_, owners)) => owners.push(owner::full(&sets.owner)),
                    None => told.push((line, vec![owner::full(&sets.owner)])),
                }
            }
        }
    }
    told.into_iter().take(KINDS).map(|(line, owners)| (line, some(&owners))).collect()
}

fn some(owners: &[String]) -> String {
    let first: Vec<&str> = owners.iter().take(3).map(String::as_str).collect();
    match owners.len().saturating_sub(first.len()) {
        0 => first.join("; "),
        more => format!("{} and {more} more", first.join("; ")),
    }
}
