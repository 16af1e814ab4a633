//! What gives lost device access back: what is missing, who denies it, the step; and what
//! `repair --apply` replaced, with what became of it.

use std::io;
use std::io::Write;

use super::{Style, gpus, owner, rules, sanitize};
use crate::model::{JournalState, RepairState, Verdict};
use crate::report::{
    Applied, Denier, JournalsAnswer, ListedRule, RepairAnswer, RepairJournal, RepairStep, Replacement,
};

/// Rules that are shown of a list.
const SHOWN: usize = 32;

/// Prints the plan.
pub fn write(out: &mut dyn Write, style: Style, answer: &RepairAnswer) -> io::Result<()> {
    let (repair, gpus) = (&answer.repair, answer.gpus.as_slice());
    let whose = repair.owner.as_ref().map(|whose| format!(" ({})", owner::full(whose))).unwrap_or_default();
    writeln!(out, "{}{}", sanitize::text(&repair.cgroup), sanitize::text(&whose))?;
    if let Some(intention) = &repair.intention {
        let as_of = intention.as_of.as_ref().map(|time| format!(", as of {time}")).unwrap_or_default();
        writeln!(
            out,
            "  should be allowed, says {}{}",
            sanitize::text(&intention.what),
            sanitize::text(&as_of)
        )?;
    }
    match repair.state {
        RepairState::NothingMissing => writeln!(out, "\nNothing is missing")?,
        RepairState::Unknown => writeln!(out, "\nNot known")?,
        RepairState::Missing => {
            let names: Vec<String> = repair.gpus.iter().map(|gpu| gpus::name(gpu, gpus)).collect();
            let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(" ")) };
            writeln!(out, "\nMissing{names}")?;
            list(out, style, &repair.missing)?;
        }
    }
    if !repair.denied_by.is_empty() {
        writeln!(out, "\nDenied by")?;
        repair
            .denied_by
            .iter()
            .try_for_each(|denier| writeln!(out, "  {}", sanitize::text(&title(denier))))?;
    }
    steps(out, &repair.steps)?;
    repair.replacement.iter().try_for_each(|replacement| planned(out, replacement))?;
    repair.applied.iter().try_for_each(|applied| done(out, applied))?;
    if !repair.remaining.is_empty() && repair.remaining != repair.missing {
        writeln!(out, "\nStill denied after it")?;
        list(out, style, &repair.remaining)?;
    }
    let title =
        if repair.replacement.is_some() { "No command of the owner for it" } else { "No command for it" };
    sentences(out, title, &repair.refusals)?;
    sentences(out, "Mind", &repair.cautions)
}

fn list(out: &mut dyn Write, style: Style, missing: &[ListedRule]) -> io::Result<()> {
    for rule in missing.iter().take(SHOWN) {
        writeln!(out, "  {}  {}", style.verdict_column(Verdict::Allow), rules::notation(rule))?;
    }
    match missing.len().saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more; --json has all of them"),
    }
}

/// A program as it is talked about.
fn title(denier: &Denier) -> String {
    let name = if denier.name.is_empty() { String::new() } else { format!(" \"{}\"", denier.name) };
    let writer = denier.writer.as_ref().map(|writer| format!(" ({writer})")).unwrap_or_default();
    let loaded =
        if denier.loaded_at.is_known() { format!(", loaded at {}", denier.loaded_at) } else { String::new() };
    format!("program {}{name}{writer}, attached at {}{loaded}", denier.program, denier.attached_at)
}

/// A command stands alone on its line, to be copied as a whole.
fn steps(out: &mut dyn Write, steps: &[RepairStep]) -> io::Result<()> {
    for step in steps {
        writeln!(out, "\nRun this\n\n{}\n", sanitize::text(&step.line))?;
        writeln!(out, "  effect     {}", sanitize::text(&step.effect))?;
        writeln!(out, "  lasts      {}", sanitize::text(&step.lasts))?;
        writeln!(out, "  undone by  {}", sanitize::text(&step.undone_by))?;
        if let Some(undo) = &step.undo {
            writeln!(out, "  to undo    {}", sanitize::text(undo))?;
        }
    }
    Ok(())
}

/// The stop-gap: what gpumap itself would do.
fn planned(out: &mut dyn Write, replacement: &Replacement) -> io::Result<()> {
    match &replacement.line {
        Some(line) => writeln!(out, "\nOr let gpumap do this, a stop-gap\n\n{}\n", sanitize::text(line))?,
        None => writeln!(out, "\nOr let gpumap do this with --apply, a stop-gap\n")?,
    }
    let flags: Vec<String> = replacement.flags.iter().map(ToString::to_string).collect();
    let flags = if flags.is_empty() { String::new() } else { format!(" ({})", flags.join(", ")) };
    let at = sanitize::text(&replacement.attached_at);
    let (old, insns) = (replacement.program, replacement.insns);
    writeln!(
        out,
        "  effect     a program of {insns} instructions takes the place of program {old} at {at}{flags}; it allows exactly what that allows, and what is missing"
    )?;
    writeln!(out, "  lasts      {}", sanitize::text(&replacement.lasts))?;
    writeln!(out, "  undone by  {}", sanitize::text(&replacement.undone_by))?;
    writeln!(out, "  to undo    gpumap repair --undo JOURNAL, as --apply prints it")
}

/// What was done and proved.
fn done(out: &mut dyn Write, applied: &Applied) -> io::Result<()> {
    writeln!(out, "\nDone: program {} is in its place", applied.program)?;
    writeln!(out, "  compared   {} cgroups, all as planned", applied.compared)?;
    writeln!(out, "  asked      {} answers of the kernel from inside, all as planned", applied.asked)?;
    for what in &applied.not_asked {
        writeln!(out, "  not asked  {}", sanitize::text(what))?;
    }
    writeln!(out, "  journal    {}", sanitize::text(&applied.journal))?;
    writeln!(out, "  to undo    {}", sanitize::text(&applied.undo))
}

fn sentences(out: &mut dyn Write, title: &str, sentences: &[String]) -> io::Result<()> {
    if sentences.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    sentences.iter().try_for_each(|sentence| writeln!(out, "  - {}", sanitize::text(sentence)))
}

/// Rules that are shown of a journal.
const JOURNALS_SHOWN: usize = 8;

/// Prints the journals.
pub fn write_journals(out: &mut dyn Write, style: Style, answer: &JournalsAnswer) -> io::Result<()> {
    let journals = &answer.journals;
    if journals.is_empty() {
        return writeln!(
            out,
            "No journal of a change is in /run/gpumap: --undo has nothing to take back.\n\
             A change that was undone or is over has no journal any more; the system log tells of it."
        );
    }
    journals.iter().try_for_each(|journal| one_journal(out, style, journal))
}

fn one_journal(out: &mut dyn Write, style: Style, journal: &RepairJournal) -> io::Result<()> {
    let state = match journal.state {
        Some(JournalState::InForce) => "in force",
        Some(JournalState::Overtaken) => "in force, overtaken by others",
        Some(JournalState::NotInForce) => "over",
        Some(JournalState::Gone) => "over, the cgroup is gone",
        Some(JournalState::Unknown) | None => "not known",
    };
    writeln!(out, "{}  {state}", sanitize::text(&journal.path))?;
    let because = journal.because.as_deref().unwrap_or_default();
    writeln!(out, "  {}", sanitize::text(because))?;
    let replacement = &journal.replacement;
    writeln!(
        out,
        "  at {} program {} took the place of {} for {}",
        sanitize::text(&replacement.attached_at),
        journal.program,
        replacement.program,
        sanitize::text(&journal.cgroup)
    )?;
    writeln!(out, "  {} by {}", sanitize::text(journal.taken_at.as_str()), sanitize::text(&journal.who))?;
    writeln!(out, "  {}", sanitize::text(&journal.why))?;
    for rule in replacement.adds.iter().take(JOURNALS_SHOWN) {
        writeln!(out, "  {}  {}", style.verdict_column(Verdict::Allow), rules::notation(rule))?;
    }
    match replacement.adds.len().saturating_sub(JOURNALS_SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more; --json has all of them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that an empty list does not say that nothing was ever changed, and that each
    /// journal has its state.
    #[test]
    fn what_stands() {
        let text = |journals: Vec<RepairJournal>| {
            let (mut out, payload) = (Vec::new(), JournalsAnswer { journals });
            write_journals(&mut out, Style::default(), &payload).unwrap();
            String::from_utf8(out).unwrap()
        };
        let none = text(Vec::new());
        assert!(none.contains("--undo has nothing to take back"), "{none}");
        assert!(none.contains("the system log tells of it"), "{none}");
        let over = RepairJournal { state: Some(JournalState::NotInForce), ..RepairJournal::default() };
        let in_force = RepairJournal { state: Some(JournalState::InForce), ..RepairJournal::default() };
        assert!(
            text(vec![over.clone()]).contains("  over\n") && text(vec![in_force]).contains("  in force\n")
        );
        assert!(text(vec![RepairJournal { state: None, ..over }]).contains("  not known\n"));
    }
}
