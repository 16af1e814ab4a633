//! A screen as cells, and the bytes that make a terminal show it.
//!
//! gpumap sends what changed since the last drawing. Terminals differ about the width of
//! some characters: where a character is not ASCII, the cursor is placed anew behind it, so
//! that a name moves nothing else. A library for this brings 36 crates.

use std::io::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// A part of the screen, in columns and lines from the upper left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) x: u16,
    pub(super) y: u16,
    pub(super) width: u16,
    pub(super) height: u16,
}

impl Rect {
    /// The column behind it.
    pub(super) fn right(self) -> u16 {
        self.x.saturating_add(self.width)
    }

    /// The line below it.
    pub(super) fn bottom(self) -> u16 {
        self.y.saturating_add(self.height)
    }
}

/// A colour of the terminal's palette, the first 16 in the shades that its user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Color(pub(super) u8);

impl Color {
    pub(super) const RED: Self = Self(1);
    pub(super) const GREEN: Self = Self(2);
    pub(super) const YELLOW: Self = Self(3);
    pub(super) const BLUE: Self = Self(4);
    pub(super) const MAGENTA: Self = Self(5);
    pub(super) const CYAN: Self = Self(6);
    pub(super) const GRAY: Self = Self(8);
}

/// How a cell looks. What it does not say stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) foreground: Option<Color>,
    pub(super) background: Option<Color>,
    pub(super) bold: bool,
    pub(super) underlined: bool,
    pub(super) reversed: bool,
}

impl Style {
    pub(super) fn fg(self, color: Color) -> Self {
        Self { foreground: Some(color), ..self }
    }

    pub(super) fn bg(self, color: Color) -> Self {
        Self { background: Some(color), ..self }
    }

    pub(super) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(super) fn underlined(self) -> Self {
        Self { underlined: true, ..self }
    }

    pub(super) fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }

    /// This style with what another one says.
    pub(super) fn patch(self, other: Self) -> Self {
        Self {
            foreground: other.foreground.or(self.foreground),
            background: other.background.or(self.background),
            bold: self.bold || other.bold,
            underlined: self.underlined || other.underlined,
            reversed: self.reversed || other.reversed,
        }
    }

    /// The sequence that gives what follows this style and no other.
    fn select(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\x1b[0");
        for (is_set, code) in [(self.bold, "1"), (self.underlined, "4"), (self.reversed, "7")] {
            if is_set {
                let _in_memory = write!(out, ";{code}");
            }
        }
        for (color, code) in [(self.foreground, 38), (self.background, 48)] {
            if let Some(Color(color)) = color {
                let _in_memory = write!(out, ";{code};5;{color}");
            }
        }
        out.push(b'm');
    }
}

/// One column of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    /// Its character; `None` where a wide one to the left covers it.
    character: Option<char>,
    /// What combines with the character.
    marks: String,
    style: Style,
}

impl Cell {
    const BLANK: Self = Self {
        character: Some(' '),
        marks: String::new(),
        style: Style { foreground: None, background: None, bold: false, underlined: false, reversed: false },
    };

    fn is_ascii(&self) -> bool {
        self.character.is_some_and(|character| character.is_ascii()) && self.marks.is_empty()
    }
}

/// A screen full of cells.
#[derive(Clone, Debug)]
pub struct Cells {
    width: u16,
    cells: Vec<Cell>,
}

impl Cells {
    /// An empty screen of this size.
    #[must_use]
    pub fn new((width, height): (u16, u16)) -> Self {
        Self { width, cells: vec![Cell::BLANK; usize::from(width) * usize::from(height)] }
    }

    /// All of it.
    pub(super) fn area(&self) -> Rect {
        let height = self.cells.len().checked_div(usize::from(self.width)).unwrap_or(0);
        Rect { x: 0, y: 0, width: self.width, height: u16::try_from(height).unwrap_or(u16::MAX) }
    }

    fn cell(&mut self, x: u16, y: u16) -> Option<&mut Cell> {
        let place = usize::from(y) * usize::from(self.width) + usize::from(x);
        self.cells.get_mut(place).filter(|_| x < self.width)
    }

    /// Writes text in at most so many columns, and says how many it took.
    pub(super) fn text(&mut self, x: u16, y: u16, room: u16, text: &str, style: Style) -> u16 {
        let end = x.saturating_add(room).min(self.width);
        let mut next = x;
        for character in text.chars() {
            let Some(width) = character.width().and_then(|width| u16::try_from(width).ok()) else { continue };
            if width == 0 {
                self.mark(x, next, y, character);
            } else if width <= end.saturating_sub(next) {
                self.put(next, y, width, character, style);
                next += width;
            } else {
                break;
            }
        }
        next.saturating_sub(x)
    }

    /// Puts a mark on the character before a column, if text that began at `x` has one.
    fn mark(&mut self, x: u16, next: u16, y: u16, mark: char) {
        let before =
            (x..next).rev().find(|place| self.cell(*place, y).is_some_and(|cell| cell.character.is_some()));
        if let Some(cell) = before.and_then(|place| self.cell(place, y)) {
            cell.marks.push(mark);
        }
    }

    /// Puts a character of this width. Of a wide one that it covers in part nothing is left.
    fn put(&mut self, x: u16, y: u16, width: u16, character: char, style: Style) {
        for place in x..x + width {
            self.uncover(place, y);
            if let Some(cell) = self.cell(place, y) {
                let style = cell.style.patch(style);
                *cell = Cell { character: (place == x).then_some(character), style, ..Cell::BLANK };
            }
        }
    }

    /// Removes the wide character that has this cell among its columns.
    fn uncover(&mut self, x: u16, y: u16) {
        let is_covered = |cells: &mut Self, x| cells.cell(x, y).is_some_and(|cell| cell.character.is_none());
        let mut first = x;
        while first > 0 && is_covered(self, first) {
            first -= 1;
        }
        let mut behind = x.saturating_add(1);
        while is_covered(self, behind) {
            behind += 1;
        }
        if behind - first > 1 {
            for place in first..behind {
                if let Some(cell) = self.cell(place, y) {
                    *cell = Cell { style: cell.style, ..Cell::BLANK };
                }
            }
        }
    }

    /// Gives a part a style, and leaves its text.
    pub(super) fn style(&mut self, area: Rect, style: Style) {
        self.each(area, |cell| cell.style = cell.style.patch(style));
    }

    /// Empties a part.
    pub(super) fn clear(&mut self, area: Rect) {
        for y in area.y..area.bottom() {
            self.uncover(area.x, y);
            self.uncover(area.right().saturating_sub(1), y);
        }
        self.each(area, |cell| *cell = Cell::BLANK);
    }

    fn each(&mut self, area: Rect, mut change: impl FnMut(&mut Cell)) {
        for y in area.y..area.bottom() {
            for x in area.x..area.right() {
                if let Some(cell) = self.cell(x, y) {
                    change(cell);
                }
            }
        }
    }

    /// What makes a terminal that shows `before`, a screen of the same size, show this one.
    #[must_use]
    pub fn changes(&self, before: &Self) -> Vec<u8> {
        let mut out = Vec::new();
        let (mut selected, mut cursor) = (None, None);
        let width = usize::from(self.width).max(1);
        for (place, (cell, shown)) in self.cells.iter().zip(&before.cells).enumerate() {
            let Some(character) = cell.character.filter(|_| cell != shown) else { continue };
            let (x, y) = (place % width, place / width);
            if cursor != Some(place) {
                let _in_memory = write!(out, "\x1b[{};{}H", y + 1, x + 1);
            }
            if selected != Some(cell.style) {
                cell.style.select(&mut out);
                selected = Some(cell.style);
            }
            let covers = self.cells.iter().skip(place + 1).take(width - x - 1);
            let covers = covers.take_while(|cell| cell.character.is_none()).count();
            if covers > 0 {
                // A terminal that takes it for a narrow one shows nothing old beside it.
                let blanks = " ".repeat(covers + 1);
                let _in_memory = write!(out, "{blanks}\x1b[{};{}H", y + 1, x + 1);
            }
            let _in_memory = write!(out, "{character}{}", cell.marks);
            cursor = (cell.is_ascii() && x + 1 < width).then_some(place + 1);
        }
        if selected.is_some() {
            out.extend_from_slice(b"\x1b[0m");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal shows after each of these screens of one line.
    fn shown(screens: &[&dyn Fn(&mut Cells)]) -> String {
        let mut terminal = vt100::Parser::new(1.try_into().unwrap(), 12.try_into().unwrap(), 0);
        let mut before = Cells::new((12, 1));
        for draw in screens {
            let mut cells = Cells::new((12, 1));
            draw(&mut cells);
            terminal.process(&cells.changes(&before));
            assert!(cells.changes(&cells).is_empty());
            before = cells;
        }
        terminal.screen().contents().trim_end().to_owned()
    }

    fn write(text: &'static str, x: u16, room: u16) -> impl Fn(&mut Cells) {
        move |cells| {
            cells.text(x, 0, room, text, Style::default());
        }
    }

    /// Make sure that a wide character that is overwritten in part, by new text or by a
    /// later screen, leaves nothing, and that none is cut in two.
    #[test]
    fn wide() {
        assert_eq!(shown(&[&write("名前x", 0, 12)]), "名前x");
        assert_eq!(shown(&[&write("名前x", 0, 3)]), "名");
        assert_eq!(shown(&[&write("名前x", 0, 12), &write("ab", 0, 12)]), "ab");
        assert_eq!(shown(&[&write("abcd", 0, 12), &write("名", 1, 12)]), " 名");
        for (x, left) in [(0, "x 前"), (1, " x前"), (2, "名x"), (3, "名 x")] {
            let both = |cells: &mut Cells| {
                write("名前", 0, 12)(cells);
                write("x", x, 1)(cells);
            };
            assert_eq!(shown(&[&both]), left);
        }
        let cleared = |cells: &mut Cells| {
            write("名前", 0, 12)(cells);
            cells.clear(Rect { x: 1, y: 0, width: 2, height: 1 });
        };
        assert_eq!(shown(&[&cleared]), "");
        let end = Cells::new((12, 1)).text(11, 0, 12, "名", Style::default());
        assert_eq!(end, 0);
    }

    /// Make sure that marks stay with their character, that one without a character is
    /// dropped, and that control characters move nothing.
    #[test]
    fn marks() {
        assert_eq!(shown(&[&write("a\u{301}\u{302}b", 0, 2)]), "a\u{301}\u{302}b");
        assert_eq!(shown(&[&write("\u{301}ab", 3, 2)]), "   ab");
        assert_eq!(shown(&[&write("名\u{301}b", 0, 3)]), "名\u{301}b");
        assert_eq!(shown(&[&write("a\n\x1b\u{9b}b", 0, 2)]), "ab");
    }

    /// Make sure that only what changed is sent, and that a style ends with its cells.
    #[test]
    fn changes() {
        let (mut before, mut after) = (Cells::new((4, 2)), Cells::new((4, 2)));
        before.text(0, 0, 4, "abcd", Style::default());
        after.text(0, 0, 4, "abXd", Style::default());
        after.text(2, 1, 4, "yz", Style::default().bold().fg(Color::RED));
        let sent = String::from_utf8(after.changes(&before)).unwrap();
        assert_eq!(sent, "\x1b[1;3H\x1b[0mX\x1b[2;3H\x1b[0;1;38;5;1myz\x1b[0m");
        after.style(Rect { x: 0, y: 0, width: 9, height: 9 }, Style::default().reversed());
        assert!(after.cells.iter().all(|cell| cell.style.reversed));
        assert!(Cells::new((0, 0)).changes(&Cells::new((0, 0))).is_empty());
        assert_eq!(Cells::new((0, 3)).area().height, 0);
    }
}
