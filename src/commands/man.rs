//! `gpumap man`: manual pages from the definitions and hand-written sections.

use std::fs;
use std::io::{self, Write as _};

use clap_mangen::Man;

use super::Failure;
use crate::cli::{self, Exit, ManArgs};

/// Sections of gpumap(1) that no definition can tell.
const GENERAL: [&str; 6] = [
    include_str!("../../man/sections/sets.roff"),
    include_str!("../../man/sections/notation.roff"),
    include_str!("../../man/sections/exit-status.roff"),
    include_str!("../../man/sections/privileges.roff"),
    include_str!("../../man/sections/files.roff"),
    include_str!("../../man/sections/examples.roff"),
];
/// What every other page ends with.
const SEE_ALSO: &str = include_str!("../../man/sections/see-also.roff");

/// What scripts rely on, for gpumap-leftovers(1).
const PORCELAIN: &str = include_str!("../../man/sections/porcelain.roff");

/// Runs the command.
pub(super) fn run(args: &ManArgs) -> Result<Exit, Failure> {
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
        pages.push((format!("{name}.1"), page(command, &name, sections(command.get_name()))?));
    }
    Ok(pages)
}

fn sections(command: &str) -> &'static [&'static str] {
    if command == "leftovers" { &[PORCELAIN, SEE_ALSO] } else { &[SEE_ALSO] }
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
