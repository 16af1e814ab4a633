//! A text in the foreground: why a cell is as it is, a finding, an event.

use std::io;

use super::canvas::Canvas;
use super::cells::{Rect, Style};
use super::fold::folded;
use super::palette::Theme;
use super::table::sets;
use crate::model::{InForce, Membership};
use crate::render::activity::amounts;
use crate::render::cell::Glyph;
use crate::render::matrix::labels;
use crate::render::{Style as Layout, explain, finding, owner, sanitize, watch_policy};
use crate::report::MatrixLimit;
use crate::top::{Content, Detail, Extent, State};

/// Draws it from a line on, and says how many lines it has.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    state: &State,
    detail: &Detail,
    line: usize,
) -> Extent {
    let inside = Rect { x: area.x + 1, width: area.width - 2, ..area };
    let mut lines: Vec<String> = about(state, detail, canvas.theme.ascii);
    lines.extend(text(state, &detail.content, inside.width));
    let lines: Vec<String> = lines.iter().flat_map(|line| folded(line, usize::from(inside.width))).collect();
    show(canvas, inside, &lines, line);
    Extent { lines: usize::from(inside.height), text: lines.len(), rows: usize::from(inside.height) }
}

/// Puts lines on the screen, and says where in the text that is.
pub(super) fn show(canvas: &mut Canvas<'_>, area: Rect, lines: &[String], from: usize) {
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
    let key = moment.matrix.columns.get(*column).map(String::as_str).unwrap_or_default();
    lines.extend(row.limits_on(key).iter().map(limit));
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
fn text(state: &State, content: &Content, width: u16) -> Vec<String> {
    let layout = Layout { width, color: false, all: false };
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
        Content::Finding(one) => printed(&|out| finding::write(out, Layout { all: true, ..layout }, one)),
        Content::Event(event) => watch_policy::line(event, &state.moment().gpus).into_iter().collect(),
        Content::Message(message) => vec![sanitize::text(message).into_owned()],
    }
}
