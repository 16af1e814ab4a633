//! The four sets of owners, one row each.
//!
//! `-` is none, `?` not known, `nvidia2?` may or may not be in it, `~nvidia0`
//! is only claimed by the owner's own environment.

use std::io::{self, Write};

use super::table::{self, Last};
use super::{Style, gpus, names, owner, sanitize};
use crate::report::{Gpu, GpuSet, OwnerSets};

/// Reasons told before the rest is counted.
const REASONS: usize = 6;
/// The least that owners' names have.
const LEAST: usize = 16;
const HEADER: [&str; 6] = ["OWNER", "ALLOCATED", "ALLOWED", "ASKS FOR", "HOLDS", "PROCS"];

/// Prints the rows with what explains their marks.
pub(super) fn write(out: &mut dyn Write, style: Style, rows: &[&OwnerSets], gpus: &[Gpu]) -> io::Result<()> {
    let mut cells: Vec<Vec<String>> = rows.iter().map(|row| self::row(row, gpus)).collect();
    let last = if style.all { Last::Runs } else { Last::Wraps };
    if !style.all {
        let room = room_for_names(usize::from(style.width), &cells);
        for cell in cells.iter_mut().filter_map(|row| row.first_mut()) {
            *cell = sanitize::short(cell, room, "…");
        }
    }
    table::write(out, style, &HEADER, &["PROCS"], cells, last)?;
    legend(out, rows)?;
    reasons(out, style, rows)
}

/// What the sets leave for the owner's name if no GPU's name is broken.
fn room_for_names(width: usize, rows: &[Vec<String>]) -> usize {
    let columns = HEADER.iter().enumerate().skip(1);
    let sets: usize = columns.map(|(index, name)| usize::from(table::least(index, name, rows))).sum();
    width.saturating_sub(sets + 4).max(LEAST)
}

fn row(row: &OwnerSets, gpus: &[Gpu]) -> Vec<String> {
    let shares: Vec<_> = row.shares.iter().map(|share| sanitize::short(share, 8, "…")).collect();
    let shares = if shares.is_empty() { String::new() } else { format!(" ({})", shares.join(", ")) };
    let mut cells = vec![owner::label(&row.owner, row.depth) + &shares];
    cells.extend(all(row).map(|(_, set)| cell(set, gpus)));
    cells.push(row.processes.to_string());
    cells
}

fn all(row: &OwnerSets) -> [(&'static str, &GpuSet); 4] {
    [
        ("allocated", &row.allocated),
        ("allowed", &row.allowed),
        ("asks for", &row.visible),
        ("holds", &row.held),
    ]
}

/// One set, compact.
pub(super) fn cell(set: &GpuSet, inventory: &[Gpu]) -> String {
    let Some(keys) = &set.gpus else { return "?".to_owned() };
    let certain = gpus::key_names(keys, &set.instances, inventory);
    let maybe: Vec<_> = set.unknown.iter().map(|key| gpus::instance_name(key, inventory)).collect();
    let certain = mark(&names::set(certain), if is_claimed(set) { "~" } else { "" }, "");
    let maybe = mark(&names::set(maybe), "", "?");
    match (certain.as_str(), maybe.as_str()) {
        ("", "") => "-".to_owned(),
        (one, "") | ("", one) => one.to_owned(),
        (certain, maybe) => format!("{certain} {maybe}"),
    }
}

fn mark(names: &str, before: &str, after: &str) -> String {
    let words: Vec<_> = names.split_whitespace().map(|name| format!("{before}{name}{after}")).collect();
    words.join(" ")
}

fn is_claimed(set: &GpuSet) -> bool {
    set.source.as_deref() == Some("claimed")
}

/// Says what the less obvious marks mean, where there are any.
fn legend(out: &mut dyn Write, rows: &[&OwnerSets]) -> io::Result<()> {
    let sets = || rows.iter().flat_map(|row| all(row)).map(|(_, set)| set);
    let is_fake = |row: &&OwnerSets| row.owner.job_id_source.as_deref() == Some("environment");
    if sets().any(|set| set.gpus.is_none() || !set.unknown.is_empty()) {
        writeln!(out, "  ? not known")?;
    }
    if sets().any(|set| is_claimed(set) && set.gpus.is_some()) || rows.iter().any(is_fake) {
        writeln!(out, "  ~ by its own environment alone, which its user can set")?;
    }
    Ok(())
}

/// Why something is unknown, each reason once. An allocation is unknown
/// wherever nobody gave one, so that is told with -v alone.
fn reasons(out: &mut dyn Write, style: Style, rows: &[&OwnerSets]) -> io::Result<()> {
    let mut told: Vec<(&str, &str)> = Vec::new();
    for (name, set) in rows.iter().flat_map(|row| all(row)) {
        if name == "allocated" && !style.all {
            continue;
        }
        for why in &set.why {
            if !told.contains(&(name, why)) {
                told.push((name, why));
            }
        }
    }
    let shown = if style.all { told.len() } else { REASONS };
    for (name, why) in told.iter().take(shown) {
        writeln!(out, "  {name}: {}", sanitize::short(why, 300, "…"))?;
    }
    match told.len().saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more reasons (-v lists them)"),
    }
}
