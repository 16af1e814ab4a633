//! Words of the page: names that users chose, verdicts, GPUs.

use maud::{Markup, html};

use super::super::{gpu_names, names, owner, sanitize};
use super::view::View;
use crate::model::{AllocationSource, Severity, Verdict};
use crate::report::{Document, GpuSet, PageColumn, PageCut};

/// Characters of a name and of a path.
const NAME: usize = 80;
const PATH: usize = 240;
/// Characters of a sentence that may quote a user's text.
const SENTENCE: usize = 600;

/// A name that somebody chose.
pub(super) fn name(text: &str) -> Markup {
    html! { bdi { (sanitize::short(text, NAME, "…")) } }
}

/// The path of a cgroup; `hex` has its bytes if they are not UTF-8.
pub(super) fn path(text: &str, hex: Option<&str>) -> Markup {
    html! { code { bdi { (sanitize::short_with_hex(text, hex, PATH)) } } }
}

/// A sentence of an answer, which may quote text of users.
pub(super) fn sentence(text: &str) -> Markup {
    html! { bdi { (sanitize::short(text, SENTENCE, "…")) } }
}

/// A sentence with whole container ids cut short.
pub(super) fn brief(text: &str) -> Markup {
    sentence(&owner::with_short_ids(&sanitize::short(text, SENTENCE, "…")))
}

/// The node's name.
pub(super) fn host(document: &Document) -> String {
    match document.host.name.as_str() {
        "" => "a node".to_owned(),
        name => sanitize::short(name, NAME, "…"),
    }
}

/// The short name of a column: `nvidia2`, `nvidia0/1/0`.
pub(super) fn column(view: &View<'_>, column: &PageColumn) -> String {
    gpu_names::instance_name(&column.key, view.gpus)
}

/// GPUs and instances by key: `nvidia0-1`; `none` if there are none.
pub(super) fn keys(view: &View<'_>, keys: &[String]) -> String {
    let all: Vec<String> = keys.iter().map(|key| gpu_names::instance_name(key, view.gpus)).collect();
    match names::set(all) {
        none if none.is_empty() => "none".to_owned(),
        names => names,
    }
}

/// A set of an owner in words.
pub(super) fn set(view: &View<'_>, set: &GpuSet) -> Markup {
    let cell = super::super::sets::cell(set, &[], view.gpus);
    let is_claimed = set.source == Some(AllocationSource::Claimed) && set.gpus.is_some();
    match cell.as_str() {
        "-" => html! { span.none { "none" } },
        "?" => html! { span.u { "not known" } },
        names => html! {
            (names.replace('~', ""))
            @if is_claimed { " " span.muted { "(claimed)" } }
        },
    }
}

/// A verdict as a pill; the style adds its glyph.
pub(super) fn verdict(verdict: Verdict) -> Markup {
    html! { span class={ "pill " (verdict_class(verdict)) } { (verdict) } }
}

/// The class of a verdict.
pub(super) fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Deny => "deny",
        Verdict::Unknown => "unknown",
    }
}

/// A severity with its glyph.
pub(super) fn severity(severity: Severity) -> Markup {
    let glyph = severity_glyph(severity);
    html! { span class={ "pill " (severity) } { span aria-hidden="true" { (glyph) } " " (severity) } }
}

/// The glyph of a severity.
pub(super) fn severity_glyph(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "▲",
        Severity::Warning => "◆",
        Severity::Note => "●",
    }
}

/// What was left out for its size.
pub(super) fn cuts(cuts: &[PageCut]) -> Markup {
    html! {
        @if !cuts.is_empty() {
            h3 { "Left out of this page" }
            ul.reasons { @for cut in cuts { li { (cut.what) ": " b { (cut.count) } span.muted.small { (sentence(&cut.instead)) } } } }
        }
    }
}

/// The last name of a path, as a short name for a level.
pub(super) fn last(path: &str) -> String {
    match path.rsplit('/').next() {
        _ if path.is_empty() => "a place that could not be asked".to_owned(),
        Some("") | None => "/".to_owned(),
        Some(name) => sanitize::short(name, 44, "…"),
    }
}
