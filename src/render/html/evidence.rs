//! What was not known, and why; what the page left out; and the observation that it was
//! made of: to check, to keep, to look at again.

use maud::{Markup, html};

use super::super::names::counted;
use super::super::owner;
use super::text;
use super::text::View;
use crate::observation::CgroupMode;
use crate::report::{PageProblem, PageReason, PageSet};

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    let evidence = &view.page.evidence;
    let file = format!("{}.json.gz", file_name(&text::host(&view.page.document)));
    let options = options(view);
    html! {
        section #evidence aria-labelledby="evidence-title" {
            div.title { h2 #evidence-title { "Evidence" } p.muted { "All facts that this page was made of are in it. gpumap makes it again from them, on any machine." } }
            article.evidence {
                p.actions {
                    a.button #observation download=(file) href={ "data:application/gzip;base64," (evidence.packed) } { "Download the observation" }
                    button.script type="button" data-do="check" { "Check its SHA-256" }
                    button.script type="button" data-do="show" { "Look into it" }
                }
                p.status role="status" data-status="evidence" {}
                pre.observation hidden tabindex="0" { code {} }
                dl {
                    dt { "SHA-256" } dd { code #sha256 { (evidence.sha256) } span.muted { " of the JSON document, " (evidence.bytes) " bytes" } }
                    dt { "Again" } dd { pre { code { "gpumap --from " (file) " report" (options) " -o again.html" } } }
                    dt { "Or" } dd { "gpumap --from reads this HTML file itself: " code { "gpumap --from THIS.html audit" } }
                    (facts(view))
                }
            }
        }
    }
}

fn facts(view: &View<'_>) -> Markup {
    let document = &view.page.document;
    let rows = [
        ("Node", document.host.name.as_str()),
        ("Boot", &document.host.boot_id),
        ("Kernel", &document.host.kernel),
        ("Observed", document.taken_at.as_str()),
        ("gpumap", &document.version),
    ];
    html! {
        @for (name, value) in rows { @if !value.is_empty() { dt { (name) } dd { (text::name(value)) } } }
        dt { "Cgroups" } dd { (mode(document.host.cgroup_mode)) }
    }
}

/// Which cgroups the node has.
fn mode(mode: CgroupMode) -> &'static str {
    match mode {
        CgroupMode::Unified => "v2 alone",
        CgroupMode::Hybrid => "v2, and controllers of v1",
        CgroupMode::Legacy => "v1 alone: no device programs are possible",
        CgroupMode::Unknown => "not known",
    }
}

/// The options that change what the page says.
fn options(view: &View<'_>) -> String {
    let audit = &view.page.audit;
    let quoted =
        |text: &str| format!("'{}'", super::super::sanitize::short(text, 200, "…").replace('\'', "'\\''"));
    let allocated = audit.options.allocated.iter().map(|list| format!(" --allocated {}", quoted(list)));
    let config = audit.options.config.iter().map(|file| format!(" --config {}", quoted(&file.path)));
    let paths = audit.options.paths.iter().map(|path| format!(" {}", quoted(path)));
    allocated.chain(config).chain(paths).collect()
}

/// A host name as a file name.
fn file_name(host: &str) -> String {
    host.chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' })
        .take(60)
        .collect()
}

/// The section.
pub(super) fn unknown_section(view: &View<'_>) -> Markup {
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
