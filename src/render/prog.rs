//! Programs: the answer of `gpumap prog` with facts, rules and instructions, and the
//! programs in force on a cgroup, two lines each.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use super::{Style, rules, sanitize};
use crate::model::AttachFlag;
use crate::report::{Effective, Line, Place, Program, ProgramsAnswer};

/// Column in which meanings start, if the instruction leaves room.
const MEANING: usize = 46;

/// Prints each program of the answer.
pub fn write(out: &mut dyn Write, style: Style, answer: &ProgramsAnswer) -> io::Result<()> {
    for (index, (id, program)) in answer.programs.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        writeln!(out, "program {}", title(*id, Some(program)))?;
        facts(out, program)?;
        rule_part(out, style, program, answer)?;
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
            let place = |at: &Place| place(&at.cgroup, &at.flags, at.link_unknown);
            places.iter().try_for_each(|at| writeln!(out, "  {}", place(at)))
        }
    }
}

fn rule_part(
    out: &mut dyn Write,
    style: Style,
    program: &Program,
    answer: &ProgramsAnswer,
) -> io::Result<()> {
    let key = program.policy.as_deref().unwrap_or_default();
    match answer.policies.get(key) {
        Some(policy) => {
            writeln!(out, "\nRules, if it were the only program")?;
            rules::write(out, style, policy, &[])
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

/// Prints the programs in run order.
pub(super) fn write_in_force(
    out: &mut dyn Write,
    effective: &[Effective],
    programs: &BTreeMap<u32, Program>,
) -> io::Result<()> {
    effective.iter().try_for_each(|attached| {
        writeln!(out, "  {}", title(attached.id, programs.get(&attached.id)))?;
        writeln!(out, "      {}", place(&attached.attached_at, &attached.flags, attached.link_unknown))
    })
}

/// Id, name, writer and load time on one line.
pub(super) fn title(id: u32, program: Option<&Program>) -> String {
    let Some(program) = program else { return format!("{id}  (not seen)") };
    let name = if program.name.is_empty() { "(no name)".into() } else { sanitize::text(&program.name) };
    let writer =
        program.writer.as_ref().map(|writer| format!("  like {}", sanitize::text(&writer.to_string())));
    let size = match program.insns {
        Some(count) => format!("  {count} insns"),
        None => "  instructions not readable".to_owned(),
    };
    let loaded = match program.loaded_at.as_str() {
        "" => String::new(),
        when => format!("  loaded {}", sanitize::text(when)),
    };
    format!("{id}  {name}{}{size}{loaded}", writer.unwrap_or_default())
}

/// Where a program is attached, with the flags: `at /a/b (multi, link)`; `link?` where
/// nobody could say whether a link holds it.
pub(super) fn place(attached_at: &str, flags: &[AttachFlag], link_unknown: bool) -> String {
    let words = flags.iter().map(AttachFlag::to_string);
    let words: Vec<String> = words.chain(link_unknown.then(|| "link?".to_owned())).collect();
    let flags = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    match attached_at {
        "" => format!("attached at a cgroup that could not be asked{flags}"),
        path => format!("attached at {}{flags}", sanitize::text(path)),
    }
}
