//! The glyph of each state of a cell, and what it means. The table of `top --once` and
//! the screen of `top` have the same ones.
//!
//! The shape says whether the GPU was allocated: a diamond was, of a circle nobody
//! knows, a triangle was not. It is the fuller the more is done with it. In ASCII a
//! capital letter was allocated.

use crate::model::CellState;

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
