//! The one look of tables: no lines, two spaces between columns, a header in capitals; and
//! colour, width and length of the output, which depend on the terminal and `-v`.

use std::borrow::Cow;
use std::io;
use std::io::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use owo_colors::OwoColorize as _;

use crate::model::{Severity, Verdict, Verdicts};

/// Prints rows under a header, indented by two. A first column that is a
/// verdict is coloured. Columns named in `right` are numbers.
///
/// The first column, numbers and headers are never broken.
///
/// Only as wide as the style unless `keep` says that the last column is a path,
/// which is never broken: a path must stay one word for copying and for grep.
pub(super) fn write(
    out: &mut dyn Write,
    style: Style,
    header: &[&str],
    right: &[&str],
    rows: Vec<Vec<String>>,
    last: Last,
) -> io::Result<()> {
    let widths: Vec<u16> = header.iter().enumerate().map(|(index, name)| least(index, name, &rows)).collect();
    let natural: usize = header.iter().enumerate().map(|(index, name)| most(index, name, &rows)).sum();
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec()).add_rows(rows);
    let wraps = last == Last::Wraps && natural > usize::from(style.width);
    if wraps {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(style.width.saturating_sub(2));
    }
    for (index, (column, name)) in table.column_iter_mut().zip(header).enumerate() {
        column.set_padding((0, 2));
        let least = widths.get(index).copied().unwrap_or_default();
        match index == 0 || right.contains(name) {
            _ if !wraps => {}
            true => drop(column.set_constraint(ColumnConstraint::ContentWidth)),
            false => drop(column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)))),
        }
        if right.contains(name) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().try_for_each(|line| writeln!(out, "  {}", color(style, line.trim_end())))
}

/// The longest word that is never broken.
const WORD: usize = 14;

/// The least width of a column: its header and its words stay whole.
pub(super) fn least(index: usize, name: &str, rows: &[Vec<String>]) -> u16 {
    let cells = rows.iter().filter_map(|row| row.get(index));
    let words = cells.flat_map(|cell| cell.split(' ')).map(|word| word.chars().take(WORD).count());
    let wide = words.max().unwrap_or(0).max(name.len()) + 2;
    u16::try_from(wide).unwrap_or(u16::MAX)
}

/// The width of a column if nothing is broken.
fn most(index: usize, name: &str, rows: &[Vec<String>]) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(index));
    cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(name.len()) + 2
}

/// The width of columns side by side.
pub(super) fn width(columns: &[(&str, Vec<String>)]) -> usize {
    let wide = |(name, cells): &(&str, Vec<String>)| {
        let cells = cells.iter().map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(name.len()) + 2
    };
    columns.iter().map(wide).sum()
}

/// The layout of a last column that is too wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// It is broken into lines.
    Wraps,
    /// It runs over.
    Runs,
}

/// Colours a line's leading verdict. comfy-table cannot know the width of
/// coloured text without its terminal features, so colour comes after layout.
fn color(style: Style, line: &str) -> String {
    match line.split_once(' ') {
        Some((word, rest)) => format!("{} {rest}", style.word(word)),
        None => style.word(line).into_owned(),
    }
}

/// The layout of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns to use.
    pub width: u16,
    /// Whether verdicts are coloured.
    pub color: bool,
    /// Whether to list entries that are otherwise counted.
    pub all: bool,
}

impl Default for Style {
    /// As in a pipe.
    fn default() -> Self {
        Self { width: 80, color: false, all: false }
    }
}

impl Style {
    /// A verdict, in its colour.
    pub fn verdict(self, verdict: impl Into<&'static str>) -> Cow<'static, str> {
        self.word(verdict.into())
    }

    /// A word in its colour if it is a verdict; others stay as they are.
    pub fn word<'a>(self, word: &'a str) -> Cow<'a, str> {
        if !self.color {
            return word.into();
        }
        match word.trim_end().parse() {
            Ok(Verdicts::Allow) => word.green().to_string().into(),
            Ok(Verdicts::Deny) => word.red().to_string().into(),
            Ok(Verdicts::Unknown | Verdicts::Mixed) => word.yellow().to_string().into(),
            Err(_) => word.into(),
        }
    }

    /// A severity in capitals, in its colour.
    pub fn severity(self, severity: Severity) -> String {
        let text = severity.to_string().to_uppercase();
        match severity {
            _ if !self.color => text,
            Severity::Critical => text.red().bold().to_string(),
            Severity::Warning => text.yellow().bold().to_string(),
            Severity::Note => text.bold().to_string(),
        }
    }

    /// A verdict padded to the width of the longest, `unknown`.
    pub fn verdict_column(self, verdict: Verdict) -> String {
        self.word(&format!("{verdict:<7}")).into_owned()
    }
}
