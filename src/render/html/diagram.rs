//! The drawing of one stack: the levels of the cgroup tree from the root down, a lane
//! for each GPU, and on it a mark where a program allows or denies. The table below the
//! drawing says the same in words, so that the drawing is hidden from screen readers.

use maud::{Markup, html};

use super::super::sanitize;
use super::text;
use super::view::View;
use crate::model::Verdict;
use crate::report::{PageLevel, PageProgram, PageReturn, PageStack};

/// Pixels: the width of the names, the distance of the lanes, the height of a level and
/// of each program.
const NAMES: usize = 400;
const LANE: usize = 92;
const LEVEL: usize = 26;
const PROGRAM: usize = 22;
const HEAD: usize = 24;
/// How far a level is to the right of the one around it, and where that ends.
const INDENT: usize = 12;
const DEEPEST: usize = 6;

/// The drawing.
pub(super) fn draw(view: &View<'_>, stack: &PageStack) -> Markup {
    let lanes = view.page.columns.len();
    let height = HEAD + stack.levels.iter().map(tall).sum::<usize>() + 10;
    let width = NAMES + lanes * LANE;
    let mut top = HEAD;
    let place = |level: &PageLevel| {
        let here = top;
        top += tall(level);
        here
    };
    let tops: Vec<usize> = stack.levels.iter().map(place).collect();
    html! {
        svg.levels viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) aria-hidden="true" focusable="false" {
            g.head text-anchor="middle" {
                @for (lane, column) in view.page.columns.iter().enumerate() {
                    text x=(lane_x(lane)) y="14" { (sanitize::short(&text::column(view, column), 11, "…")) }
                }
            }
            @for verdict in [Verdict::Allow, Verdict::Deny, Verdict::Unknown] { (self::lanes(stack, verdict, height)) }
            @for (depth, (level, top)) in stack.levels.iter().zip(tops).enumerate() { (self::level(view, level, depth, top)) }
        }
    }
}

/// The lanes of the GPUs with this verdict, as one path.
fn lanes(stack: &PageStack, verdict: Verdict, height: usize) -> Markup {
    let lanes = stack.verdicts.iter().enumerate().filter(|(_, one)| one.verdict == verdict);
    let paths: String = lanes.map(|(lane, _)| format!("M{} {}V{height}", lane_x(lane), HEAD - 3)).collect();
    html! { @if !paths.is_empty() { path class={ "lane " (text::verdict_class(verdict)) } d=(paths) {} } }
}

fn tall(level: &PageLevel) -> usize {
    LEVEL + level.programs.len() * PROGRAM
}

fn lane_x(lane: usize) -> usize {
    NAMES + lane * LANE + LANE / 2
}

fn level(view: &View<'_>, level: &PageLevel, depth: usize, top: usize) -> Markup {
    let x = 8 + depth.min(DEEPEST) * INDENT;
    html! {
        @if depth > 0 { path.twig d={ "M" (x - 8) " " (top - 4) "V" (top + 13) "H" (x - 2) } {} }
        text.name x=(x + 2) y=(top + 17) { (text::last(&level.path)) }
        @for (row, program) in level.programs.iter().enumerate() {
            (self::program(view, program, x, top + LEVEL + row * PROGRAM))
        }
    }
}

fn program(view: &View<'_>, program: &PageProgram, x: usize, top: usize) -> Markup {
    let name =
        view.program(program.id).map(|known| sanitize::short(&known.name, 16, "…")).unwrap_or_default();
    let order = match program.order {
        Some(order) => format!("program {} {name} · runs {}", program.id, ordinal(order)),
        None => format!("program {} {name} · not in force here", program.id),
    };
    html! {
        rect.box.idle[program.order.is_none()] x=(x + 4) y=(top + 1) width=(NAMES - x - 8) height=(PROGRAM - 4) rx="4" {}
        text.program.idle[program.order.is_none()] x=(x + 12) y=(top + 14) { (order) }
        @for (lane, part) in program.returns.iter().enumerate() { (self::mark(part, lane_x(lane), top + PROGRAM / 2)) }
    }
}

fn ordinal(order: usize) -> String {
    match order {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        other => format!("as number {other}"),
    }
}

/// A mark on a lane, which leads to the proof.
fn mark(part: &PageReturn, x: usize, y: usize) -> Markup {
    let sign = html! { use href={ "#v" (text::verdict_class(part.verdict)) } x=(x) y=(y) {} };
    html! {
        @match part.proofs.iter().flatten().next() {
            Some(place) => a href={ "#p" (place) } tabindex="-1" { (sign) },
            None => (sign),
        }
    }
}

/// The signs that marks refer to.
pub(super) fn signs() -> Markup {
    html! {
        svg.defs aria-hidden="true" width="0" height="0" {
            @for verdict in [Verdict::Allow, Verdict::Deny, Verdict::Unknown] {
                g id={ "v" (text::verdict_class(verdict)) } {
                    circle class={ "at " (text::verdict_class(verdict)) } r="8" {}
                    @match verdict {
                        Verdict::Allow => path.sign d="M-4 0l3 3 5-6" {},
                        Verdict::Deny => path.sign d="M-3-3l6 6m0-6l-6 6" {},
                        Verdict::Unknown => text.sign y="4" text-anchor="middle" { "?" },
                    }
                }
            }
        }
    }
}
