//! The strip below the matrix: findings, then what happened to programs.

use super::canvas::Canvas;
use super::cells::Rect;
use crate::render::{sanitize, watch_policy};
use crate::report::Finding;
use crate::top::{State, View};

/// How many lines it takes of so many.
pub(super) fn height(state: &State, of: u16) -> u16 {
    let entries = u16::try_from(state.entries()).unwrap_or(u16::MAX);
    let most = if matches!(state.view(), View::Strip(_)) { of / 2 } else { of / 4 };
    entries.saturating_add(1).min(most.max(2)).min(of.saturating_sub(4))
}

/// Draws it. Findings and events share the room; the one that the user is at is among
/// them.
/// At the end of its line is which rows of the matrix the screen has, of which there is
/// room for `rows`.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, state: &State, rows: usize) {
    let theme = canvas.theme;
    let moment = state.moment();
    let (findings, events) = (moment.findings.len(), moment.events.len());
    let line = "─".repeat(usize::from(area.width));
    canvas.text(area.x, area.y, area.width, &line, theme.faint());
    let title = format!(" {} ", title(findings, events));
    canvas.text(area.x + 2, area.y, area.width.saturating_sub(2), &title, theme.title());
    let all = state.rows().len();
    if all > rows {
        let last = (state.first() + rows).min(all);
        let place = format!(" rows {}-{last} of {all} ", state.first() + 1);
        canvas.right(area.x, area.y, area.width.saturating_sub(2), &place, theme.faint());
    }
    let room = usize::from(area.height.saturating_sub(1));
    let places: Vec<usize> = match state.view() {
        View::Strip(at) => {
            let first = (at + 1).saturating_sub(room);
            (first..findings + events).take(room).collect()
        }
        _ => {
            // At least a third of it is left for events, if there are so many.
            let for_events = events.min((room / 3).max(room.saturating_sub(findings)));
            let shown = findings.min(room - for_events);
            (0..shown).chain(findings..findings + for_events).collect()
        }
    };
    for (place, y) in places.into_iter().zip(area.y + 1..area.bottom()) {
        entry(canvas, area, y, state, place);
        if matches!(state.view(), View::Strip(at) if *at == place) {
            canvas.style(Rect { y, height: 1, ..area }, theme.cursor());
        }
    }
}

fn title(findings: usize, events: usize) -> String {
    let count = |count: usize, word: &str| match count {
        0 => format!("no {word}s"),
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    let findings = count(findings, "finding");
    if events == 0 { findings } else { format!("{findings}, {}", count(events, "event")) }
}

fn entry(canvas: &mut Canvas<'_>, area: Rect, y: u16, state: &State, place: usize) {
    let moment = state.moment();
    match moment.findings.get(place) {
        Some(finding) => self::finding(canvas, area, y, finding),
        None => {
            let event = place.checked_sub(moment.findings.len()).and_then(|place| moment.events.get(place));
            let line = event.and_then(|event| watch_policy::line(event, &moment.gpus));
            let line = line.unwrap_or_default();
            canvas.cut(area.x + 1, y, area.width.saturating_sub(2), &line, canvas.theme.plain());
        }
    }
}

fn finding(canvas: &mut Canvas<'_>, area: Rect, y: u16, finding: &Finding) {
    let theme = canvas.theme;
    let severity = finding.severity.to_string().to_uppercase();
    canvas.text(area.x + 1, y, 9, &severity, theme.severity(finding.severity));
    let id = sanitize::short(&finding.id, 24, "…");
    let used = canvas.text(area.x + 10, y, 24, &id, theme.strong());
    let x = area.x + 10 + used + 2;
    canvas.cut(x, y, area.right().saturating_sub(x + 1), &finding.summary, theme.plain());
}
