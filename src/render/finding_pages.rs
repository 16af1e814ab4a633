//! The documentation of findings (`audit --list`, `audit --explain`).

use std::io::{self, Write};

use super::table::{self, Last};
use super::{Style, wrap};
use crate::report::Payload;

/// Prints ids, severities and titles.
pub fn list(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let kinds = payload.kinds.iter().flatten();
    let rows = kinds.map(|kind| vec![kind.id.clone(), kind.severity.to_string(), kind.title.clone()]);
    table::write(out, style, &["ID", "SEVERITY", "WHAT"], &[], rows.collect(), Last::Wraps)
}

/// Prints pages.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let width = usize::from(style.width).min(100);
    for kind in payload.kinds.iter().flatten() {
        let head = format!("{} {}  ", style.severity(kind.severity), kind.id);
        wrap::write(out, &head, 2, width, &kind.title)?;
        for paragraph in kind.page.split("\n\n") {
            writeln!(out)?;
            let text = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
            wrap::write(out, "  ", 2, width, &text)?;
        }
    }
    Ok(())
}
