//! The menu of orders.

use super::canvas::Canvas;
use super::cells::Rect;
use crate::model::MatrixOrder;

/// Draws it in the middle of an area.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, chosen: MatrixOrder) {
    let theme = canvas.theme;
    let height = u16::try_from(MatrixOrder::ALL.len() + 2).unwrap_or(0).min(area.height);
    let width = 24.min(area.width);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    canvas.clear(place);
    canvas.style(place, theme.frame());
    canvas.text(place.x + 2, place.y, width - 2, "Sort owners by", theme.frame().patch(theme.strong()));
    for (order, y) in MatrixOrder::ALL.into_iter().zip(place.y + 1..place.bottom().saturating_sub(1)) {
        let is_it = order == chosen;
        let style = if is_it { theme.frame().patch(theme.strong()) } else { theme.frame() };
        let mark = if is_it { ">" } else { " " };
        canvas.text(place.x + 2, y, width - 2, &format!("{mark} {order}"), style);
    }
}
