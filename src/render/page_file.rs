//! What `report` says on the terminal: the file that it wrote.

use std::io::{self, Write};

use super::counted::counted;
use super::{Style, sanitize};
use crate::report::{PageFile, Payload};

/// Prints one line, and one for each thing that was left out.
pub fn write(out: &mut dyn Write, _style: Style, payload: &Payload) -> io::Result<()> {
    payload.page.iter().try_for_each(|file| one(out, file))
}

fn one(out: &mut dyn Write, file: &PageFile) -> io::Result<()> {
    let size = file.bytes.div_ceil(1024);
    writeln!(
        out,
        "{}: {size} KiB, {}, {}, {}",
        sanitize::text(&file.file),
        counted(file.owners, "owner"),
        counted(file.findings, "finding"),
        counted(file.proofs, "proof")
    )?;
    writeln!(out, "  SHA-256 of the observation in it: {}", sanitize::text(&file.observation_sha256))?;
    file.left_out.iter().try_for_each(|cut| {
        writeln!(
            out,
            "  left out: {}: {} ({})",
            sanitize::text(&cut.what),
            cut.count,
            sanitize::text(&cut.instead)
        )
    })
}
