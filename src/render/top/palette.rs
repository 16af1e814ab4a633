//! Colours. Nothing is shown by colour alone: glyphs, letters and words say the same.

use ratatui::style::{Color, Modifier, Style};

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
        Style::new()
    }

    /// Text that matters less.
    pub(super) fn faint(self) -> Style {
        match self.colors {
            Colors::None => Style::new(),
            Colors::Sixteen => Style::new().fg(Color::DarkGray),
            Colors::Many => Style::new().fg(Color::Indexed(244)),
        }
    }

    /// Text that matters more.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The names of columns, keys and sections.
    pub(super) fn title(self) -> Style {
        self.colored(self.strong(), Color::Cyan)
    }

    /// The lines at the top and at the bottom.
    pub(super) fn frame(self) -> Style {
        match self.colors {
            Colors::None | Colors::Sixteen => Style::new().add_modifier(Modifier::REVERSED),
            Colors::Many => Style::new().fg(Color::Indexed(252)).bg(Color::Indexed(238)),
        }
    }

    /// What the user is at, in a list or in the matrix.
    pub(super) fn cursor(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// The row of the cursor.
    pub(super) fn current(self) -> Style {
        match self.colors {
            Colors::None | Colors::Sixteen => self.strong(),
            Colors::Many => Style::new().bg(Color::Indexed(236)),
        }
    }

    /// Something is not as it should be on this screen.
    pub(super) fn alert(self) -> Style {
        self.colored(self.strong(), Color::Yellow)
    }

    /// A verdict that allows, and one that denies.
    pub(super) fn verdict(self, allows: bool) -> Style {
        self.colored(self.strong(), if allows { Color::Green } else { Color::Red })
    }

    /// A severity.
    pub(super) fn severity(self, severity: Severity) -> Style {
        match severity {
            Severity::Critical => self.colored(self.strong(), Color::Red),
            Severity::Warning => self.colored(Style::new(), Color::Yellow),
            Severity::Note => self.faint(),
        }
    }

    /// The state of a cell.
    pub(super) fn cell(self, state: CellState) -> Style {
        let plain = Style::new();
        match state {
            CellState::Nothing => self.faint(),
            CellState::Allowed => self.colored(plain, Color::Blue),
            CellState::Asked => self.colored(plain, Color::Cyan),
            CellState::Held | CellState::GrantedHeld => self.colored(self.strong(), Color::Green),
            CellState::Granted => self.colored(plain, Color::Blue),
            CellState::GrantedAsked => self.colored(plain, Color::Cyan),
            CellState::Unknown => self.colored(plain, Color::Yellow),
            CellState::Claimed => self.colored(plain, Color::Magenta),
            CellState::Lost => self.colored(self.strong(), Color::Magenta),
            CellState::Beyond => self.colored(plain, Color::Yellow),
            CellState::BeyondHeld | CellState::HeldDenied => self.colored(self.strong(), Color::Red),
        }
    }

    fn colored(self, style: Style, color: Color) -> Style {
        if self.colors == Colors::None { style } else { style.fg(color) }
    }
}
