//! The last line: the keys that do something here, or what is typed.

use super::canvas::Canvas;
use super::cells::Rect;
use crate::top::{Origin, State, View};

/// Draws it at `y`.
pub(super) fn draw(canvas: &mut Canvas<'_>, state: &State, y: u16) {
    let (theme, width) = (canvas.theme, canvas.width());
    canvas.style(Rect { x: 0, y, width, height: 1 }, theme.frame());
    if let View::Filter(_) = state.view() {
        let used = canvas.text(0, y, width, " Filter: ", theme.frame().patch(theme.strong()));
        let typed = canvas.text(used, y, width.saturating_sub(used), state.filter(), theme.frame());
        canvas.text(used + typed, y, 1, "_", theme.frame());
        let hint = "user:NAME job:ID gpu:NAME text  Enter keeps  Esc drops ";
        let room = width.saturating_sub(used + typed + 2);
        if usize::from(room) >= hint.len() {
            canvas.right(used + typed + 2, y, room, hint, theme.frame());
        }
        return;
    }
    let mut x = 0;
    for (key, does) in keys(state) {
        let room = width.saturating_sub(x);
        if usize::from(room) < key.len() + does.len() + 3 {
            break;
        }
        x += canvas.text(x, y, room, &format!(" {key}"), theme.frame().patch(theme.title()));
        x += canvas.text(x, y, width.saturating_sub(x), &format!(" {does} "), theme.frame());
    }
}

/// The keys, the most useful first.
fn keys(state: &State) -> Vec<(&'static str, &'static str)> {
    let steps = matches!(state.moment().origin, Origin::Saved { of: 2.., .. });
    match state.view() {
        View::Help(_) | View::Detail(..) => {
            vec![("Esc", "back"), ("↑↓", "scroll"), ("PgDn", "page"), ("F10", "quit")]
        }
        View::Order(_) => vec![("↑↓", "choose"), ("Enter", "sort"), ("Esc", "back")],
        View::Strip(_) => {
            vec![("Tab", "matrix"), ("↑↓", "move"), ("Enter", "read"), ("?", "help"), ("q", "quit")]
        }
        _ => {
            let enter = if state.cursor().1 == 0 { "open" } else { "why" };
            let mut keys = vec![("?", "help"), ("Enter", enter), ("/", "filter"), ("s", "sort")];
            keys.extend(steps.then_some(("<>", "step")));
            keys.push(("Space", if state.is_frozen() { "go on" } else { "freeze" }));
            keys.extend([("Tab", "findings"), ("q", "quit"), ("*", "all")]);
            keys
        }
    }
}
