//! The screen of `gpumap top`, drawn into cells.
//!
//! Drawing lays out and computes nothing else. What it shows is a
//! [`State`](crate::top::State); how much of it had room is its answer. All text goes
//! through [`Canvas`], which makes it harmless.

mod canvas;
mod cells;
mod frame;
mod strip;
mod table;
mod text;

use crate::top::{Extent, State, View};
use canvas::Canvas;
use cells::Rect;

pub use canvas::{Colors, Theme};
pub use cells::Cells;
pub use text::KEYS;

/// The least size of a screen on which anything can be shown.
const LEAST: (u16, u16) = (24, 8);

/// Draws the screen, and says how much there was room for.
pub fn draw(cells: &mut Cells, state: &State, theme: Theme) -> Extent {
    let mut canvas = Canvas::new(cells, theme);
    let area = canvas.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        canvas.text(0, 0, area.width, "too small", theme.plain());
        return Extent::default();
    }
    frame::draw_header(&mut canvas, state);
    frame::draw_bar(&mut canvas, state, area.height - 1);
    let middle = Rect { y: 1, height: area.height - 2, ..area };
    match state.view() {
        View::Help(line) => text::draw_help(&mut canvas, middle, *line),
        View::Detail(detail, line) => text::draw_detail(&mut canvas, middle, state, detail, *line),
        View::Matrix | View::Strip(_) | View::Filter(_) | View::Order(_) => {
            let extent = matrix(&mut canvas, middle, state);
            if let View::Order(chosen) = state.view() {
                frame::draw_menu(&mut canvas, middle, *chosen);
            }
            extent
        }
    }
}

/// The matrix, what its cursor is at, and the strip below.
fn matrix(canvas: &mut Canvas<'_>, area: Rect, state: &State) -> Extent {
    let strip = strip::height(state, area.height);
    let words = Rect { y: area.y + area.height - strip - 1, height: 1, ..area };
    let table = Rect { height: area.height - strip - 1, ..area };
    let below = Rect { y: words.y + 1, height: strip, ..area };
    let rows = table::draw(canvas, table, state);
    table::words(canvas, words, state);
    strip::draw(canvas, below, state, rows);
    Extent { rows, ..Extent::default() }
}
