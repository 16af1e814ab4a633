//! A proof that reads like an argument: the question, each program's path,
//! the kernel's rule, the verdict.

use std::io::{self, Write};

use super::prog::instruction;
use super::{Style, programs, sanitize};
use crate::report::{Payload, ProgramProof, Proof};

/// Prints the argument.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    payload.proof.iter().try_for_each(|proof| argument(out, style, proof))
}

fn argument(out: &mut dyn Write, style: Style, proof: &Proof) -> io::Result<()> {
    writeln!(out, "May {} open {}?", sanitize::text(&proof.target), sanitize::text(&proof.device))?;
    for (index, program) in proof.programs.iter().enumerate() {
        writeln!(out)?;
        part(out, style, index + 1, program)?;
    }
    writeln!(out, "\n{}", sanitize::text(&proof.rule))?;
    if let Some(v1) = &proof.devices_v1 {
        writeln!(out, "{}", sanitize::text(v1))?;
    }
    write!(out, "Verdict: {}", style.verdict(proof.verdict))?;
    match &proof.why {
        Some(why) => writeln!(out, ", because {}", sanitize::text(why)),
        None => writeln!(out),
    }
}

fn part(out: &mut dyn Write, style: Style, number: usize, program: &ProgramProof) -> io::Result<()> {
    let name = if program.name.is_empty() { "(no name)".into() } else { sanitize::text(&program.name) };
    writeln!(out, "{number}. Program {} {name}", program.id)?;
    if !program.attached_at.is_empty() || !program.flags.is_empty() {
        writeln!(out, "   {}", programs::place(&program.attached_at, &program.flags))?;
    }
    for step in &program.steps {
        let mark = if program.decided_at == Some(step.pc) { '>' } else { ' ' };
        writeln!(out, " {mark} {}", instruction(step.pc, &step.text, &step.meaning))?;
    }
    write!(out, "   returns {}", style.verdict(program.returns))?;
    if let Some(retval) = program.retval {
        write!(out, "; error in force after it: {}", errno(retval))?;
    }
    match &program.why {
        Some(why) => writeln!(out, ", because {}", sanitize::text(why)),
        None => writeln!(out),
    }
}

fn errno(retval: i32) -> String {
    match retval {
        0 => "none".to_owned(),
        -1 => "-1 (EPERM)".to_owned(),
        -13 => "-13 (EACCES)".to_owned(),
        other => other.to_string(),
    }
}
