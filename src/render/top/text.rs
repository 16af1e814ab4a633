//! A text in the foreground: why a cell is as it is, a finding, an event; or the help, with
//! keys and glyphs.

use std::io;

use super::canvas::Theme;
use super::canvas::{Canvas, folded};
use super::cells::{Rect, Style};
use super::table::sets;
use crate::model::{CellState, InForce, Membership};
use crate::render::activity::amounts;
use crate::render::matrix::labels;
use crate::render::matrix::{Glyph, UNSURE};
use crate::render::{Style as Layout, audit, explain, owner, sanitize, watch};
use crate::report::MatrixLimit;
use crate::top::{Content, Detail, Extent, State};

/// Draws it from a line on, and says how many lines it has.
pub(super) fn draw_detail(
    canvas: &mut Canvas<'_>,
    area: Rect,
    state: &State,
    detail: &Detail,
    line: usize,
) -> Extent {
    let inside = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let mut lines: Vec<String> = about(state, detail, canvas.theme.ascii);
    lines.extend(said(state, &detail.content, inside.width));
    let lines: Vec<String> = lines.iter().flat_map(|line| folded(line, usize::from(inside.width))).collect();
    show_lines(canvas, inside, &lines, line);
    Extent { lines: usize::from(inside.height), text: lines.len(), rows: usize::from(inside.height) }
}

/// Puts lines on the screen, and says where in the text that is.
pub(super) fn show_lines(canvas: &mut Canvas<'_>, area: Rect, lines: &[String], from: usize) {
    let theme = canvas.theme;
    let room = usize::from(area.height);
    for (line, y) in lines.iter().skip(from).take(room).zip(area.y..) {
        canvas.text(area.x, y, area.width, line, style(theme, line));
    }
    if lines.len() > room {
        let last = (from + room).min(lines.len());
        let place = format!(" {}-{last} of {} ", from + 1, lines.len());
        let width = u16::try_from(place.len()).unwrap_or(0).min(area.width);
        canvas.right(area.x + area.width - width, area.y, width, &place, theme.frame());
    }
}

/// The verdicts and the instruction that decides stand out.
fn style(theme: Theme, line: &str) -> Style {
    let trimmed = line.trim_start();
    let verdict = trimmed.strip_prefix("Verdict: ").or_else(|| trimmed.strip_prefix("returns "));
    match verdict {
        Some(word) if word.starts_with("allow") => theme.verdict(true),
        Some(word) if word.starts_with("deny") => theme.verdict(false),
        Some(_) => theme.alert(),
        None if line.starts_with(" > ") => theme.alert(),
        None if line.starts_with("May ") || line.starts_with("What ") => theme.title(),
        None => theme.plain(),
    }
}

/// The four sets of a cell, in words.
fn about(state: &State, detail: &Detail, is_ascii: bool) -> Vec<String> {
    let moment = state.moment();
    let Some((row, column)) = &detail.cell else { return Vec::new() };
    let names = labels(&moment.matrix.columns, &moment.gpus, false);
    let Some(gpu) = names.get(*column) else { return Vec::new() };
    let who = match (&row.owner, &row.process) {
        (Some(owner), _) => owner::full(owner),
        (None, Some(process)) => {
            format!(
                "process {} {}",
                process.pid,
                sanitize::short_with_hex(&process.comm, process.comm_hex.as_deref(), 16)
            )
        }
        (None, None) => String::new(),
    };
    let mut lines = vec![format!("What {who} has to do with {gpu}")];
    if let Some(cell) = row.cells.get(*column) {
        let glyph = Glyph::of(cell.state);
        lines.push(format!("  {} {}", glyph.text(is_ascii), glyph.meaning));
        let word = |(name, is): (&str, Membership)| {
            let text = match is {
                Membership::Yes => "yes",
                Membership::No => "no",
                Membership::Unknown => "not known",
                Membership::Claimed => "only its own environment says so",
            };
            format!("  {name:<10} {text}")
        };
        lines.extend(sets(cell).map(word));
    }
    let limits = moment.matrix.columns.get(*column).map(|key| row.limits_on(key)).unwrap_or_default();
    lines.extend(limits.iter().map(limit));
    lines.push(format!("  {:<10} {}", "cgroup", sanitize::with_hex(&row.cgroup, row.cgroup_hex.as_deref())));
    lines.push(String::new());
    lines
}

/// A limit under HAMi-core's libvgpu.so or SoftMig, in words.
fn limit(limit: &MatrixLimit) -> String {
    let holds = |in_force| match in_force {
        InForce::Yes => "in force",
        InForce::No => "not in force",
        InForce::Partly => "in force in part",
        InForce::Unknown => "whether it is in force is not known",
    };
    let memory = limit
        .memory_bytes
        .map(|bytes| format!("{} of its memory ({})", amounts::bytes(bytes), holds(limit.memory_in_force)));
    let share = limit
        .sm_percent
        .map(|percent| format!("{percent} % of its multiprocessors ({})", holds(limit.sm_in_force)));
    let both: Vec<String> = memory.into_iter().chain(share).collect();
    let of = if limit.gpu.is_some() { "" } else { "; on which GPU is not known" };
    format!("  {:<10} {}{of}", "limit", both.join(", "))
}

/// What the commands print that say the same.
fn said(state: &State, content: &Content, width: u16) -> Vec<String> {
    let layout = Layout { width, ..Layout::default() };
    let printed = |print: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut out = Vec::new();
        let _memory_does_not_fail = print(&mut out);
        String::from_utf8_lossy(&out).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    match content {
        Content::Proofs(answers) => printed(&|out| {
            answers.iter().try_for_each(|answer| {
                explain::write(out, layout, answer)?;
                out.push(b'\n');
                Ok(())
            })
        }),
        Content::Finding(one) => {
            printed(&|out| audit::write_finding(out, Layout { all: true, ..layout }, one))
        }
        Content::Event(event) => watch::line(event, &state.moment().gpus).into_iter().collect(),
        Content::Message(message) => vec![sanitize::text(message).into_owned()],
    }
}

/// The width from which keys and glyphs stand beside each other.
const WIDE: u16 = 114;
/// The width of the keys then.
const KEYS_WIDTH: u16 = 54;

/// Each key with what it does; a line without a key belongs to the one before.
pub const KEYS: [(&str, &str); 21] = [
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
    ("underlined", "a finding is about it and this GPU"),
    ("10 GiB!", "a limit that does not hold;"),
    ("", "with ? that is not known"),
];

/// Draws it from a line on, and says how many lines it has.
pub(super) fn draw_help(canvas: &mut Canvas<'_>, area: Rect, line: usize) -> Extent {
    let is_ascii = canvas.theme.ascii;
    let (keys, glyphs) = (key_lines(), glyph_lines(is_ascii));
    let inside = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let room = usize::from(inside.height);
    let text = if area.width >= WIDE {
        let left = Rect { width: KEYS_WIDTH, ..inside };
        let right = Rect { x: inside.x + KEYS_WIDTH, width: inside.width - KEYS_WIDTH, ..inside };
        show_lines(canvas, left, &keys, line);
        show_lines(canvas, right, &glyphs, line);
        keys.len().max(glyphs.len())
    } else {
        let all = [glyphs, vec![String::new()], keys].concat();
        show_lines(canvas, inside, &all, line);
        all.len()
    };
    Extent { lines: room, text, rows: room }
}

fn key_lines() -> Vec<String> {
    let line = |(key, does): &(&str, &str)| format!("  {key:<15} {does}");
    std::iter::once("What keys do".to_owned()).chain(KEYS.iter().map(line)).collect()
}

fn glyph_lines(is_ascii: bool) -> Vec<String> {
    let line = |state| {
        let glyph = Glyph::of(state);
        format!("  {}  {}", glyph.text(is_ascii), glyph.meaning)
    };
    let unsure = format!("  {}  {}", UNSURE.0, UNSURE.1);
    let head = "What glyphs mean".to_owned();
    std::iter::once(head).chain(CellState::ALL.map(line)).chain([unsure]).collect()
}
