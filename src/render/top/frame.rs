//! What surrounds the matrix: the first line, which says which node this is, how many of
//! what, and since when it is so; the last line, with the keys that do something here or
//! what is typed; and the menu of orders.

use super::canvas::{Canvas, columns};
use super::cells::Rect;
use crate::model::{MatrixOrder, Membership, Severity};
use crate::render::names::counted;
use crate::render::sanitize;
use crate::top::{Moment, Origin, State, View};

/// Draws it.
pub(super) fn draw_header(canvas: &mut Canvas<'_>, state: &State) {
    let (theme, width) = (canvas.theme, canvas.width());
    let moment = state.moment();
    canvas.style(Rect { x: 0, y: 0, width, height: 1 }, theme.frame());
    let right = right(state, width);
    let room = width.saturating_sub(u16::try_from(columns(&right)).unwrap_or(width) + 2);
    let host = sanitize::short(&moment.host, 24, "…");
    let used = canvas.text(0, 0, room, &format!(" gpumap · {host}  "), theme.frame().patch(theme.strong()));
    canvas.cut(used, 0, room.saturating_sub(used + 1), &left(state), theme.frame());
    let is_still = state.is_frozen() || moment.origin != Origin::Live;
    let style = if is_still { theme.frame().patch(theme.strong()) } else { theme.frame() };
    canvas.right(room, 0, width - room, &format!("{right} "), style);
}

fn left(state: &State) -> String {
    let moment = state.moment();
    if moment.failure.is_some() {
        return "cannot be shown".to_owned();
    }
    let owners = moment.matrix.rows.iter().filter(|row| row.depth == 0).count();
    // What is wrong comes first: a narrow screen cuts the end.
    let mut parts = Vec::new();
    for severity in [Severity::Critical, Severity::Warning] {
        let count = moment.findings.iter().filter(|finding| finding.severity == severity).count();
        let word = if severity == Severity::Warning && count > 1 { "warnings" } else { severity.into() };
        parts.extend((count > 0).then(|| format!("{count} {word}")));
    }
    parts.push(gpus(moment));
    parts.extend((!moment.complete).then(|| "incomplete".to_owned()));
    let filter = state.filter();
    parts.extend((!filter.is_empty()).then(|| format!("/{}", sanitize::short(filter, 24, "…"))));
    parts.extend((state.order() != MatrixOrder::Owner).then(|| format!("by {}", state.order())));
    parts.push(counted(owners, "owner"));
    parts.join(" · ")
}

/// `4 GPUs, 3 held`.
fn gpus(moment: &Moment) -> String {
    let holds = |column: usize| {
        let cells = moment.matrix.rows.iter().filter_map(|row| row.cells.get(column));
        cells.into_iter().any(|cell| cell.held == Membership::Yes)
    };
    let places =
        moment.gpus.iter().filter_map(|gpu| moment.matrix.columns.iter().position(|key| *key == gpu.key));
    let held = places.filter(|column| holds(*column)).count();
    format!("{}, {held} held", counted(moment.gpus.len(), "GPU"))
}

/// The time of the facts, and whether they are kept up to date.
fn right(state: &State, width: u16) -> String {
    let moment = state.moment();
    let clock = sanitize::short(&moment.taken_at.clock(), 9, "");
    // A narrow screen has no room for the day.
    let day =
        if width < 100 { String::new() } else { sanitize::short(moment.taken_at.as_str(), 10, "") + " " };
    match &moment.origin {
        _ if state.is_frozen() => format!("FROZEN at {clock}"),
        Origin::Live => format!("live {clock}"),
        Origin::Saved { number: 1, of: 1 } => format!("saved {day}{clock}"),
        Origin::Saved { number, of } => format!("saved {number}/{of} {day}{clock}"),
    }
}

/// Draws it at `y`.
pub(super) fn draw_bar(canvas: &mut Canvas<'_>, state: &State, y: u16) {
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

/// Draws it in the middle of an area.
pub(super) fn draw_menu(canvas: &mut Canvas<'_>, area: Rect, chosen: MatrixOrder) {
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
