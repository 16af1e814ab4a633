//! The answer of `gpumap node`: the GPUs, then their owners with the four sets, one row
//! each.

use std::io;
use std::io::Write;

use super::process::age;
use super::table::{Last, Table, or_dash};
use super::{Style, audit, gpus, names, own_access, owner, process, sanitize, vgpu, wrap};
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
    own_access::write(out, style, payload)?;
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
        ([], _) if !style.all_seen => {
            writeln!(out, "No job, container or virtual machine was seen, but not all could be seen.")?
        }
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
/// Characters of the users of one row.
const USERS_WIDTH: usize = 16;

/// Prints the rows with what explains their marks.
pub(super) fn write_owners(
    out: &mut dyn Write,
    style: Style,
    rows: &[&OwnerSets],
    gpus: &[Gpu],
) -> io::Result<()> {
    let lines = lines(rows);
    let table = columns(rows, &lines, gpus);
    // The sets leave so much to the name if no GPU's name is broken.
    let room = usize::from(style.width).saturating_sub(table.least_width() + 4);
    // Columns may take a little less than they are counted for.
    let room = if room + 4 < LEAST { WHOLE } else { room.max(LEAST) };
    let (room, last) = if style.all { (usize::MAX, Last::Runs) } else { (room, Last::Wraps) };
    let table = table.text("OWNER", |line| sanitize::short(&name(line.row), room, "…")).in_front();
    table.write(out, style, last)?;
    legend(out, rows)?;
    reasons(out, style, rows)
}

/// A row, with the row of its job if it is a part of one.
struct Line<'a> {
    row: &'a OwnerSets,
    job: Option<&'a OwnerSets>,
}

fn lines<'a>(rows: &[&'a OwnerSets]) -> Vec<Line<'a>> {
    let mut top = None;
    let line = |row: &&'a OwnerSets| {
        let job = top.filter(|_| row.depth > 0);
        if job.is_none() {
            top = Some(*row);
        }
        Line { row, job }
    };
    rows.iter().map(line).collect()
}

impl Line<'_> {
    /// The users, left out where the job's row has the same.
    fn users(&self) -> String {
        match self.job.is_some_and(|job| job.users == self.row.users) {
            true => String::new(),
            false => sanitize::short(&words(&self.row.users), USERS_WIDTH, "…"),
        }
    }

    /// What was allocated; of a part of a job left out where it is not known.
    fn allocated(&self, gpus: &[Gpu]) -> String {
        let is_left_out = self.job.is_some() && self.row.allocated.gpus.is_none();
        if is_left_out { String::new() } else { cell(&self.row.allocated, &[], gpus) }
    }
}

fn name(row: &OwnerSets) -> String {
    owner::label_as_squeue(&row.owner, row.depth, row.squeue_name())
}

fn words(words: &[String]) -> String {
    if words.is_empty() { "-".to_owned() } else { words.join(" ") }
}

/// The columns behind the owner's name: users, shares and what is used are there only where
/// something is known of any.
fn columns<'a>(rows: &[&OwnerSets], lines: &'a [Line<'a>], gpus: &[Gpu]) -> Table<'a, Line<'a>> {
    let any = |known: fn(&OwnerSets) -> bool| rows.iter().any(|row| known(row));
    let is_counted = any(|row| row.used.is_some());
    let shares = |row: &OwnerSets| {
        let each = row.shares.iter().map(|share| sanitize::short(&share.to_string(), 12, "…"));
        words(&each.collect::<Vec<_>>())
    };
    let used =
        |row: &OwnerSets| row.used.as_ref().map_or_else(|| "?".to_owned(), |used| cell(used, &[], gpus));
    Table::of(lines)
        .text("USER", Line::users)
        .only_if(any(|row| !row.users.is_empty()))
        .text("SHARES", |line| shares(line.row))
        .only_if(any(|row| !row.shares.is_empty()))
        .text("ALLOCATED", |line| line.allocated(gpus))
        .text("ALLOWED", |line| cell(&line.row.allowed, &[], gpus))
        .text("ASKS FOR", |line| cell(&line.row.visible, &[], gpus))
        .text("HOLDS", |line| cell(&line.row.held, &line.row.held_denied, gpus))
        .text("USES", |line| used(line.row))
        .only_if(is_counted)
        .text("IDLE", |line| or_dash(line.row.idle_seconds.map(age)))
        .only_if(is_counted)
        .number("PROCS", |line| process::count(line.row.processes, line.row.unseen.as_ref()))
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
        row.owner.job_id_source == Some(JobIdSource::Environment) || row.squeue_name().is_some()
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
