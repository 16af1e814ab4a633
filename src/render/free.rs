//! The answer of `gpumap free`.

use std::io::{self, Write};

use super::table::{Last, or_dash};
use super::{Style, gpus, names, owner, process, sanitize, wrap};
use crate::model::Vacancy;
use crate::report::{Free, FreeAnswer, Gpu, Holder, Leftover};

/// Prints whether the GPUs are free, and who holds them.
pub fn write(out: &mut dyn Write, style: Style, answer: &FreeAnswer) -> io::Result<()> {
    let (free, inventory) = (&answer.free, answer.gpus.as_slice());
    writeln!(out, "{}", verdict(free, inventory, style.all_seen))?;
    free.asked.why.iter().try_for_each(|why| writeln!(out, "  {}", sanitize::text(why)))?;
    let (standing, others): (Vec<_>, Vec<_>) = free.holders.iter().partition(|holder| holder.standing);
    table(out, style, &others, inventory)?;
    if standing.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nDaemons that hold GPUs all the time, and do not count:")?;
    table(out, style, &standing, inventory)
}

/// Prints who else holds GPUs of a job, beside those of its processes that are `listed`.
pub(super) fn others(
    out: &mut dyn Write,
    style: Style,
    free: &Free,
    listed: &[Leftover],
    inventory: &[Gpu],
) -> io::Result<()> {
    let is_listed = |holder: &Holder| listed.iter().any(|one| one.process.pid == holder.process.pid);
    let others = free.holders.iter().filter(|holder| !holder.standing && !is_listed(holder));
    let others: Vec<_> = others.collect();
    let job = sanitize::text(free.job.as_deref().unwrap_or_default());
    match others.len() {
        0 => return Ok(()),
        1 => writeln!(out, "\n1 process that is not known to be job {job}'s holds its GPUs, or may:")?,
        count => {
            writeln!(out, "\n{count} processes that are not known to be job {job}'s hold its GPUs, or may:")?
        }
    }
    table(out, style, &others, inventory)
}

/// The answer in one line.
fn verdict(free: &Free, inventory: &[Gpu], all_seen: bool) -> String {
    let gpus = free.asked.gpus.as_deref().unwrap_or_default();
    if free.is_about_none() {
        return "There is no GPU to ask about.".to_owned();
    }
    let named = names::set(gpus::key_names(gpus, &free.asked.instances, inventory));
    let are = if gpus.len().max(free.asked.instances.len()) == 1 { "is" } else { "are" };
    let job = free.job.as_ref().map(|job| sanitize::text(job).into_owned());
    let count = free.holders.iter().filter(|holder| !holder.standing && holder.gpus.is_some()).count();
    let processes = if count == 1 { "1 process".to_owned() } else { format!("{count} processes") };
    match (free.state, job) {
        (Vacancy::Held, None) => format!("{named} {are} held by {processes}."),
        (Vacancy::Held, Some(job)) => format!("{named} {are} held by {processes} outside of job {job}."),
        (Vacancy::Free, None) if all_seen => format!("{named} {are} free."),
        (Vacancy::Free, Some(job)) if all_seen => format!("Nobody but job {job} holds {named}."),
        (Vacancy::Free, _) => format!("Nobody was seen to hold {named}, but not all could be seen."),
        (Vacancy::Unknown, _) if free.asked.gpus.is_none() => {
            "Which GPUs to ask about is not known.".to_owned()
        }
        (Vacancy::Unknown, _) => format!("Whether somebody holds {named} is not known."),
    }
}

fn table(out: &mut dyn Write, style: Style, holders: &[&Holder], inventory: &[Gpu]) -> io::Result<()> {
    if holders.is_empty() {
        return Ok(());
    }
    let processes = holders.iter().map(|holder| &holder.process);
    let holds = |holder: &&Holder| {
        let keys = holder.gpus.as_ref()?.iter().map(|key| gpus::instance_name(key, inventory));
        Some(names::set(keys.collect()))
    };
    process::table(holders, |holder| &holder.process)
        .text("HOLDS", |holder| holds(holder).unwrap_or_else(|| "?".to_owned()))
        .text("IN", |holder| or_dash(holder.owner.as_ref().map(owner::full)))
        .write(out, style, Last::Wraps)?;
    process::legend(out, processes)?;
    let unknown = holders.iter().filter_map(|it| Some((it.process.pid, it.process.held_unknown.as_deref()?)));
    wrap::notes_of_unknown(out, style, unknown)
}
