//! The answer of `gpumap node`: the GPUs, then their owners with the four sets, one row
//! each.

use std::io;
use std::io::Write;

use super::process::age;
use super::table::Last;
use super::{Style, gpus, names, owner, process, sanitize, table, vgpu};
use crate::model::{AllocationSource, CgroupPath, GpuKey, JobIdSource};
use crate::report::listed::ListedRow;
use crate::report::{Gpu, GpuSet, NodeAnswer, OwnerSets, listed};

/// Prints both tables.
pub fn write(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    let gpus: Vec<&Gpu> = payload.gpus.iter().collect();
    let title = match gpus.len() {
        0 => gpus::none(payload.gpus_unread).to_owned(),
        1 => "1 GPU".to_owned(),
        count => format!("{count} GPUs"),
    };
    gpus::write_inventory(out, style, &title, &gpus)?;
    writeln!(out)?;
    owners(out, style, payload)?;
    if !style.all {
        return Ok(());
    }
    let processes = payload.cgroups.iter().flat_map(|cgroup| &cgroup.processes);
    vgpu::section(out, style, &processes.collect::<Vec<_>>(), &payload.gpus)
}

fn owners(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    let owners = payload.owners.as_deref().unwrap_or_default();
    let gpus = payload.gpus.len();
    let (shown, folded): (Vec<_>, Vec<_>) =
        sorted(owners).into_iter().partition(|(row, below)| style.all || listed::is_shown(row, below, gpus));
    let shown: Vec<&OwnerSets> = shown.into_iter().map(|(row, _)| row).collect();
    match (shown.as_slice(), folded.is_empty()) {
        ([], true) => writeln!(out, "Nobody is here.")?,
        ([], false) if folded.iter().any(|(row, _)| listed::is_unseen(row, gpus)) => {
            writeln!(out, "No job, container or virtual machine is here.")?
        }
        ([], false) => {
            writeln!(out, "No job, container or virtual machine is here, and nobody holds a GPU.")?
        }
        (shown, _) => write_owners(out, style, shown, &payload.gpus)?,
    }
    let unseen = folded.iter().filter(|(row, _)| listed::is_unseen(row, gpus)).count();
    left_out(out, folded.len() - unseen, unseen)
}

/// Says how many owners are not listed, and of how many nobody knows what they hold.
pub(super) fn left_out(out: &mut dyn Write, idle: usize, unseen: usize) -> io::Result<()> {
    match idle {
        0 => Ok(()),
        1 => writeln!(out, "  1 other owner holds no GPU (-v lists all)"),
        count => writeln!(out, "  {count} other owners hold no GPU (-v lists all)"),
    }?;
    match unseen {
        0 => Ok(()),
        1 => writeln!(out, "  What 1 other owner holds could not be seen (-v lists all)."),
        count => writeln!(out, "  What {count} other owners hold could not be seen (-v lists all)."),
    }
}

/// The rows with everything below each; what belongs together stays together.
fn sorted(owners: &[OwnerSets]) -> Vec<ListedRow<'_>> {
    listed::sorted(owners).into_iter().map(|(_, row)| row).collect()
}

/// Reasons that are printed before the rest is counted.
const REASONS: usize = 6;
/// The least that owners' names have.
const LEAST: usize = 16;
const HEADER: [&str; 10] =
    ["OWNER", "USER", "SHARES", "ALLOCATED", "ALLOWED", "ASKS FOR", "HOLDS", "USES", "IDLE", "PROCS"];
/// Place of the column that is there only if a process is.
const USER: usize = 1;
/// Place of the column that is there only if somebody shares.
const SHARES: usize = 2;
/// Place of the column of what was allocated.
const ALLOCATED: usize = 3;
/// Places of the columns that are there only if somebody counts calls.
const USES: std::ops::Range<usize> = 7..9;
/// Characters of the users of one row.
const USERS_WIDTH: usize = 16;

/// Prints the rows with what explains their marks.
pub(super) fn write_owners(
    out: &mut dyn Write,
    style: Style,
    rows: &[&OwnerSets],
    gpus: &[Gpu],
) -> io::Result<()> {
    let mut cells: Vec<Vec<String>> = rows.iter().map(|row| self::row(row, gpus)).collect();
    leave_out_repeated(rows, &mut cells);
    let mut header = HEADER.to_vec();
    if rows.iter().all(|row| row.used.is_none()) {
        header.drain(USES);
        cells.iter_mut().for_each(|row| drop(row.drain(USES)));
    }
    if rows.iter().all(|row| row.shares.is_empty()) {
        header.remove(SHARES);
        cells.iter_mut().for_each(|row| drop(row.remove(SHARES)));
    }
    if rows.iter().all(|row| row.users.is_empty()) {
        header.remove(USER);
        cells.iter_mut().for_each(|row| drop(row.remove(USER)));
    }
    let last = if style.all { Last::Runs } else { Last::Wraps };
    if !style.all {
        let room = room_for_names(usize::from(style.width), &header, &cells);
        for cell in cells.iter_mut().filter_map(|row| row.first_mut()) {
            *cell = sanitize::short(cell, room, "…");
        }
    }
    table::write(out, style, &header, &["PROCS"], cells, last)?;
    legend(out, rows)?;
    reasons(out, style, rows)
}

/// Leaves out, below a job's own row, the same user again, and that it is not known what
/// was allocated to a part of it.
fn leave_out_repeated(rows: &[&OwnerSets], cells: &mut [Vec<String>]) {
    let mut top: Option<&OwnerSets> = None;
    for (row, cells) in rows.iter().zip(cells) {
        let Some(top) = top.filter(|_| row.depth > 0) else {
            top = Some(*row);
            continue;
        };
        if row.users == top.users {
            cells[USER].clear();
        }
        if row.allocated.gpus.is_none() {
            cells[ALLOCATED].clear();
        }
    }
}

/// The width that the sets leave for the owner's name if no GPU's name is broken.
fn room_for_names(width: usize, header: &[&str], rows: &[Vec<String>]) -> usize {
    let columns = header.iter().enumerate().skip(1);
    let sets: usize = columns.map(|(index, name)| usize::from(table::least(index, name, rows))).sum();
    width.saturating_sub(sets + 4).max(LEAST)
}

fn row(row: &OwnerSets, gpus: &[Gpu]) -> Vec<String> {
    let shares: Vec<_> =
        row.shares.iter().map(|share| sanitize::short(&share.to_string(), 12, "…")).collect();
    let shares = if shares.is_empty() { "-".to_owned() } else { shares.join(" ") };
    let users = if row.users.is_empty() { "-".to_owned() } else { row.users.join(" ") };
    let users = sanitize::short(&users, USERS_WIDTH, "…");
    let mut cells = vec![owner::label(&row.owner, row.depth), users, shares];
    let sets = [&row.allocated, &row.allowed, &row.visible].map(|set| cell(set, &[], gpus));
    cells.extend(sets);
    cells.push(cell(&row.held, &row.held_denied, gpus));
    cells.push(row.used.as_ref().map_or_else(|| "?".to_owned(), |used| cell(used, &[], gpus)));
    cells.push(row.idle_seconds.map_or_else(|| "-".to_owned(), age));
    cells.push(process::count(row.processes, row.unseen.as_ref()));
    cells
}

/// The sets with their names in sentences; the allocation is the first.
fn all(row: &OwnerSets) -> impl Iterator<Item = (&'static str, &GpuSet)> {
    let four = [
        ("allocated", &row.allocated),
        ("allowed", &row.allowed),
        ("asks for", &row.visible),
        ("holds", &row.held),
    ];
    four.into_iter().chain(row.used.iter().map(|used| ("uses", used)))
}

/// One set, compact; `denied` is what of it is held although denied.
pub(super) fn cell(set: &GpuSet, denied: &[GpuKey], inventory: &[Gpu]) -> String {
    let Some(keys) = &set.gpus else { return "?".to_owned() };
    let certain = gpus::held_names(keys, &set.instances, denied, inventory);
    let maybe: Vec<_> = set.unknown.iter().map(|key| gpus::instance_name(key, inventory)).collect();
    let certain = mark(&certain, if is_claimed(set) { "~" } else { "" }, "");
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
    set.source == Some(AllocationSource::Claimed)
}

/// Says what the less obvious marks mean, where there are any.
fn legend(out: &mut dyn Write, rows: &[&OwnerSets]) -> io::Result<()> {
    let sets = || rows.iter().flat_map(|row| all(row)).map(|(_, set)| set);
    let is_fake = |row: &&OwnerSets| row.owner.job_id_source == Some(JobIdSource::Environment);
    let is_left_out = |row: &OwnerSets, set: &GpuSet| {
        row.depth > 0 && std::ptr::eq(set, &row.allocated) && set.gpus.is_none()
    };
    let shown = || rows.iter().flat_map(|row| all(row).filter(|(_, set)| !is_left_out(row, set)));
    if shown().any(|(_, set)| set.gpus.is_none() || !set.unknown.is_empty()) {
        writeln!(out, "  ? not known")?;
    }
    if sets().any(|set| is_claimed(set) && set.gpus.is_some()) || rows.iter().any(is_fake) {
        writeln!(out, "  ~ by its own environment alone, which its user can set")?;
    }
    gpus::denied_legend(out, rows.iter().any(|row| !row.held_denied.is_empty()))
}

/// Why something is unknown, or why an owner gets nothing, each reason once. Without
/// a source every allocation is unknown, so that reason is printed with -v only.
fn reasons(out: &mut dyn Write, style: Style, rows: &[&OwnerSets]) -> io::Result<()> {
    let mut told: Vec<String> = Vec::new();
    let mut nothing: Vec<(&str, Vec<&OwnerSets>)> = Vec::new();
    for row in rows {
        for (name, set) in all(row).skip(usize::from(!style.all)) {
            for why in &set.why {
                match name {
                    "asks for" if is_none(set) => note(&mut nothing, why, row),
                    _ => push(&mut told, reason(name, why)),
                }
            }
        }
    }
    told.extend(nothing.iter().map(|(why, owners)| for_nothing(why, owners)));
    let shown = if style.all { told.len() } else { REASONS };
    told.iter().take(shown).try_for_each(|line| writeln!(out, "  {line}"))?;
    match told.len().saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more reasons (-v lists them)"),
    }
}

fn is_none(set: &GpuSet) -> bool {
    set.gpus.as_ref().is_some_and(Vec::is_empty) && set.unknown.is_empty()
}

/// A reason names its set unless it does so itself.
fn reason(name: &str, why: &str) -> String {
    let text = sanitize::short(why, 300, "…");
    if text.starts_with("what it asks for") { text } else { format!("{name}: {text}") }
}

fn push(told: &mut Vec<String>, line: String) {
    if !told.contains(&line) {
        told.push(line);
    }
}

/// Adds an owner to those of a reason, unless one around it is there already.
fn note<'a>(found: &mut Vec<(&'a str, Vec<&'a OwnerSets>)>, why: &'a str, owner: &'a OwnerSets) {
    let is_around = |known: &&OwnerSets| {
        known.depth < owner.depth
            && CgroupPath::new(&owner.cgroup).is_at_or_below(CgroupPath::new(&known.cgroup))
    };
    match found.iter_mut().find(|(known, _)| *known == why) {
        Some((_, owners)) if owners.last().is_some_and(is_around) => {}
        Some((_, owners)) => owners.push(owner),
        None => found.push((why, vec![owner])),
    }
}

/// `slurm job 7 gets nothing: ordinal 2: only 2 GPUs are allowed here`.
fn for_nothing(why: &str, owners: &[&OwnerSets]) -> String {
    let first = owners.first().map(|row| owner::full(&row.owner)).unwrap_or_default();
    let (more, asks) = match owners.len() {
        0 | 1 => (String::new(), "gets"),
        count => (format!(" and {} more", count - 1), "get"),
    };
    format!("{first}{more} {asks} nothing: {}", sanitize::short(why, 300, "…"))
}
