//! The observation that the page was made of: to check, to keep, to look at again.

use maud::{Markup, html};

use super::text;
use super::view::View;
use crate::observation::CgroupMode;

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
        ("Node", &document.host.name),
        ("Boot", &document.host.boot_id),
        ("Kernel", &document.host.kernel),
        ("Observed", &document.taken_at),
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
    let Some(audit) = &view.page.document.payload.audit else { return String::new() };
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
