//! What was not known, and why; and what the page left out.

use maud::{Markup, html};

use super::super::counted::counted;
use super::super::owner;
use super::text;
use super::view::View;
use crate::report::{PageProblem, PageReason, PageSet};

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    let (problems, reasons) = (&view.page.problems, &view.page.reasons);
    html! {
        section #unknown aria-labelledby="unknown-title" {
            div.title { h2 #unknown-title { "Not known" } p.muted { "What could not be seen, why, and what would help. Nothing on this page is guessed." } }
            @if problems.is_empty() && reasons.is_empty() { p.empty { span.ok aria-hidden="true" { "✓ " } "Everything that was looked at could be seen." } }
            @for one in problems { (kind(one)) }
            @if !reasons.is_empty() {
                h3 { "Sets of owners, with reasons" }
                ul.reasons { @for one in reasons { (reason(view, one)) } }
            }
            (text::cuts(&view.page.cuts))
        }
    }
}

fn kind(kind: &PageProblem) -> Markup {
    html! {
        article.problem {
            h3 { code.id { (text::name(kind.first.code.as_str())) } " " (text::sentence(&kind.first.why)) }
            @if !kind.first.needs.is_empty() { p { "What would help: " (text::sentence(&kind.first.needs)) } }
            @match kind.things.as_slice() {
                [one] => p.where { (text::path(one, None)) },
                things => details.more {
                    summary { (counted(kind.count, "thing")) }
                    ul { @for one in things { li { (text::path(one, None)) } } }
                    @if kind.count > things.len() { p.muted { "and " (kind.count - things.len()) " more" } }
                },
            }
        }
    }
}

fn reason(view: &View<'_>, reason: &PageReason) -> Markup {
    let names = reason.owners.iter().filter_map(|place| view.owners.get(*place));
    let names: Vec<String> = names.map(|sets| owner::full(&sets.owner)).collect();
    html! {
        li {
            (set(reason.set)) ": " (text::sentence(&reason.why))
            span.muted.small {
                (text::sentence(&names.join("; ")))
                @if reason.count > names.len() { " and " (reason.count - names.len()) " more" }
            }
        }
    }
}

fn set(set: PageSet) -> &'static str {
    match set {
        PageSet::Allocated => "allocated",
        PageSet::Allowed => "allowed",
        PageSet::Asked => "asks for",
        PageSet::Held => "holds",
    }
}
