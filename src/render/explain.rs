//! The answer of `gpumap explain`: the question, the path through each program, the
//! kernel's rule for combining them, the verdict.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::prog::instruction;
use super::{Style, prog, sanitize, wrap};
use crate::model::Verdict;
use crate::report::{ProgramProof, Proof};

/// Instructions up to which a path is printed whole.
const LONG: usize = 400;
/// Different instructions printed of a longer one.
const MOST: usize = 300;
/// Instructions printed of its end.
const LAST: usize = 30;

/// Prints the argument.
pub fn write(out: &mut dyn Write, style: Style, proof: &Proof) -> io::Result<()> {
    let (target, device) = (sanitize::text(&proof.target), sanitize::text(&proof.device));
    writeln!(out, "May {target} open {device}? {}", style.verdict(proof.verdict))?;
    for (index, program) in proof.programs.iter().enumerate() {
        writeln!(out)?;
        part(out, style, index + 1, program)?;
    }
    writeln!(out)?;
    let width = usize::from(style.width);
    let rules = std::iter::once(&proof.rule).chain(&proof.devices_v1);
    rules.into_iter().try_for_each(|rule| wrap::write(out, "", 2, width, rule))?;
    decided(out, style, "Verdict: ", proof.verdict, "", proof.why.as_deref())
}

fn part(out: &mut dyn Write, style: Style, number: usize, program: &ProgramProof) -> io::Result<()> {
    let name = if program.name.is_empty() { "(no name)".into() } else { sanitize::text(&program.name) };
    writeln!(out, "{number}. Program {} {name}", program.id)?;
    if !program.attached_at.is_empty() || !program.flags.is_empty() {
        writeln!(out, "   {}", prog::place(&program.attached_at, &program.flags, false))?;
    }
    path(out, style, program)?;
    let after = program.retval.map(after).unwrap_or_default();
    decided(out, style, "   returns ", program.returns, &after, program.why.as_deref())
}

/// Prints a verdict, what follows of it and why it is unknown.
fn decided(
    out: &mut dyn Write,
    style: Style,
    first: &str,
    verdict: Verdict,
    after: &str,
    why: Option<&str>,
) -> io::Result<()> {
    let why = why.map(|why| format!(", because {why}")).unwrap_or_default();
    let indent = first.len() - first.trim_start().len() + 2;
    let first = format!("{first}{}", style.verdict(verdict));
    match format!("{after}{why}") {
        text if text.is_empty() => writeln!(out, "{first}"),
        text => wrap::write(out, &first, indent, usize::from(style.width), &text),
    }
}

/// The instructions that were executed. Of a loop that goes round often the
/// first round is printed, and the end of the path; `-v` prints everything.
fn path(out: &mut dyn Write, style: Style, program: &ProgramProof) -> io::Result<()> {
    let is_long = program.steps.len() > LONG && !style.all;
    let end = program.steps.len().saturating_sub(LAST);
    let (mut seen, mut folded) = (BTreeSet::new(), 0usize);
    let mut inside = None;
    for (index, step) in program.steps.iter().enumerate() {
        let is_again = !seen.insert((step.program, step.pc));
        if is_long && index < end && (is_again || seen.len() > MOST) {
            folded += 1;
            continue;
        }
        tell_folded(out, std::mem::take(&mut folded))?;
        if std::mem::replace(&mut inside, step.program) != step.program {
            writeln!(out, "   in program {}:", step.program.unwrap_or(program.id))?;
        }
        let mark = if program.decided_at == Some(step.pc) && step.program.is_none() { '>' } else { ' ' };
        writeln!(out, " {mark} {}", instruction(step.pc, &step.text, &step.meaning))?;
    }
    Ok(())
}

fn tell_folded(out: &mut dyn Write, count: usize) -> io::Result<()> {
    match count {
        0 => Ok(()),
        1 => writeln!(out, "   … 1 instruction of a loop, shown by -v"),
        _ => writeln!(out, "   … {count} instructions of loops, shown by -v"),
    }
}

/// What the open comes to unless a later program changes it.
fn after(retval: i32) -> String {
    match retval {
        0 => ": so far the open succeeds".to_owned(),
        -1 => ": so far the open fails with EPERM".to_owned(),
        -13 => ": so far the open fails with EACCES".to_owned(),
        other => format!(": the error so far is {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Step;

    fn printed(steps: usize, all: bool) -> String {
        let step = |index: usize| Step { pc: index % 5, text: "(07) r1 += 1".into(), ..Step::default() };
        let program = ProgramProof { steps: (0..steps).map(step).collect(), ..ProgramProof::default() };
        let mut out = Vec::new();
        path(&mut out, Style { all, ..Style::default() }, &program).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Make sure that a loop is shown by its first round, its length and its end,
    /// and that everything is shown on request.
    #[test]
    fn long_paths_are_folded() {
        assert_eq!(printed(400, false).lines().count(), 400);
        let folded = printed(1_000_000, false);
        assert_eq!(folded.lines().count(), 5 + 1 + 30);
        assert!(folded.contains("… 999965 instructions of loops, shown by -v"), "{folded}");
        assert_eq!(printed(1000, true).lines().count(), 1000);
    }
}
