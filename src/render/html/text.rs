//! Words of the page: names that users chose, verdicts, GPUs; the page's lists at hand; and
//! the frame that the pages of a node and of a fleet share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::super::{gpus, names, owner, sanitize};
use crate::model::{AllocationSource, GpuKey, Severity, Verdict};
use crate::report::{
    Document, Finding, Gpu, GpuSet, NodeAnswer, OwnerSets, Page, PageColumn, PageCut, Program,
};

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
pub(super) fn host(document: &Document<NodeAnswer>) -> String {
    match document.host.name.as_str() {
        "" => "a node".to_owned(),
        name => sanitize::short(name, NAME, "…"),
    }
}

/// The short name of a column: `nvidia2`, `nvidia0/1/0`.
pub(super) fn column(view: &View<'_>, column: &PageColumn) -> String {
    gpus::instance_name(&column.key, view.gpus)
}

/// GPUs and instances by key: `nvidia0-1`; `none` if there are none.
pub(super) fn keys(view: &View<'_>, keys: &[GpuKey]) -> String {
    let all: Vec<String> = keys.iter().map(|key| gpus::instance_name(key, view.gpus)).collect();
    match names::set(all) {
        none if none.is_empty() => "none".to_owned(),
        names => names,
    }
}

/// A set of an owner in words.
pub(super) fn set(view: &View<'_>, set: &GpuSet) -> Markup {
    let cell = super::super::node::cell(set, &[], view.gpus);
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

/// A page, and its lists at hand.
pub(super) struct View<'a> {
    pub(super) page: &'a Page,
    pub(super) gpus: &'a [Gpu],
    pub(super) owners: &'a [OwnerSets],
    pub(super) findings: &'a [Finding],
}

impl<'a> View<'a> {
    pub(super) fn new(page: &'a Page) -> Self {
        let payload = &page.document.payload;
        Self {
            page,
            gpus: &payload.gpus,
            owners: payload.owners.as_deref().unwrap_or_default(),
            findings: &page.findings,
        }
    }

    /// A program of the answer.
    pub(super) fn program(&self, id: u32) -> Option<&'a Program> {
        self.page.document.payload.programs.get(&id)
    }
}

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// A whole document.
pub(super) fn page(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="robots" content="noindex";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                (body)
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// Nothing is loaded from anywhere, and no other style or script than these is used.
fn policy() -> String {
    let digest = |text: &str| STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    )
}
