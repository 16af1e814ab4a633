//! The answer of `gpumap top --once`: the matrix of owners and GPUs as a table, and the
//! glyph of each state of a cell, which the page and the screen share.

use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use super::beside::{Beside, Facts, limits};
use super::table::{Last, Table};
use super::{Style, gpus, node, owner, sanitize, wrap};
use crate::model::{CellState, GpuKey};
use crate::report::{Finding, Gpu, Matrix, MatrixAnswer, MatrixCell, MatrixLimit, MatrixRow};

/// Columns up to which each has the whole name of its GPU.
const NAMED: usize = 8;
/// Characters of a command's name.
const COMM: usize = 16;
/// Findings that are listed before the rest is counted.
const FINDINGS: usize = 10;

/// How the table is printed, besides its style.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatrixStyle {
    /// Without characters beyond ASCII.
    pub ascii: bool,
    /// Whether processes have rows.
    pub processes: bool,
}

/// Prints the matrix and the findings.
pub fn write(out: &mut dyn Write, style: Style, how: MatrixStyle, answer: &MatrixAnswer) -> io::Result<()> {
    let (matrix, gpus) = (&answer.matrix, answer.gpus.as_slice());
    let is_listed = |row: &&MatrixRow| row.process.is_none() || how.processes;
    let rows: Vec<&MatrixRow> = matrix.rows.iter().filter(is_listed).collect();
    title(out, answer.gpus_unread, gpus)?;
    match (rows.is_empty(), style.all_seen) {
        (true, true) => writeln!(out, "  Nobody is here.")?,
        (true, false) => writeln!(out, "  Nobody was seen, but not all could be seen.")?,
        (false, _) => self::table(out, style, how, matrix, &rows, gpus)?,
    }
    node::left_out(out, matrix.left_out, matrix.left_out_unseen)?;
    findings(out, style, &answer.findings)
}

fn title(out: &mut dyn Write, gpus_unread: bool, gpus: &[Gpu]) -> io::Result<()> {
    let models: BTreeSet<&str> = gpus.iter().filter_map(|gpu| gpu.model.as_deref()).collect();
    let models: Vec<String> = models.into_iter().map(|model| sanitize::short(model, 40, "…")).collect();
    let of = if models.is_empty() { String::new() } else { format!(": {}", models.join(", ")) };
    match gpus.len() {
        0 => writeln!(out, "{}", gpus::none(gpus_unread)),
        1 => writeln!(out, "1 GPU{of}"),
        count => writeln!(out, "{count} GPUs{of}"),
    }
}

fn table(
    out: &mut dyn Write,
    style: Style,
    how: MatrixStyle,
    matrix: &Matrix,
    rows: &[&MatrixRow],
    gpus: &[Gpu],
) -> io::Result<()> {
    let labels = labels(&matrix.columns, gpus, matrix.columns.len() > NAMED);
    let cell = |row: &MatrixRow, place: usize| row.cells.get(place).map(|cell| self::cell(cell, how.ascii));
    let mut table = beside(Table::of(rows).text("OWNER", |row| name(row)), rows, Beside::User);
    for (place, label) in labels.iter().enumerate() {
        table = table.text(label, |row| cell(row, place).unwrap_or_default());
    }
    BEHIND.into_iter().fold(table, |table, one| beside(table, rows, one)).write(out, style, Last::Runs)?;
    legend(out, how.ascii, rows)
}

/// Adds a column beside the GPUs, if something is known for it.
fn beside<'a>(table: Table<'a, &'a MatrixRow>, rows: &[&MatrixRow], one: Beside) -> Table<'a, &'a MatrixRow> {
    let value = |row: &&MatrixRow| one.text(&Facts::of(row));
    let table =
        if one.is_number() { table.number(one.title(), value) } else { table.text(one.title(), value) };
    table.only_if(one.is_known(rows.iter().copied()))
}

/// What stands in a table behind the GPUs.
const BEHIND: [Beside; 6] =
    [Beside::Launches, Beside::Copied, Beside::Memory, Beside::Idle, Beside::Limits, Beside::Processes];

/// The name of a row, indented by its depth.
pub(super) fn name(row: &MatrixRow) -> String {
    match (&row.owner, &row.process) {
        (Some(owner), _) => {
            owner::label_as_squeue(owner, row.depth, row.array_task.as_deref().or(row.component.as_deref()))
        }
        (None, Some(process)) => {
            let comm = sanitize::short_with_hex(&process.comm, process.comm_hex.as_deref(), COMM);
            format!("{}{} {comm}", "  ".repeat(row.depth), process.pid)
        }
        (None, None) => String::new(),
    }
}

/// `◆`, or `◆?` if something of it is not known.
pub(super) fn cell(cell: &MatrixCell, is_ascii: bool) -> String {
    let unsure = if cell.is_unsure() && cell.state != CellState::Unknown { UNSURE.0 } else { "" };
    format!("{}{unsure}", Glyph::of(cell.state).text(is_ascii))
}

/// Names of the columns, or their numbers alone where there is no room.
pub(super) fn labels(columns: &[GpuKey], gpus: &[Gpu], is_short: bool) -> Vec<String> {
    let name = |key: &GpuKey| gpus::instance_name(key, gpus);
    columns.iter().map(|key| if is_short { short_label(&name(key)) } else { name(key) }).collect()
}

/// What follows the letters of a name: `0` of `nvidia0`, `0/1/0` of an instance; all of
/// a name without a number, or of an address.
fn short_label(name: &str) -> String {
    let number = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '/');
    if is_number { number.to_owned() } else { sanitize::short(name, 12, "…") }
}

/// Says what the glyphs mean that are there, and that have to be explained.
fn legend(out: &mut dyn Write, is_ascii: bool, rows: &[&MatrixRow]) -> io::Result<()> {
    let cells = || rows.iter().flat_map(|row| &row.cells);
    let states: BTreeSet<CellState> = cells().map(|cell| cell.state).collect();
    for state in states {
        let glyph = Glyph::of(state);
        writeln!(out, "  {} {}", glyph.text(is_ascii), glyph.meaning)?;
    }
    if cells().any(|cell| cell.is_unsure() && cell.state != CellState::Unknown) {
        writeln!(out, "  {} {}", UNSURE.0, UNSURE.1)?;
    }
    let is_broken = |limit: &MatrixLimit| limits(std::slice::from_ref(limit)).contains('!');
    if rows.iter().flat_map(|row| &row.limits).any(is_broken) {
        writeln!(out, "  ! behind a limit: it does not hold, or not wholly")?;
    }
    Ok(())
}

/// The findings that count, in a line each.
fn findings(out: &mut dyn Write, style: Style, findings: &[Finding]) -> io::Result<()> {
    let counted: Vec<&Finding> = findings.iter().filter(|finding| finding.ignored.is_none()).collect();
    let shown = if style.all { counted.len() } else { FINDINGS };
    if !counted.is_empty() {
        writeln!(out)?;
    }
    for finding in counted.iter().take(shown) {
        let head = format!("{} {}  ", style.severity(finding.severity), sanitize::text(&finding.id));
        wrap::write(out, &head, 2, usize::from(style.width), &finding.summary)?;
    }
    match counted.len().saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "… and {more} more findings (gpumap audit lists them)"),
    }
}

/// How a state is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glyph {
    /// One column wide.
    pub(super) symbol: &'static str,
    /// The same in ASCII.
    pub(super) ascii: &'static str,
    /// Its meaning, for the legend.
    pub(super) meaning: &'static str,
}

impl Glyph {
    /// The glyph of a state.
    pub(super) fn of(state: CellState) -> Self {
        let glyph = |symbol, ascii, meaning| Self { symbol, ascii, meaning };
        match state {
            CellState::Nothing => glyph("·", ".", "may not open it"),
            CellState::Allowed => glyph("○", "o", "may open it"),
            CellState::Asked => glyph("◐", "a", "may open it and asks for it"),
            CellState::Held => glyph("●", "h", "holds it"),
            CellState::Granted => glyph("◇", "O", "allocated, may open it"),
            CellState::GrantedAsked => glyph("◈", "A", "allocated, asks for it"),
            CellState::GrantedHeld => glyph("◆", "H", "allocated, holds it"),
            CellState::Unknown => glyph("?", "?", "whether it may open it is not known"),
            CellState::Claimed => glyph("~", "~", "may not open it; its own environment says allocated"),
            CellState::Lost => glyph("✗", "x", "allocated, and may not open it"),
            CellState::Beyond => glyph("△", "+", "not allocated, and may open it"),
            CellState::BeyondHeld => glyph("▲", "#", "not allocated, and holds it"),
            CellState::HeldDenied => glyph("!", "!", "holds it although its rules deny it now"),
        }
    }

    /// In UTF-8 or ASCII.
    pub(super) fn text(self, is_ascii: bool) -> &'static str {
        if is_ascii { self.ascii } else { self.symbol }
    }
}

/// Every glyph, for the manual: in UTF-8, in ASCII, and what it means.
pub fn glyphs() -> Vec<(&'static str, &'static str, &'static str)> {
    let all = CellState::ALL.map(Glyph::of);
    let all = all.iter().map(|glyph| (glyph.symbol, glyph.ascii, glyph.meaning));
    all.chain([(UNSURE.0, UNSURE.0, UNSURE.1)]).collect()
}

/// The meaning of the mark behind a glyph.
pub(super) const UNSURE: (&str, &str) = ("?", "behind another: part of it is not known");

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Make sure that no two states look alike, and that all are one column wide.
    #[test]
    fn distinct() {
        for is_ascii in [false, true] {
            let all = CellState::ALL.map(|state| Glyph::of(state).text(is_ascii));
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), CellState::ALL.len());
            assert!(all.iter().all(|text| text.chars().count() == 1 && (!is_ascii || text.is_ascii())));
        }
    }
}
