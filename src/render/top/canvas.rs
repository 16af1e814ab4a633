//! Where text is put on the screen. It is made harmless here: what would move the
//! cursor or turn the direction of writing is shown as an escape.

use super::cells::{Cells, Rect, Style};
use super::palette::Theme;
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
