//! What gives lost device access back: what is missing, who denies it, the step; and what
//! `repair --apply` replaced, with what became of it.

use std::io;
use std::io::Write;

use super::names::counted;
use super::{Style, gpus, owner, rules, sanitize, wrap};
use crate::model::{JournalState, RepairState, Verdict};
use crate::report::{
    Applied, Denier, Gpu, JournalsAnswer, ListedRule, Repair, RepairAnswer, RepairJournal, RepairStep,
    RepairsAnswer, Replacement,
};

/// Rules that are shown of a list.
const SHOWN: usize = 32;

/// Prints the plan.
pub fn write(out: &mut dyn Write, style: Style, answer: &RepairAnswer) -> io::Result<()> {
    one(out, style, &answer.repair, &answer.gpus)
}

/// Prints the plans for everybody who lost access.
pub fn write_all(out: &mut dyn Write, style: Style, answer: &RepairsAnswer) -> io::Result<()> {
    if answer.repairs.is_empty() {
        let but = if style.all_seen { "" } else { ", but not all could be seen" };
        return writeln!(out, "Nobody here is found to have lost access to a GPU{but}.");
    }
    for (index, repair) in answer.repairs.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        one(out, style, repair, &answer.gpus)?;
    }
    Ok(())
}

/// A sentence, as wide as the output.
fn sentence(out: &mut dyn Write, style: Style, first: &str, indent: usize, text: &str) -> io::Result<()> {
    wrap::write(out, first, indent, usize::from(style.width), text)
}

/// A line of a list of properties: its name, and the text beside it.
fn property(out: &mut dyn Write, style: Style, name: &str, text: &str) -> io::Result<()> {
    sentence(out, style, &format!("  {name:<9}  "), 13, text)
}

fn one(out: &mut dyn Write, style: Style, repair: &Repair, gpus: &[Gpu]) -> io::Result<()> {
    let whose = repair.owner.as_ref().map(|whose| format!(" ({})", owner::full(whose))).unwrap_or_default();
    writeln!(out, "{}{}", sanitize::text(&repair.cgroup), sanitize::text(&whose))?;
    if let Some(intention) = &repair.intention {
        let as_of = intention.as_of.as_ref().map(|time| format!(", as of {time}")).unwrap_or_default();
        let what = format!("What should be allowed is known from {}{as_of}.", intention.what);
        sentence(out, style, "  ", 2, &what)?;
    }
    match repair.state {
        RepairState::NothingMissing => writeln!(out, "\nNothing is missing.")?,
        RepairState::Unknown => writeln!(out, "\nWhether anything is missing is not known.")?,
        RepairState::Missing => {
            let names: Vec<String> = repair.gpus.iter().map(|gpu| gpus::name(gpu, gpus)).collect();
            let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(" ")) };
            writeln!(out, "\nMissing{names}")?;
            list(out, style, &repair.missing)?;
        }
    }
    if !repair.denied_by.is_empty() {
        writeln!(out, "\nDenied by")?;
        repair.denied_by.iter().try_for_each(|denier| sentence(out, style, "  ", 4, &title(denier)))?;
    }
    steps(out, style, &repair.steps)?;
    let or = if repair.steps.is_empty() { "Let gpumap do this" } else { "Or let gpumap do this" };
    repair.replacement.iter().try_for_each(|replacement| planned(out, style, or, replacement))?;
    repair.applied.iter().try_for_each(|applied| done(out, style, applied))?;
    if !repair.remaining.is_empty() && repair.remaining != repair.missing {
        writeln!(out, "\nStill denied after it")?;
        list(out, style, &repair.remaining)?;
    }
    let title = match (repair.state, &repair.replacement) {
        (RepairState::Unknown, _) => "Why it is not known",
        (_, Some(_)) => "Why the program's owner has no command for it",
        (_, None) => "Why there is no command for it",
    };
    sentences(out, style, title, &repair.refusals)?;
    sentences(out, style, "Mind", &repair.cautions)
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
fn steps(out: &mut dyn Write, style: Style, steps: &[RepairStep]) -> io::Result<()> {
    for step in steps {
        writeln!(out, "\nRun this\n\n{}\n", sanitize::text(&step.line))?;
        property(out, style, "effect", &step.effect)?;
        property(out, style, "lasts", &step.lasts)?;
        property(out, style, "undone by", &step.undone_by)?;
        if let Some(undo) = &step.undo {
            writeln!(out, "  to undo    {}", sanitize::text(undo))?;
        }
    }
    Ok(())
}

/// The stop-gap: what gpumap itself would do.
fn planned(out: &mut dyn Write, style: Style, or: &str, replacement: &Replacement) -> io::Result<()> {
    match &replacement.line {
        Some(line) => writeln!(out, "\n{or}, as a stop-gap\n\n{}\n", sanitize::text(line))?,
        None => writeln!(out, "\n{or} with --apply, as a stop-gap\n")?,
    }
    let flags: Vec<String> = replacement.flags.iter().map(ToString::to_string).collect();
    let flags = if flags.is_empty() { String::new() } else { format!(" ({})", flags.join(", ")) };
    let (old, insns, at) = (replacement.program, replacement.insns, &replacement.attached_at);
    let effect = format!(
        "a program of {insns} instructions takes the place of program {old} at {at}{flags}; it allows exactly what that allows, and what is missing"
    );
    property(out, style, "effect", &effect)?;
    property(out, style, "lasts", &replacement.lasts)?;
    property(out, style, "undone by", &replacement.undone_by)?;
    writeln!(out, "  to undo    gpumap repair --undo JOURNAL, as --apply prints it")
}

/// What was done and proved.
fn done(out: &mut dyn Write, style: Style, applied: &Applied) -> io::Result<()> {
    writeln!(out, "\nDone: program {} is in its place.", applied.program)?;
    property(out, style, "compared", &format!("{}, all as planned", counted(applied.compared, "cgroup")))?;
    let asked = counted(applied.asked, "answer");
    property(out, style, "asked", &format!("{asked} of the kernel from inside, all as planned"))?;
    applied.not_asked.iter().try_for_each(|what| property(out, style, "not asked", what))?;
    writeln!(out, "  journal    {}", sanitize::text(&applied.journal))?;
    writeln!(out, "  to undo    {}", sanitize::text(&applied.undo))
}

fn sentences(out: &mut dyn Write, style: Style, title: &str, sentences: &[String]) -> io::Result<()> {
    if sentences.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    sentences.iter().try_for_each(|text| sentence(out, style, "  - ", 4, text))
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
        Some(JournalState::InForce) => "its program is in force",
        Some(JournalState::Overtaken) => "its program is in force, and others were attached since",
        Some(JournalState::NotInForce) => "its change is over",
        Some(JournalState::Gone) => "its change is over, and the cgroup is gone",
        Some(JournalState::Unknown) | None => "what became of its change is not known",
    };
    writeln!(out, "{}: {state}", sanitize::text(&journal.path))?;
    let because = journal.because.as_deref().unwrap_or_default();
    sentence(out, style, "  ", 4, because)?;
    let Replacement { attached_at, program: old, .. } = &journal.replacement;
    let (new, cgroup) = (journal.program, &journal.cgroup);
    let change = format!("at {attached_at} program {new} took the place of program {old}, for {cgroup}");
    sentence(out, style, "  ", 4, &change)?;
    sentence(out, style, "  ", 4, &format!("changed at {} by {}", journal.taken_at, journal.who))?;
    sentence(out, style, "  ", 4, &journal.why)?;
    let replacement = &journal.replacement;
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
            text(vec![over.clone()]).contains(": its change is over\n")
                && text(vec![in_force]).contains(": its program is in force\n")
        );
        assert!(text(vec![RepairJournal { state: None, ..over }]).contains("is not known\n"));
    }
}
