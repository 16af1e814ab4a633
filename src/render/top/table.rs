//! The matrix: which columns have room and how wide they are, names of rows, a glyph for
//! each GPU, and numbers beside it.

use super::canvas::{Canvas, columns, columns as width_of, folded};
use super::cells::{Rect, Style};
use crate::model::{CellState, Membership, Severity};
use crate::render::beside::{Beside, Facts, limits};
use crate::render::matrix::{Glyph, UNSURE, labels, name};
use crate::render::{owner, sanitize};
use crate::report::{Matrix, MatrixCell, MatrixRow};
use crate::top::{State, View};

/// Draws it, and says how many rows there is room for.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> usize {
    let columns = Columns::of(state, area.width);
    head(canvas, area, &columns, state);
    let room = usize::from(area.height.saturating_sub(1));
    if state.rows().is_empty() {
        let height = area.height.saturating_sub(1);
        empty(canvas, Rect { x: area.x + MARKS, y: area.y + 1, height, ..area }, state);
    }
    let shown = state.rows().iter().enumerate().skip(state.first()).take(room);
    for ((place, index), y) in shown.zip(area.y + 1..area.bottom()) {
        if let Some(row) = state.moment().matrix.rows.get(*index) {
            let line = Line { columns: &columns, row, index: *index, y, x: area.x };
            line.draw(canvas, state, place == state.cursor().0);
        }
    }
    room
}

/// Why there is no row.
fn empty(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let Some(failure) = &state.moment().failure else {
        let text = match (state.filter().is_empty(), state.moment().complete) {
            (true, true) => "Nobody is here.",
            (true, false) => "Nobody was seen, but not all could be seen.",
            (false, _) => "Nothing matches the filter.",
        };
        canvas.text(area.x, area.y, area.width, text, canvas.theme.faint());
        return;
    };
    let style = canvas.theme.alert();
    let width = usize::from(area.width.saturating_sub(area.x + 1)).max(1);
    let lines = folded(&format!("There is nothing to show: {failure}"), width);
    for (line, y) in lines.iter().zip(area.y..area.bottom()) {
        canvas.text(area.x, y, area.width, line, style);
    }
}

/// The names of the columns.
fn head(canvas: &mut Canvas<'_>, area: Rect, columns: &Columns, state: &State) {
    let theme = canvas.theme;
    canvas.text(area.x + MARKS, area.y, columns.name, "OWNER", theme.title());
    let mut x = area.x + columns.name;
    let at = state.cursor().1;
    if !columns.extras.contains(&Beside::User) {
        x = gpu_names(canvas, x, area.y, columns, at);
    }
    for extra in &columns.extras {
        let (title, width) = (extra.title(), extra.width());
        if *extra == Beside::User {
            canvas.text(x, area.y, width, title, theme.title());
            x = gpu_names(canvas, x + width, area.y, columns, at);
        } else {
            put(canvas, x, area.y, *extra, title, theme.title());
            x += width;
        }
    }
}

fn gpu_names(canvas: &mut Canvas<'_>, x: u16, y: u16, columns: &Columns, at: usize) -> u16 {
    let theme = canvas.theme;
    let mut x = x;
    for (label, column) in columns.labels.iter().zip(columns.first + 1..) {
        let style = if column == at { theme.title().underlined() } else { theme.title() };
        canvas.text(x + 1, y, columns.width - 1, label, style);
        x += columns.width;
    }
    if columns.is_cut.0 {
        canvas.text(
            x.saturating_sub(columns.width * u16::try_from(columns.labels.len()).unwrap_or(0)),
            y,
            1,
            "<",
            theme.alert(),
        );
    }
    if columns.is_cut.1 {
        canvas.text(x, y, 1, ">", theme.alert());
    }
    x
}

/// Puts a text beside the matrix.
fn put(canvas: &mut Canvas<'_>, x: u16, y: u16, extra: Beside, text: &str, style: Style) {
    let width = extra.width();
    if extra.is_number() {
        canvas.right(x, y, width, text, style);
    } else {
        canvas.cut(x + 1, y, width - 1, text, style);
    }
}

/// A row on the screen.
struct Line<'a> {
    columns: &'a Columns,
    row: &'a MatrixRow,
    index: usize,
    x: u16,
    y: u16,
}

impl Line<'_> {
    fn draw(&self, canvas: &mut Canvas<'_>, state: &State, is_current: bool) {
        let theme = canvas.theme;
        if is_current {
            let width = canvas.width();
            canvas.style(Rect { x: self.x, y: self.y, width, height: 1 }, theme.current());
        }
        let cursor = (is_current && !matches!(state.view(), View::Strip(_))).then(|| state.cursor().1);
        self.name(canvas, state, cursor == Some(0));
        let facts = Facts::of(self.row);
        let mut x = self.x + self.columns.name;
        if self.columns.extras.contains(&Beside::User) {
            put(canvas, x - 1, self.y, Beside::User, &Beside::User.text(&facts), theme.faint());
            x += Beside::User.width();
        }
        for (cell, column) in self.row.cells.iter().skip(self.columns.first).zip(self.columns.first + 1..) {
            if column > self.columns.first + self.columns.labels.len() {
                break;
            }
            self.cell(canvas, x + 1, cell, cursor == Some(column));
            x += self.columns.width;
        }
        for extra in self.columns.extras.iter().filter(|extra| **extra != Beside::User) {
            put(canvas, x, self.y, *extra, &extra.text(&facts), theme.plain());
            x += extra.width();
        }
    }

    /// The severity of a finding, whether it is open, and the name.
    fn name(&self, canvas: &mut Canvas<'_>, state: &State, is_cursor: bool) {
        let theme = canvas.theme;
        if let Some(severity) = self.row.finding {
            canvas.text(self.x + 1, self.y, 1, letter(severity), theme.severity(severity));
        }
        let text = name(self.row);
        let indent = u16::try_from(text.len() - text.trim_start().len()).unwrap_or(0);
        let mark = match state.inside(self.index) {
            Some(true) => "▾",
            Some(false) => "▸",
            None => " ",
        };
        let width = self.columns.name.saturating_sub(MARKS + 1);
        canvas.text(self.x + 2 + indent.min(width), self.y, 1, mark, theme.faint());
        let style = match (is_cursor, &self.row.process) {
            (true, _) => theme.cursor(),
            (false, Some(_)) => theme.faint(),
            (false, None) if self.row.depth == 0 => theme.strong(),
            (false, None) => theme.plain(),
        };
        let shown = text.trim_start();
        let indent = indent.min(width);
        canvas.cut(self.x + MARKS + indent, self.y, width - indent, shown, style);
    }

    fn cell(&self, canvas: &mut Canvas<'_>, x: u16, cell: &MatrixCell, is_cursor: bool) {
        let theme = canvas.theme;
        let mut style = theme.cell(cell.state);
        if matches!(cell.finding, Some(Severity::Critical | Severity::Warning)) {
            style = style.underlined();
        }
        if is_cursor {
            style = style.patch(theme.cursor());
        }
        let glyph = Glyph::of(cell.state).text(theme.ascii);
        canvas.symbol(x, self.y, glyph, style);
        if cell.is_unsure() && cell.state != CellState::Unknown {
            canvas.text(x + 1, self.y, 1, UNSURE.0, theme.cell(CellState::Unknown));
        }
    }
}

fn letter(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "C",
        Severity::Warning => "W",
        Severity::Note => "n",
    }
}

/// What the cursor is at, in words.
pub(super) fn words(canvas: &mut Canvas<'_>, area: Rect, state: &State) {
    let theme = canvas.theme;
    let Some((_, row)) = state.row() else { return };
    let who = match (&row.owner, &row.process) {
        (Some(owner), _) => owner::full(owner),
        (None, Some(process)) => {
            format!("process {} {}", process.pid, sanitize::short(&process.comm, 16, "…"))
        }
        (None, None) => return,
    };
    let mut x = area.x + 1;
    x += canvas.text(x, area.y, area.width / 2, &who, theme.strong());
    let Some(column) = state.cursor().1.checked_sub(1) else {
        let cgroup = sanitize::with_hex(&row.cgroup, row.cgroup_hex.as_deref());
        canvas.cut(x + 2, area.y, area.right().saturating_sub(x + 2), &cgroup, theme.faint());
        return;
    };
    let names = labels(&state.moment().matrix.columns, &state.moment().gpus, false);
    let (Some(cell), Some(gpu)) = (row.cells.get(column), names.get(column)) else { return };
    x += canvas.text(x, area.y, area.right().saturating_sub(x), &format!(" · {gpu}: "), theme.plain());
    let meaning = Glyph::of(cell.state).meaning;
    let room = area.right().saturating_sub(x);
    x += canvas.text(x, area.y, room, meaning, theme.cell(cell.state));
    let unknown: Vec<&str> =
        sets(cell).into_iter().filter(|(_, is)| *is == Membership::Unknown).map(|(name, _)| name).collect();
    let unknown = (!unknown.is_empty()).then(|| format!("; not known: {}", unknown.join(", ")));
    let limit = state.moment().matrix.columns.get(column).map(|key| row.limits_on(key));
    let limit = limit.filter(|limits| !limits.is_empty()).map(|found| format!("; limit {}", limits(&found)));
    for rest in limit.into_iter().chain(unknown) {
        let room = area.right().saturating_sub(x);
        if columns(&rest) <= usize::from(room) {
            x += canvas.text(x, area.y, room, &rest, theme.faint());
        }
    }
}

/// The four sets by name.
pub(super) fn sets(cell: &MatrixCell) -> [(&'static str, Membership); 4] {
    [("allocated", cell.allocated), ("allowed", cell.allowed), ("asks for", cell.asked), ("holds", cell.held)]
}

/// The least of an owner's name, on a narrow screen and on others, and the most, unless
/// there is a longer name.
const NAME: [u16; 3] = [20, 28, 44];
/// Columns by which that of a GPU is wider where there is room.
const WIDER: usize = 6;
/// The width from which a screen is not narrow.
const WIDE: u16 = 72;
/// What stands before a name: the severity of a finding, and whether it is open.
pub(super) const MARKS: u16 = 4;

/// What may stand beside the matrix, from left to right; the user stands before the GPUs.
const BESIDE: [Beside; 7] = [
    Beside::User,
    Beside::LaunchRate,
    Beside::CopyRate,
    Beside::Memory,
    Beside::Limits,
    Beside::Idle,
    Beside::Processes,
];
/// The same, the most useful first: these are the last to go where there is no room.
const USEFUL: [Beside; 7] = [
    Beside::Processes,
    Beside::User,
    Beside::LaunchRate,
    Beside::Memory,
    Beside::Limits,
    Beside::Idle,
    Beside::CopyRate,
];

/// Those that something is known for, the most useful first.
fn known(matrix: &Matrix) -> impl Iterator<Item = Beside> {
    USEFUL.into_iter().filter(|one| one.is_known(matrix.rows.iter()))
}

/// The columns of a screen.
#[derive(Debug)]
pub(super) struct Columns {
    /// The width of the owner's column, with its marks.
    pub(super) name: u16,
    /// Names of the GPUs that are shown.
    pub(super) labels: Vec<String>,
    /// The first of them.
    pub(super) first: usize,
    /// The width of each, with the space before it.
    pub(super) width: u16,
    /// What else is shown, from left to right.
    pub(super) extras: Vec<Beside>,
    /// Whether GPUs are left out before or behind.
    pub(super) is_cut: (bool, bool),
}

impl Columns {
    /// Lays them out. The names of GPUs give way first, then what is beside the matrix,
    /// then GPUs far from the cursor.
    pub(super) fn of(state: &State, width: u16) -> Self {
        let matrix = &state.moment().matrix;
        let all = |is_short| labels(&matrix.columns, &state.moment().gpus, is_short);
        let wide = |labels: &[String]| labels.iter().map(|label| width_of(label)).max().unwrap_or(0).max(2);
        let count = matrix.columns.len();
        let [narrow, least, most] = NAME;
        let least = if width < WIDE { narrow } else { least };
        let room = usize::from(width.saturating_sub(least));
        let spare = |column: usize| room.checked_sub((column + 1) * count);
        let (long, short) = (all(false), all(true));
        let beside = known(matrix).take(4).map(|extra| usize::from(extra.width())).sum::<usize>();
        let is_roomy = spare(wide(&long)).is_some_and(|left| left >= beside);
        let labels = if is_roomy { long } else { short };
        let mut column = wide(&labels) + 1;
        let mut extras = Vec::new();
        let mut left = room.saturating_sub(column * count);
        for extra in known(matrix) {
            let needs = usize::from(extra.width());
            if left >= needs {
                left -= needs;
                extras.push(extra);
            }
        }
        extras.sort_by_key(|extra| BESIDE.iter().position(|one| one == extra));
        let fit = (room / column).clamp(1, count.max(1));
        let at = state.cursor().1.saturating_sub(1);
        let first = if fit >= count { 0 } else { at / fit * fit };
        let shown: Vec<String> = labels.into_iter().skip(first).take(fit).collect();
        let longest = matrix.rows.iter().map(|row| width_of(&name(row)) + usize::from(MARKS) + 1).max();
        let most = most.max(longest.and_then(|longest| u16::try_from(longest).ok()).unwrap_or(0));
        let name = least.saturating_add(u16::try_from(left).unwrap_or(u16::MAX)).min(most).min(width);
        let left = left.saturating_sub(usize::from(name.saturating_sub(least)));
        column += left.checked_div(count).unwrap_or(0).min(WIDER);
        let is_cut = (first > 0, first + shown.len() < count);
        Self { name, labels: shown, first, width: u16::try_from(column).unwrap_or(u16::MAX), extras, is_cut }
    }
}
