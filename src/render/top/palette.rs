//! Colours. Nothing is shown by colour alone: glyphs, letters and words say the same.

use super::cells::{Color, Style};
use crate::model::{CellState, Severity};

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
