//! The one look of tables: no lines, two spaces between columns, a header in capitals; and
//! colour, width and length of the output, which depend on the terminal and `-v`.

use std::borrow::Cow;
use std::io;
use std::io::Write;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width};
use owo_colors::OwoColorize as _;

use crate::model::{Severity, Verdict, Verdicts};

/// A table, made column by column: what a column is called, where it stands, when it is left
/// out and what it says of a row are one place in the code.
pub(super) struct Table<'a, R> {
    rows: &'a [R],
    columns: Vec<Column<'a>>,
}

/// A column with its cells.
struct Column<'a> {
    title: &'a str,
    is_number: bool,
    cells: Vec<String>,
}

impl<'a, R> Table<'a, R> {
    /// A table of these rows, without columns.
    pub(super) fn of(rows: &'a [R]) -> Self {
        Self { rows, columns: Vec::new() }
    }

    /// Adds a column of words.
    pub(super) fn text(self, title: &'a str, value: impl Fn(&R) -> String) -> Self {
        self.with(title, false, value)
    }

    /// Adds a column of numbers, which stand at its right end and are never broken.
    pub(super) fn number(self, title: &'a str, value: impl Fn(&R) -> String) -> Self {
        self.with(title, true, value)
    }

    fn with(mut self, title: &'a str, is_number: bool, value: impl Fn(&R) -> String) -> Self {
        let cells = self.rows.iter().map(value).collect();
        self.columns.push(Column { title, is_number, cells });
        self
    }

    /// Leaves the last column out again unless this holds.
    pub(super) fn only_if(mut self, is_shown: bool) -> Self {
        if !is_shown {
            self.columns.pop();
        }
        self
    }

    /// Puts the last column in front of the others.
    pub(super) fn in_front(mut self) -> Self {
        self.columns.rotate_right(1);
        self
    }

    /// The width if nothing is broken.
    pub(super) fn width(&self) -> usize {
        self.columns.iter().map(Column::width).sum()
    }

    /// The least width: headers, and words that are not too long, stay whole.
    pub(super) fn least_width(&self) -> usize {
        self.columns.iter().map(|column| usize::from(column.least_width())).sum()
    }

    /// The cells of a row.
    #[cfg(test)]
    pub(super) fn row(&self, place: usize) -> Vec<String> {
        self.columns.iter().map(|column| column.cells[place].clone()).collect()
    }

    /// Prints it, indented by two. A first column that is a verdict is coloured.
    ///
    /// The first column, numbers and headers are never broken. Only as wide as the style
    /// unless `last` says that the last column runs over: a path must stay one word for
    /// copying and for grep.
    pub(super) fn write(self, out: &mut dyn Write, style: Style, last: Last) -> io::Result<()> {
        write(out, style, &self.columns, self.rows.len(), last)
    }
}

impl Column<'_> {
    /// With the space behind it.
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(self.title.len()) + 2
    }

    fn least_width(&self) -> u16 {
        let words = self.cells.iter().flat_map(|cell| cell.split(' '));
        let words = words.map(|word| word.chars().take(WORD).count());
        u16::try_from(words.max().unwrap_or(0).max(self.title.len()) + 2).unwrap_or(u16::MAX)
    }
}

fn write(
    out: &mut dyn Write,
    style: Style,
    columns: &[Column<'_>],
    rows: usize,
    last: Last,
) -> io::Result<()> {
    let width: usize = columns.iter().map(Column::width).sum();
    let wraps = last == Last::Wraps && width > usize::from(style.width);
    let row = |place: usize| columns.iter().filter_map(move |column| column.cells.get(place));
    let mut table = comfy_table::Table::new();
    table.load_style(NOTHING).set_header(columns.iter().map(|column| column.title));
    table.add_rows((0..rows).map(row));
    if wraps {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(style.width.saturating_sub(2));
    }
    for (index, (laid_out, column)) in table.column_iter_mut().zip(columns).enumerate() {
        laid_out.set_padding((0, 2));
        let constraint = match index == 0 || column.is_number {
            true => ColumnConstraint::ContentWidth,
            false => ColumnConstraint::LowerBoundary(Width::Fixed(column.least_width())),
        };
        if wraps {
            laid_out.set_constraint(constraint);
        }
        if column.is_number {
            laid_out.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().try_for_each(|line| writeln!(out, "  {}", color(style, line.trim_end())))
}

/// What a cell says where there is nothing.
pub(super) fn or_dash(text: Option<impl Into<String>>) -> String {
    text.map_or_else(|| "-".to_owned(), Into::into)
}

/// The longest word that is never broken.
const WORD: usize = 14;

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
    /// Whether nothing was hidden from the answer: only then an empty list says that
    /// nobody is there, and otherwise that nobody was seen.
    pub all_seen: bool,
}

impl Default for Style {
    /// As in a pipe.
    fn default() -> Self {
        Self { width: 80, color: false, all: false, all_seen: true }
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
