//! Programs in force on a cgroup, two lines each: the program, and where it is
//! attached.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::sanitize;
use crate::model::AttachFlag;
use crate::report::{Effective, Program};

/// Prints the programs in run order.
pub(super) fn write(
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
