//! One program: its facts, its rules, its instructions with their meaning.

use std::io::{self, Write};

use super::{Style, programs, rules, sanitize};
use crate::report::{Line, Payload, Place, Program};

/// Column in which meanings start, if the instruction leaves room.
const MEANING: usize = 46;

/// Prints each program of the answer.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    for (index, (id, program)) in payload.programs.iter().flatten().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "program {}", programs::title(*id, Some(program)))?;
        facts(out, program)?;
        rule_part(out, style, program, payload)?;
        code(out, program.disassembly.as_deref().unwrap_or_default())?;
    }
    Ok(())
}

fn facts(out: &mut dyn Write, program: &Program) -> io::Result<()> {
    if !program.tag.is_empty() {
        writeln!(out, "  tag {}, loaded by uid {}", sanitize::text(&program.tag), program.uid)?;
    }
    if !program.maps.is_empty() {
        let maps: Vec<String> = program.maps.iter().map(u32::to_string).collect();
        writeln!(out, "  maps {}", maps.join(", "))?;
    }
    match program.attached.as_deref() {
        None => Ok(()),
        Some([]) => writeln!(out, "  attached to no cgroup that can be seen from here"),
        Some(places) => {
            let place = |at: &Place| programs::place(&at.cgroup, &at.flags, at.link_unknown);
            places.iter().try_for_each(|at| writeln!(out, "  {}", place(at)))
        }
    }
}

fn rule_part(out: &mut dyn Write, style: Style, program: &Program, payload: &Payload) -> io::Result<()> {
    let key = program.policy.as_deref().unwrap_or_default();
    match payload.policies.as_ref().and_then(|policies| policies.get(key)) {
        Some(policy) => {
            writeln!(out, "\nRules, if it were the only program")?;
            rules::write(out, style, policy, payload.gpus.as_deref().unwrap_or_default())
        }
        None => writeln!(out, "\nRules: not decoded"),
    }
}

fn code(out: &mut dyn Write, lines: &[Line]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nInstructions")?;
    lines.iter().try_for_each(|line| writeln!(out, "  {}", instruction(line.pc, &line.text, &line.meaning)))
}

/// An instruction and its meaning in two columns.
pub(super) fn instruction(pc: usize, text: &str, meaning: &str) -> String {
    let code = format!("{pc:>4}: {}", sanitize::text(text));
    match meaning {
        "" => code,
        meaning => format!("{code:<MEANING$}  ; {}", sanitize::text(meaning)),
    }
}
