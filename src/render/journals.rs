//! What `repair --apply` replaced, and what became of it.

use std::io::{self, Write};

use super::{Style, rules, sanitize};
use crate::model::{JournalState, Verdict};
use crate::report::{Payload, RepairJournal};

/// Rules that are shown of a journal.
const SHOWN: usize = 8;

/// Prints the journals.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let journals = payload.journals.as_deref().unwrap_or_default();
    if journals.is_empty() {
        return writeln!(
            out,
            "No journal of a change is in /run/gpumap: --undo has nothing to take back.\n\
             A change that was undone or is over has no journal any more; the system log tells of it."
        );
    }
    journals.iter().try_for_each(|journal| one(out, style, journal))
}

fn one(out: &mut dyn Write, style: Style, journal: &RepairJournal) -> io::Result<()> {
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
    writeln!(out, "  {} by {}", sanitize::text(&journal.taken_at), sanitize::text(&journal.who))?;
    writeln!(out, "  {}", sanitize::text(&journal.why))?;
    for rule in replacement.adds.iter().take(SHOWN) {
        writeln!(out, "  {}  {}", style.verdict_column(Verdict::Allow), rules::notation(rule))?;
    }
    match replacement.adds.len().saturating_sub(SHOWN) {
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
            let (mut out, payload) = (Vec::new(), Payload { journals: Some(journals), ..Payload::default() });
            write(&mut out, Style::default(), &payload).unwrap();
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
