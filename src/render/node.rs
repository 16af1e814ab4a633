//! The answer of `gpumap node`: the GPUs, then their owners with the four sets, one row
//! each.

use std::io;
use std::io::Write;

use super::process::age;
use super::table::Last;
use super::{Style, audit, gpus, names, owner, process, sanitize, table, vgpu, wrap};
use crate::model::{AllocationSource, CgroupPath, GpuKey, JobIdSource};
use crate::report::listed::{Concerned, ListedRow};
use crate::report::{AuditAnswer, Finding, Gpu, GpuSet, NodeAnswer, OwnerSets, listed};

/// Prints both tables.
pub fn write(out: &mut dyn Write, style: Style, payload: &NodeAnswer) -> io::Result<()> {
    tables(out, style, payload, &[])
}

/// Prints both tables, those owners among them whom an audit of the same facts found
/// something about, and below them how much it found.
pub fn write_with_findings(
    out: &mut dyn Write,
    style: Style,
    payload: &NodeAnswer,
    audit: &AuditAnswer,
) -> io::Result<()> {
    tables(out, style, payload, &audit.findings)?;
    audit::in_short(out, style, audit)
}

fn tables(out: &mut dyn Write, style: Style, payload: &NodeAnswer, findings: &[Finding]) -> io::Result<()> {
    let gpus: Vec<&Gpu> = payload.gpus.iter().collect();
    let title = match gpus.len() {
        0 => gpus::none(payload.gpus_unread).to_owned(),
        1 => "1 GPU".to_owned(),
        count => format!("{count} GPUs"),
    };
    gpus::write_inventory(out, style, &title, &gpus)?;
    writeln!(out)?;
    owners(out, style, payload, &Concerned::of(findings))?;
    if !style.all {
        return Ok(());
    }
    let processes = payload.cgroups.iter().flat_map(|cgroup| &cgroup.processes);
    vgpu::section(out, style, &processes.collect::<Vec<_>>(), &payload.gpus)
}

fn owners(out: &mut dyn Write, style: Style, payload: &NodeAnswer, wrong: &Concerned<'_>) -> io::Result<()> {
    let owners = payload.owners.as_deref().unwrap_or_default();
    let gpus = payload.gpus.len();
    let is_shown = |(row, below): &ListedRow<'_>| style.all || listed::is_shown(row, below, gpus, wrong);
    let (shown, folded): (Vec<_>, Vec<_>) = sorted(owners).into_iter().partition(is_shown);
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
/// The least that owners' names have where the table fits with it.
const LEAST: usize = 16;
/// The least where it does not fit anyway: `slurm job 195613`, a container's id.
const WHOLE: usize = 20;
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
    let room = width.saturating_sub(sets + 4);
    // Columns may take a little less than they are counted for.
    if room + 4 < LEAST { WHOLE } else { room.max(LEAST) }
}

fn row(row: &OwnerSets, gpus: &[Gpu]) -> Vec<String> {
    let shares: Vec<_> =
        row.shares.iter().map(|share| sanitize::short(&share.to_string(), 12, "…")).collect();
    let shares = if shares.is_empty() { "-".to_owned() } else { shares.join(" ") };
    let users = if row.users.is_empty() { "-".to_owned() } else { row.users.join(" ") };
    let users = sanitize::short(&users, USERS_WIDTH, "…");
    let mut cells =
        vec![owner::label_of_task(&row.owner, row.depth, row.array_task.as_deref()), users, shares];
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

/// What the mark of a claim means.
const CLAIMED: &str = "~ by its own environment alone, which its user can set";

/// Says what the less obvious marks mean, where there are any.
fn legend(out: &mut dyn Write, rows: &[&OwnerSets]) -> io::Result<()> {
    let sets = || rows.iter().flat_map(|row| all(row)).map(|(_, set)| set);
    let is_fake = |row: &&OwnerSets| {
        row.owner.job_id_source == Some(JobIdSource::Environment) || row.array_task.is_some()
    };
    let is_left_out = |row: &OwnerSets, set: &GpuSet| {
        row.depth > 0 && std::ptr::eq(set, &row.allocated) && set.gpus.is_none()
    };
    let shown = || rows.iter().flat_map(|row| all(row).filter(|(_, set)| !is_left_out(row, set)));
    if shown().any(|(_, set)| set.gpus.is_none() || !set.unknown.is_empty()) {
        writeln!(out, "  ? not known")?;
    }
    if sets().any(|set| is_claimed(set) && set.gpus.is_some()) || rows.iter().any(is_fake) {
        writeln!(out, "  {CLAIMED}")?;
    }
    gpus::denied_legend(out, rows.iter().any(|row| !row.held_denied.is_empty()))
}

/// Why something is unknown, or why an owner gets nothing, each reason once. Why an
/// allocation is not known is printed for jobs and containers; -v prints it for their parts
/// and all others.
fn reasons(out: &mut dyn Write, style: Style, rows: &[&OwnerSets]) -> io::Result<()> {
    let mut told: Vec<String> = Vec::new();
    let mut nothing: Vec<(&str, Vec<&OwnerSets>)> = Vec::new();
    let mut not_known: Vec<(&str, Vec<&OwnerSets>)> = Vec::new();
    for row in rows {
        let is_top = row.depth == 0 && row.owner.is_workload();
        // The allocation is the first of them.
        for (place, (name, set)) in all(row).enumerate() {
            for why in &set.why {
                match (place, name) {
                    (0, _) if is_top && set.gpus.is_none() => note(&mut not_known, why, row),
                    (0, _) if !style.all => {}
                    (_, "asks for") if is_none(set) => note(&mut nothing, why, row),
                    _ => push(&mut told, reason(name, why)),
                }
            }
        }
    }
    let allocations = not_known.iter().map(|(why, owners)| {
        let (first, more, _) = counted_owners(owners);
        format!("{first}{more}: allocation not known: {}", sanitize::short(why, 400, "…"))
    });
    let mut told: Vec<String> = allocations.chain(told).collect();
    told.extend(nothing.iter().map(|(why, owners)| for_nothing(why, owners)));
    let shown = if style.all { told.len() } else { REASONS };
    told.iter().take(shown).try_for_each(|line| wrap::note(out, style, line))?;
    match told.len().saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more reasons (-v lists them)"),
    }
}

/// Says where one allocation comes from, or why it is not known.
pub(super) fn allocation_marks(out: &mut dyn Write, style: Style, set: &GpuSet) -> io::Result<()> {
    match &set.gpus {
        Some(_) if is_claimed(set) => writeln!(out, "  {CLAIMED}"),
        Some(_) => Ok(()),
        None => set.why.iter().try_for_each(|why| wrap::note(out, style, &reason("allocated", why))),
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
    let (first, more, asks) = counted_owners(owners);
    format!("{first}{more} {asks} nothing: {}", sanitize::short(why, 300, "…"))
}

/// The first of some owners, how many more there are, and the verb that goes with them.
fn counted_owners(owners: &[&OwnerSets]) -> (String, String, &'static str) {
    let first = owners.first().map(|row| owner::full(&row.owner)).unwrap_or_default();
    match owners.len() {
        0 | 1 => (first, String::new(), "gets"),
        count => (first, format!(" and {} more", count - 1), "get"),
    }
}
