//! Where text is put on the screen, and in which colours.

use super::cells::{Cells, Color, Rect, Style};
use crate::model::{CellState, Severity};
use crate::render::sanitize;

/// A screen.
pub(super) struct Canvas<'b> {
    cells: &'b mut Cells,
    pub(super) theme: Theme,
}

impl<'b> Canvas<'b> {
    pub(super) fn new(cells: &'b mut Cells, theme: Theme) -> Self {
        Self { cells, theme }
    }

    /// Writes at most `width` columns of text, and says how many it took.
    pub(super) fn text(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let area = self.area();
        if x >= area.right() || y >= area.bottom() {
            return 0;
        }
        let room = width.min(area.right() - x);
        // A column has at least one character, unless these combine with others.
        let safe = sanitize::short(text, usize::from(room).saturating_mul(4), "");
        let spelled = self.spelled(&safe);
        self.cells.text(x, y, room, &spelled, style)
    }

    /// The same, with a mark at the end of text that has no room.
    pub(super) fn cut(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let taken = self.text(x, y, width, text, style);
        let is_whole = columns(text) <= usize::from(width);
        if !is_whole && taken > 0 {
            self.text(x + width.min(taken) - 1, y, 1, "…", style);
        }
    }

    /// The same at the right end of `width` columns.
    pub(super) fn right(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) {
        let free = usize::from(width).saturating_sub(columns(text));
        let free = u16::try_from(free).unwrap_or(width);
        self.text(x + free, y, width - free, text, style);
    }

    /// Writes one of our own glyphs, which is one column wide.
    pub(super) fn symbol(&mut self, x: u16, y: u16, symbol: &'static str, style: Style) {
        self.cells.text(x, y, 1, symbol, style);
    }

    /// Gives a part of the screen a style, and leaves its text.
    pub(super) fn style(&mut self, area: Rect, style: Style) {
        self.cells.style(area, style);
    }

    /// Clears a part of the screen.
    pub(super) fn clear(&mut self, area: Rect) {
        self.cells.clear(area);
    }

    /// All of the screen.
    pub(super) fn area(&self) -> Rect {
        self.cells.area()
    }

    /// The width of the screen.
    pub(super) fn width(&self) -> u16 {
        self.area().width
    }

    /// The text in the characters that the terminal has.
    fn spelled(&self, text: &str) -> String {
        let plain = |c: char| match c {
            c if c.is_ascii() => c,
            '…' => '~',
            '─' => '-',
            '│' => '|',
            '·' => '.',
            '▸' => '+',
            '▾' => '-',
            '↑' => '^',
            '↓' => 'v',
            _ => '?',
        };
        if self.theme.ascii { text.chars().map(plain).collect() } else { text.to_owned() }
    }
}

/// How many columns a text takes on a screen.
pub(super) fn columns(text: &str) -> usize {
    textwrap::core::display_width(&sanitize::text(text))
}

/// A line in pieces of so many columns, broken at spaces where there are any.
pub(super) fn folded(line: &str, width: usize) -> Vec<String> {
    if columns(line) <= width {
        return vec![line.to_owned()];
    }
    let indent = " ".repeat((line.len() - line.trim_start().len() + 4).min(width / 2));
    let options = textwrap::Options::new(width)
        .subsequent_indent(&indent)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(line, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

/// The colours that a terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colors {
    /// None, or none are wanted.
    None,
    /// The sixteen that every terminal has, in the shades that its user chose.
    #[default]
    Sixteen,
    /// 256 or more.
    Many,
}

/// How the screen looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// Without characters beyond ASCII.
    pub ascii: bool,
    /// The colours.
    pub colors: Colors,
}

impl Theme {
    /// Ordinary text.
    pub(super) fn plain(self) -> Style {
        Style::default()
    }

    /// Text that matters less.
    pub(super) fn faint(self) -> Style {
        match self.colors {
            Colors::None => Style::default(),
            Colors::Sixteen => Style::default().fg(Color::GRAY),
            Colors::Many => Style::default().fg(Color(244)),
        }
    }

    /// Text that matters more.
    pub(super) fn strong(self) -> Style {
        Style::default().bold()
    }

    /// The names of columns, keys and sections.
    pub(super) fn title(self) -> Style {
        self.colored(self.strong(), Color::CYAN)
    }

    /// The lines at the top and at the bottom.
    pub(super) fn frame(self) -> Style {
        match self.colors {
            Colors::None | Colors::Sixteen => Style::default().reversed(),
            Colors::Many => Style::default().fg(Color(252)).bg(Color(238)),
        }
    }

    /// What the user is at, in a list or in the matrix.
    pub(super) fn cursor(self) -> Style {
        Style::default().reversed()
    }

    /// The row of the cursor.
    pub(super) fn current(self) -> Style {
        match self.colors {
            Colors::None | Colors::Sixteen => self.strong(),
            Colors::Many => Style::default().bg(Color(236)),
        }
    }

    /// Something is not as it should be on this screen.
    pub(super) fn alert(self) -> Style {
        self.colored(self.strong(), Color::YELLOW)
    }

    /// A verdict that allows, and one that denies.
    pub(super) fn verdict(self, allows: bool) -> Style {
        self.colored(self.strong(), if allows { Color::GREEN } else { Color::RED })
    }

    /// A severity.
    pub(super) fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Critical => self.colored(self.strong(), Color::RED),
            Severity::Warning => self.colored(Style::default(), Color::YELLOW),
            Severity::Note => self.faint(),
        }
    }

    /// The state of a cell.
    pub(super) fn cell(self, state: CellState) -> Style {
        let plain = Style::default();
        match state {
            CellState::Nothing => self.faint(),
            CellState::Allowed => self.colored(plain, Color::BLUE),
            CellState::Asked => self.colored(plain, Color::CYAN),
            CellState::Held | CellState::GrantedHeld => self.colored(self.strong(), Color::GREEN),
            CellState::Granted => self.colored(plain, Color::BLUE),
            CellState::GrantedAsked => self.colored(plain, Color::CYAN),
            CellState::Unknown => self.colored(plain, Color::YELLOW),
            CellState::Claimed => self.colored(plain, Color::MAGENTA),
            CellState::Lost => self.colored(self.strong(), Color::MAGENTA),
            CellState::Beyond => self.colored(plain, Color::YELLOW),
            CellState::BeyondHeld | CellState::HeldDenied => self.colored(self.strong(), Color::RED),
        }
    }

    fn colored(self, style: Style, color: Color) -> Style {
        if self.colors == Colors::None { style } else { style.fg(color) }
    }
}
