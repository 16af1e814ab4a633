//! Texts that are made from the definitions of the command line and of the types: `gpumap
//! man` writes the manual pages, with the hand-written sections of `man/sections`, `gpumap
//! completions` completion scripts for shells, `gpumap schema` a JSON schema.
//!
//! The schemas are files of `man/`, which a test makes from the types (`tests/docs/manual.rs`):
//! the code that makes them is a megabyte, and no node needs it.

use std::fs;
use std::io::{self, Write as _};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_mangen::Man;

use super::invocation::{Failure, Invocation};
use crate::cli::{self, CompletionsArgs, Exit, ManArgs, SchemaArgs, SchemaOf};
use crate::export::{self, MetricKind};
use crate::{audit, doctor, render};

/// Hand-written sections of gpumap(1).
const GENERAL: [&str; 7] = [
    include_str!("../../man/sections/sets.roff"),
    include_str!("../../man/sections/owners.roff"),
    include_str!("../../man/sections/notation.roff"),
    include_str!("../../man/sections/exit-status.roff"),
    include_str!("../../man/sections/privileges.roff"),
    include_str!("../../man/sections/files.roff"),
    include_str!("../../man/sections/examples.roff"),
];

/// The end of every other page.
const SEE_ALSO: &str = include_str!("../../man/sections/see-also.roff");

/// The format of `--porcelain` and the rule of `--kill`, for gpumap-leftovers(1).
const PORCELAIN: &str = include_str!("../../man/sections/porcelain.roff");

/// Answers and configuration of an audit, for gpumap-audit(1).
const AUDIT: &str = include_str!("../../man/sections/audit.roff");

/// The events, the cost and the limits of a watch, for gpumap-watch(1).
const WATCH: &str = include_str!("../../man/sections/watch.roff");

/// What refusals cost and cannot show, for gpumap-watch(1) and gpumap-denials(1).
const DENIALS: &str = include_str!("../../man/sections/denials.roff");

/// Two stories, what not to do and the limits, for gpumap-repair(1).
const REPAIR: &str = include_str!("../../man/sections/repair.roff");

/// What is counted, what is not, and the state file, for gpumap-activity(1).
const ACTIVITY: &str = include_str!("../../man/sections/activity.roff");

/// How metrics are used, for gpumap-export(1).
const EXPORT: &str = include_str!("../../man/sections/export.roff");

/// What the page has, and its limits, for gpumap-report(1).
const REPORT: &str = include_str!("../../man/sections/report.roff");

/// How the section about the metrics of `export` begins.
const METRICS: &str =
    ".SH METRICS\nA metric without a sample is left out, and so is a label without a value.\n";

/// What is looked at, and what each code of a limit means, for gpumap-vgpu(1).
const VGPU: &str = include_str!("../../man/sections/vgpu.roff");

/// What is read and what is compared, for gpumap-fleet(1).
const FLEET: &str = include_str!("../../man/sections/fleet.roff");

/// How the screen is read, for gpumap-top(1).
const TOP: &str = include_str!("../../man/sections/top.roff");

/// How the section about the checks of `doctor` begins.
const CHECKS: &str = ".SH CHECKS\nEvery check is \\fBok\\fR, a \\fBnote\\fR (worth knowing, nothing is lost by it), \
\\fBmissing\\fR (something can be had that is not there; the fix is named) or \\fBunknown\\fR (it could not be \
looked at). Checks that do not apply to a node are left out.\n";

/// Runs the command.
pub(super) fn man(args: &ManArgs) -> Result<Exit, Failure> {
    for (name, page) in pages()? {
        let path = args.dir.join(name);
        fs::write(&path, page).map_err(|error| Failure::file(&path, &error))?;
    }
    Ok(Exit::Yes)
}

/// Every page by file name: gpumap(1) and one per command.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut root = cli::definition().disable_help_subcommand(true);
    root.build();
    let mut pages = vec![("gpumap.1".to_owned(), page(&root, "gpumap", &GENERAL)?)];
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("gpumap-{}", command.get_name());
        let sections = sections(command.get_name());
        let sections: Vec<&str> = sections.iter().map(String::as_str).collect();
        pages.push((format!("{name}.1"), page(command, &name, &sections)?));
    }
    Ok(pages)
}

fn sections(command: &str) -> Vec<String> {
    let own = match command {
        "leftovers" => vec![PORCELAIN.to_owned()],
        "audit" => vec![AUDIT.to_owned(), findings()],
        "watch" => vec![WATCH.to_owned(), DENIALS.to_owned()],
        "denials" => vec![DENIALS.to_owned()],
        "doctor" => vec![checks()],
        "repair" => vec![REPAIR.to_owned()],
        "activity" => vec![ACTIVITY.to_owned()],
        "export" => vec![metrics(), EXPORT.to_owned()],
        "vgpu" => vec![VGPU.to_owned()],
        "fleet" => vec![FLEET.to_owned()],
        "report" => vec![REPORT.to_owned()],
        "top" => vec![glyphs(), keys(), TOP.to_owned()],
        _ => Vec::new(),
    };
    own.into_iter().chain([SEE_ALSO.to_owned()]).collect()
}

/// The catalogue of findings.
fn findings() -> String {
    let mut section = ".SH FINDINGS\n".to_owned();
    for kind in audit::kinds() {
        let title = roff(kind.title);
        section.push_str(&format!(".SS {}\n{}: {title}.\n", roff(kind.id), kind.severity));
        for paragraph in kind.page.split("\n\n") {
            let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            section.push_str(&format!(".PP\n{}\n", roff(&text)));
        }
    }
    section
}

/// The checks of `doctor`.
fn checks() -> String {
    let mut section = CHECKS.to_owned();
    for kind in doctor::kinds() {
        section.push_str(&format!(".TP\n.B {}\n{}\n", roff(kind.id), roff(kind.page)));
    }
    section
}

/// The metrics of `export`.
fn metrics() -> String {
    let mut section = METRICS.to_owned();
    for metric in export::CATALOGUE {
        let kind = match metric.kind {
            MetricKind::Gauge => "gauge",
            MetricKind::Counter => "counter",
            MetricKind::Info => "info",
        };
        let labels = match metric.labels {
            [] => String::new(),
            labels => format!(" {{{}}}", labels.join(", ")),
        };
        section.push_str(&format!(".TP\n.B {}\n{kind}{labels}: {}.\n", roff(metric.name), roff(metric.help)));
    }
    section
}

/// The glyphs of `top`.
fn glyphs() -> String {
    let mut section = ".SH GLYPHS\nWith \\fB\\-\\-ascii\\fR those behind the comma are shown.\n".to_owned();
    for (symbol, ascii, meaning) in render::glyphs() {
        let text = if symbol == ascii { roff(symbol) } else { format!("{}, {}", roff(symbol), roff(ascii)) };
        section.push_str(&format!(".TP\n.B \\&{text}\n{}\n", roff(meaning)));
    }
    section
}

/// The keys of `top`.
fn keys() -> String {
    let mut section = ".SH KEYS\n".to_owned();
    for (key, does) in render::KEYS {
        if !key.is_empty() {
            section.push_str(&format!(".TP\n.B \\&{}\n", roff(key)));
        }
        section.push_str(&format!("{}\n", roff(does)));
    }
    section
}

/// Plain text for roff: nothing in it is a request or an escape.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn page(command: &clap::Command, name: &str, sections: &[&str]) -> io::Result<Vec<u8>> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone());
    let mut out = Vec::new();
    // No date: a page is as old as its version, and must come out the same
    // every day.
    writeln!(out, ".TH {} 1 \"\" \"gpumap {version}\" \"gpumap manual\"", name.to_uppercase())?;
    man.render_name_section(&mut out)?;
    writeln!(out, ".SH SYNOPSIS\n{}", synopsis(command))?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if name == "gpumap" {
        man.render_subcommands_section(&mut out)?;
    } else {
        man.render_extra_section(&mut out)?;
    }
    sections.iter().for_each(|section| out.extend_from_slice(section.as_bytes()));
    Ok(out)
}

/// The usage line as clap prints it: the options are listed below anyway.
fn synopsis(command: &clap::Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.trim_start_matches("Usage: ").replace('-', "\\-")
}

/// The definition with the ids of findings as values, which shells complete. (A command line
/// with another id is answered in words, with what is near.)
fn with_ids(definition: clap::Command) -> clap::Command {
    let id = |kind: &audit::Kind| PossibleValue::new(kind.id).help(kind.title);
    let ids = PossibleValuesParser::new(audit::kinds().map(id));
    definition.mut_subcommand("audit", |audit| audit.mut_arg("explain", |explain| explain.value_parser(ids)))
}

/// Prints a script. Made in memory first, because the generator panics when
/// it cannot write.
pub(super) fn completions(invocation: &mut Invocation<'_>, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_ids(cli::definition()), "gpumap", &mut script);
    invocation.out.write_all(&script)?;
    Ok(Exit::Yes)
}

/// Prints a schema. It is pretty-printed: people read it, and compare it by line.
pub(super) fn schema(invocation: &mut Invocation<'_>, args: &SchemaArgs) -> Result<Exit, Failure> {
    let schema = match args.of {
        SchemaOf::Document => include_str!("../../man/gpumap-1.schema.json"),
        SchemaOf::Events => include_str!("../../man/gpumap-1.events.schema.json"),
        SchemaOf::Observation => include_str!("../../man/gpumap.observation-1.schema.json"),
    };
    invocation.out.write_all(schema.as_bytes())?;
    Ok(Exit::Yes)
}
