//! The help: keys, and what the glyphs mean.

use super::canvas::Canvas;
use super::cells::Rect;
use super::detail;
use crate::model::CellState;
use crate::render::cell::{Glyph, UNSURE};
use crate::top::Extent;

/// The width from which keys and glyphs stand beside each other.
const WIDE: u16 = 114;
/// The width of the keys then.
const KEYS_WIDTH: u16 = 54;

/// Each key with what it does; a line without a key belongs to the one before.
pub const KEYS: [(&str, &str); 20] = [
    ("arrows, hjkl", "move"),
    ("PgUp PgDn", "a page up or down"),
    ("Home End, g G", "to the first or last row"),
    ("Enter", "on a GPU: why, as gpumap explain;"),
    ("", "on a name: open or close it"),
    ("+ -", "open or close"),
    ("*", "open all, or close all"),
    ("Tab", "to the findings and back"),
    ("/, F4", "filter: user:NAME job:ID gpu:NAME"),
    ("", "or any text; all words must match"),
    ("s, F6", "sort"),
    ("Space", "freeze the screen, or go on"),
    ("< >", "step through saved nodes"),
    ("Esc", "back; without filter"),
    ("?, F1", "this help"),
    ("q, F10, Ctrl-C", "end"),
    ("C W n", "left of a name: the worst finding:"),
    ("", "critical, warning, note"),
    ("! ?", "behind a limit: it does not hold,"),
    ("", "or that is not known"),
];

/// Draws it from a line on, and says how many lines it has.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, line: usize) -> Extent {
    let is_ascii = canvas.theme.ascii;
    let (keys, glyphs) = (keys(), glyphs(is_ascii));
    let inside = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let room = usize::from(inside.height);
    let text = if area.width >= WIDE {
        let left = Rect { width: KEYS_WIDTH, ..inside };
        let right = Rect { x: inside.x + KEYS_WIDTH, width: inside.width - KEYS_WIDTH, ..inside };
        detail::show(canvas, left, &keys, line);
        detail::show(canvas, right, &glyphs, line);
        keys.len().max(glyphs.len())
    } else {
        let all = [glyphs, vec![String::new()], keys].concat();
        detail::show(canvas, inside, &all, line);
        all.len()
    };
    Extent { lines: room, text, rows: room }
}

fn keys() -> Vec<String> {
    let line = |(key, does): &(&str, &str)| format!("  {key:<15} {does}");
    std::iter::once("What keys do".to_owned()).chain(KEYS.iter().map(line)).collect()
}

fn glyphs(is_ascii: bool) -> Vec<String> {
    let line = |state| {
        let glyph = Glyph::of(state);
        format!("  {}  {}", glyph.text(is_ascii), glyph.meaning)
    };
    let unsure = format!("  {}  {}", UNSURE.0, UNSURE.1);
    let head = "What glyphs mean".to_owned();
    std::iter::once(head).chain(CellState::ALL.map(line)).chain([unsure]).collect()
}
