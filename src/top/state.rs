//! Cursor, scroll and filter of `gpumap top`, and the effect of each key.

use std::collections::HashSet;

use super::key::Key;
use super::moment::Moment;
use super::moment::{Content, Detail, View};
use super::rows::Filter;
use super::rows::{Choice, rows};
use crate::model::MatrixOrder;
use crate::report::{MatrixRow, RowKey};

/// The most characters of a filter.
const FILTER: usize = 200;

/// What is left to do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// To end.
    Quit,
    /// To call [`State::explained`] with the answer.
    Explain(CellPosition),
    /// To show the saved moment after this one, or before it.
    Step {
        /// Whether after it.
        forward: bool,
    },
}

/// A cell of the matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellPosition {
    /// The row, by its place in the matrix.
    pub row: usize,
    /// The column.
    pub column: usize,
}

/// How much of it the screen had room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Rows of the matrix.
    pub rows: usize,
    /// Lines of the text in the foreground.
    pub lines: usize,
    /// How many of them the text has.
    pub text: usize,
}

/// All that the screen shows.
#[derive(Clone, Debug, Default)]
pub struct State {
    moment: Moment,
    is_frozen: bool,
    view: View,
    filter: String,
    order: MatrixOrder,
    open: HashSet<RowKey>,
    rows: Vec<usize>,
    /// The place of the cursor among the rows, and the column; 0 is the owner's.
    cursor: (usize, usize),
    /// The first row on the screen.
    first: usize,
    extent: Extent,
}

impl State {
    /// The screen of a moment.
    pub fn new(moment: Moment, filter: String, order: MatrixOrder) -> Self {
        let mut state = Self { moment, filter, order, ..Self::default() };
        state.arrange();
        state
    }

    /// The moment on the screen.
    pub fn moment(&self) -> &Moment {
        &self.moment
    }

    /// What stands in the foreground.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether the screen is to stay as it is: then [`Self::take`] is not called.
    pub fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// The words that rows have to match.
    pub fn filter(&self) -> &str {
        &self.filter
    }

    /// The order of owners.
    pub fn order(&self) -> MatrixOrder {
        self.order
    }

    /// The rows that are shown, by their places in the matrix.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The place of the first row on the screen.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The place of the cursor among the rows, and its column; 0 is the owner's.
    pub fn cursor(&self) -> (usize, usize) {
        self.cursor
    }

    /// The row under the cursor, with its place in the matrix.
    pub fn row(&self) -> Option<(usize, &MatrixRow)> {
        let index = *self.rows.get(self.cursor.0)?;
        Some((index, self.moment.matrix.rows.get(index)?))
    }

    /// Whether a row has others inside, and whether they are shown.
    pub fn inside(&self, index: usize) -> Option<bool> {
        let (row, next) = (self.moment.matrix.rows.get(index)?, self.moment.matrix.rows.get(index + 1)?);
        (next.depth > row.depth).then(|| self.open.contains(&row.key()))
    }

    /// How many entries the strip has: findings, then events.
    pub fn entries(&self) -> usize {
        self.moment.findings.len() + self.moment.events.len()
    }

    /// Shows another moment. The cursor stays at its owner, wherever that is now.
    pub fn take(&mut self, moment: Moment) {
        let key = self.row().map(|(_, row)| row.key());
        self.moment = moment;
        let known: HashSet<RowKey> = self.moment.matrix.rows.iter().map(MatrixRow::key).collect();
        self.open.retain(|key| known.contains(key));
        self.arrange();
        let rows = &self.moment.matrix.rows;
        let is_it = |index: &usize| rows.get(*index).map(MatrixRow::key) == key;
        if let Some(place) = self.rows.iter().position(is_it) {
            self.cursor.0 = place;
        }
        self.keep_within();
    }

    /// What there was room for when it was drawn last.
    pub fn drawn(&mut self, extent: Extent) {
        self.extent = extent;
        self.keep_within();
    }

    /// The answer to [`Effect::Explain`].
    pub fn explained(&mut self, cell: CellPosition, content: Content) {
        let row = self.moment.matrix.rows.get(cell.row).cloned();
        let cell = row.map(|row| (row, cell.column));
        self.view = View::Detail(Box::new(Detail { cell, content }), 0);
    }

    /// Brings the rows in their order.
    fn arrange(&mut self) {
        let filter = Filter::new(&self.filter, &self.moment.matrix, &self.moment.gpus);
        let choice = Choice { filter: &filter, order: self.order, open: Some(&self.open) };
        self.rows = rows(&self.moment.matrix, choice);
        self.keep_within();
    }

    /// Brings the cursor, and the part that is shown, back to where something is.
    fn keep_within(&mut self) {
        let last = self.rows.len().saturating_sub(1);
        let (row, column) = self.cursor;
        self.cursor = (row.min(last), column.min(self.moment.matrix.columns.len()));
        let room = self.extent.rows.max(1);
        let least = (self.cursor.0 + 1).saturating_sub(room);
        self.first =
            self.first.clamp(least, self.cursor.0).min(self.rows.len().saturating_sub(room).max(least));
        let lines = self.extent.text.saturating_sub(self.extent.lines);
        match &mut self.view {
            View::Help(line) | View::Detail(_, line) => *line = (*line).min(lines),
            View::Strip(_) if self.moment.findings.len() + self.moment.events.len() == 0 => {
                self.view = View::Matrix;
            }
            View::Strip(entry) => {
                *entry =
                    (*entry).min((self.moment.findings.len() + self.moment.events.len()).saturating_sub(1));
            }
            View::Matrix | View::Filter(_) | View::Order(_) => {}
        }
    }

    /// What a key does.
    pub fn key(&mut self, key: Key) -> Effect {
        let effect = match (&self.view, key) {
            (_, Key::Ctrl('c')) | (View::Matrix | View::Strip(_), Key::Char('q')) | (_, Key::F(10)) => {
                Effect::Quit
            }
            (View::Filter(_), key) => self.type_filter(key),
            (View::Order(_), key) => self.choose_order(key),
            (View::Help(_) | View::Detail(..), key) => self.read_text(key),
            (View::Strip(entry), key) => {
                let entry = *entry;
                self.move_in_strip(entry, key)
            }
            (View::Matrix, key) => self.move_in_matrix(key),
        };
        self.keep_within();
        effect
    }

    fn move_in_matrix(&mut self, key: Key) -> Effect {
        let page = self.extent.rows.max(1);
        let (row, column) = &mut self.cursor;
        match key {
            Key::Up | Key::Char('k') => *row = row.saturating_sub(1),
            Key::Down | Key::Char('j') => *row += 1,
            Key::Left | Key::Char('h') => *column = column.saturating_sub(1),
            Key::Right | Key::Char('l') => *column += 1,
            Key::PageUp | Key::Ctrl('b') => *row = row.saturating_sub(page),
            Key::PageDown | Key::Ctrl('f') => *row += page,
            Key::Home | Key::Char('g') => *row = 0,
            Key::End | Key::Char('G') => *row = usize::MAX / 2,
            Key::Tab => self.view = View::Strip(0),
            Key::Enter => return self.enter(),
            Key::Char('+') => self.open_row(true),
            Key::Char('-') => self.open_row(false),
            Key::Char('*') => self.open_all(),
            Key::Esc if !self.filter.is_empty() => {
                self.filter.clear();
                self.arrange();
            }
            other => return self.anywhere(other),
        }
        Effect::None
    }

    /// Keys that do the same in the matrix and in the strip.
    fn anywhere(&mut self, key: Key) -> Effect {
        match key {
            Key::Char('?') | Key::F(1) => self.view = View::Help(0),
            Key::Char('/') | Key::F(4) => self.view = View::Filter(self.filter.clone()),
            Key::Char('s') | Key::F(6) => self.view = View::Order(self.order),
            Key::Char(' ') => self.is_frozen = !self.is_frozen,
            Key::Char('>' | '.') => return Effect::Step { forward: true },
            Key::Char('<' | ',') => return Effect::Step { forward: false },
            _ => {}
        }
        Effect::None
    }

    fn move_in_strip(&mut self, entry: usize, key: Key) -> Effect {
        match key {
            Key::Up | Key::Char('k') => self.view = View::Strip(entry.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.view = View::Strip(entry + 1),
            Key::Home | Key::Char('g') => self.view = View::Strip(0),
            Key::End | Key::Char('G') => self.view = View::Strip(usize::MAX / 2),
            Key::Tab | Key::Esc => self.view = View::Matrix,
            Key::Enter => self.show_entry(entry),
            other => return self.anywhere(other),
        }
        Effect::None
    }

    /// A finding or an event, whole.
    fn show_entry(&mut self, entry: usize) {
        let findings = self.moment.findings.len();
        let finding = self.moment.findings.get(entry).cloned().map(|one| Content::Finding(Box::new(one)));
        let event = entry.checked_sub(findings).and_then(|place| self.moment.events.get(place));
        let event = event.cloned().map(|one| Content::Event(Box::new(one)));
        if let Some(content) = finding.or(event) {
            self.view = View::Detail(Box::new(Detail { cell: None, content }), 0);
        }
    }

    /// On an owner's name its inside is opened or closed; on a GPU the question is why.
    fn enter(&mut self) -> Effect {
        let Some((index, _)) = self.row() else { return Effect::None };
        match self.cursor.1.checked_sub(1) {
            Some(column) => Effect::Explain(CellPosition { row: index, column }),
            None => {
                let is_open = self.inside(index).unwrap_or_default();
                self.open_row(!is_open);
                Effect::None
            }
        }
    }

    /// Opens or closes the row under the cursor. One without an inside closes the owner
    /// around it.
    fn open_row(&mut self, open: bool) {
        let Some((index, row)) = self.row() else { return };
        let (has_inside, depth) = (self.inside(index).is_some(), row.depth);
        let around = || self.moment.matrix.rows.get(..index)?.iter().rev().find(|outer| outer.depth < depth);
        let key = match (has_inside, open) {
            (true, _) => row.key(),
            (false, true) => return,
            (false, false) => match around() {
                Some(outer) => outer.key(),
                None => return,
            },
        };
        if open {
            self.open.insert(key);
        } else {
            self.open.remove(&key);
            let rows = &self.moment.matrix.rows;
            let is_it = |place: &usize| rows.get(*place).map(MatrixRow::key).as_ref() == Some(&key);
            self.cursor.0 = self.rows.iter().position(is_it).unwrap_or(self.cursor.0);
        }
        self.arrange();
    }

    /// Opens every owner, or closes all if all are open.
    fn open_all(&mut self) {
        let at = self.row().map(|(_, row)| row.key());
        let with_inside = self.moment.matrix.rows.iter().enumerate();
        let all: HashSet<RowKey> = with_inside
            .filter(|(index, _)| self.inside(*index).is_some())
            .map(|(_, row)| row.key())
            .collect();
        self.open = if self.open.len() == all.len() { HashSet::new() } else { all };
        self.arrange();
        let rows = &self.moment.matrix.rows;
        let is_it = |place: &usize| rows.get(*place).map(MatrixRow::key) == at;
        self.cursor.0 = self.rows.iter().position(is_it).unwrap_or(self.cursor.0);
    }

    fn type_filter(&mut self, key: Key) -> Effect {
        match (key, &self.view) {
            (Key::Enter, _) => self.view = View::Matrix,
            (Key::Esc, View::Filter(before)) => {
                self.filter = before.clone();
                self.view = View::Matrix;
            }
            (Key::Backspace, _) => drop(self.filter.pop()),
            (Key::Ctrl('u'), _) => self.filter.clear(),
            (Key::Char(c), _) if self.filter.chars().count() < FILTER => self.filter.push(c),
            _ => return Effect::None,
        }
        self.arrange();
        Effect::None
    }

    fn choose_order(&mut self, key: Key) -> Effect {
        let View::Order(chosen) = self.view else { return Effect::None };
        let all = MatrixOrder::ALL;
        let at = all.iter().position(|order| *order == chosen).unwrap_or_default();
        let to = |place: usize| all.get(place).copied().unwrap_or(chosen);
        match key {
            Key::Up | Key::Char('k') => self.view = View::Order(to(at.saturating_sub(1))),
            Key::Down | Key::Char('j') => self.view = View::Order(to(at + 1)),
            Key::Enter => {
                self.order = chosen;
                self.view = View::Matrix;
                self.cursor.0 = 0;
                self.arrange();
            }
            Key::Esc | Key::Char('q' | 's') | Key::F(6) => self.view = View::Matrix,
            _ => {}
        }
        Effect::None
    }

    fn read_text(&mut self, key: Key) -> Effect {
        let page = self.extent.lines.max(1);
        let line = match &mut self.view {
            View::Help(line) | View::Detail(_, line) => line,
            _ => return Effect::None,
        };
        match key {
            Key::Up | Key::Char('k') => *line = line.saturating_sub(1),
            Key::Down | Key::Char('j') => *line += 1,
            Key::PageUp | Key::Ctrl('b') => *line = line.saturating_sub(page),
            Key::PageDown | Key::Ctrl('f') | Key::Char(' ') => *line += page,
            Key::Home | Key::Char('g') => *line = 0,
            Key::End | Key::Char('G') => *line = usize::MAX / 2,
            Key::Esc | Key::Enter | Key::Char('q' | '?') | Key::F(1) => self.view = View::Matrix,
            _ => {}
        }
        Effect::None
    }
}
