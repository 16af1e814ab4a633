//! The answer of `gpumap leftovers`: a table for people, `--porcelain` for scripts.

use std::io::{self, Write};

use super::process;
use super::table::{Last, or_dash};
use super::{Style, gpus, owner, sanitize, wrap};
use crate::model::NoteCode;
use crate::report::{Gpu, Leftover, LeftoversAnswer, Note};

/// Prints the table. `job` is how to call the job.
pub fn write(out: &mut dyn Write, style: Style, answer: &LeftoversAnswer, job: &str) -> io::Result<()> {
    let (leftovers, inventory) = (answer.leftovers.as_slice(), answer.gpus.as_slice());
    let found = leftovers.iter().filter(|leftover| leftover.is_found()).count();
    let (job, unseen) = (sanitize::text(job), leftovers.len() - found);
    match (found, style.all_seen && unseen == 0) {
        (0, true) => writeln!(out, "No process of {job} holds a GPU."),
        (0, false) => writeln!(out, "No process of {job} was seen to hold a GPU, but not all could be seen."),
        (1, _) => writeln!(out, "1 process holds GPUs of {job}{}", and_unseen(unseen)),
        (count, _) => writeln!(out, "{count} processes hold GPUs of {job}{}", and_unseen(unseen)),
    }?;
    table(out, style, leftovers, inventory)?;
    answer.free.iter().try_for_each(|free| super::free::others(out, style, free, leftovers, inventory))
}

fn table(out: &mut dyn Write, style: Style, leftovers: &[Leftover], inventory: &[Gpu]) -> io::Result<()> {
    if leftovers.is_empty() {
        return Ok(());
    }
    let processes = leftovers.iter().map(|leftover| &leftover.process);
    let holds = |leftover: &Leftover| {
        let it = &leftover.process;
        let holds = gpus::held_names(&leftover.gpus, &it.held_instances, &it.held_denied, inventory);
        if it.held.is_some() { holds } else { "?".to_owned() }
    };
    process::table(leftovers, |leftover| &leftover.process)
        .text("HOLDS", holds)
        .text("KNOWN BY", |leftover| sanitize::short(&leftover.belongs_by.to_string(), 12, "…"))
        .text("IN", |leftover| or_dash(leftover.owner.as_ref().map(owner::full)))
        .text("DONE", |leftover| done(leftover).unwrap_or_default())
        .only_if(leftovers.iter().any(|it| it.killed.is_some()))
        .write(out, style, Last::Wraps)?;
    process::legend(out, processes)?;
    gpus::denied_legend(out, leftovers.iter().any(|it| !it.process.held_denied.is_empty()))?;
    let unknown =
        leftovers.iter().filter_map(|it| Some((it.process.pid, it.process.held_unknown.as_deref()?)));
    wrap::notes_of_unknown(out, style, unknown)
}

/// The action of `--kill`.
fn done(leftover: &Leftover) -> Option<String> {
    match (leftover.killed?, &leftover.spared) {
        (true, _) => Some("killed".to_owned()),
        (false, why) => Some(format!("spared: {}", sanitize::text(why.as_deref().unwrap_or_default()))),
    }
}

fn and_unseen(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} could not be looked into") }
}

/// Prints pid, start time, uid, reason, GPU keys and the action for each process
/// that holds a GPU, separated by tabs. The manual describes the format, which does
/// not change.
pub fn porcelain(out: &mut dyn Write, _: Style, answer: &LeftoversAnswer) -> io::Result<()> {
    for leftover in answer.leftovers.iter().filter(|leftover| leftover.is_found()) {
        let it = &leftover.process;
        let keys: Vec<_> = leftover.gpus.iter().map(|key| field(key)).collect();
        let keys = if keys.is_empty() { "-".to_owned() } else { keys.join(",") };
        let by = field(&leftover.belongs_by.to_string());
        let done = done(leftover).map(|done| format!("\t{done}")).unwrap_or_default();
        writeln!(out, "{}\t{}\t{}\t{by}\t{keys}{done}", it.pid, it.start_time, it.uid)?;
    }
    Ok(())
}

/// Text that cannot be taken for the end of its field.
fn field(text: &str) -> String {
    sanitize::text(text).replace(',', "\\x2c").replace(' ', "\\x20")
}

/// Prints the limits of the answer; those of every answer stand in the manual, and are
/// printed with `all`.
pub fn notes(err: &mut dyn Write, all: bool, notes: &[Note]) -> io::Result<()> {
    let mut notes = notes.iter().filter(|note| all || note.code != NoteCode::NotVisible);
    notes.try_for_each(|note| writeln!(err, "gpumap: note: {}", sanitize::text(&note.text)))
}
