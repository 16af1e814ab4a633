//! Levels: for each set of cgroups with the same programs, which program at which level
//! allows or denies, as a table and as a drawing from the root down.

use maud::{Markup, html};

use super::super::names::counted;
use super::super::{owner, sanitize};
use super::text::View;
use super::{rules, text};
use crate::model::{InOrder as _, Verdict};
use crate::report::{Cgroup, PageLevel, PageProgram, PageReturn, PageStack};

/// Cgroups of a stack that are listed below its first one.
const SHOWN: usize = 40;
/// Owners that are named.
const OWNERS: usize = 4;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    html! {
        section #levels aria-labelledby="levels-title" {
            div.title {
                h2 #levels-title { "Levels" }
                p.muted { "Every cgroup from the root down, the programs attached there, and what each returns for each GPU. Cgroups in which the same programs are in force share a drawing." }
            }
            @for (number, stack) in view.page.stacks.iter().enumerate() { (card(view, number, stack)) }
        }
    }
}

fn card(view: &View<'_>, number: usize, stack: &PageStack) -> Markup {
    html! {
        article.stack id={ "s" (number) } {
            header { h3 { (title(view, stack)) } (cgroups(view, stack)) }
            div.scroll tabindex="0" role="group" aria-label="Levels and what each program returns" {
                (draw(view, stack))
                (table(view, number, stack))
            }
            p.rule { (text::sentence(&stack.rule)) " "
                @if view.page.document.payload.policies.contains_key(&stack.policy) {
                    a href={ "#" (rules::anchor(&stack.policy)) } { "Rules" }
                }
            }
            @if let Some(why) = &stack.unknown { p.u { "The programs in force could not be asked: " (text::sentence(why)) } }
            (reasons(view, stack))
        }
    }
}

/// Whom the cgroups belong to: owners without those that are inside of one of them.
fn title(view: &View<'_>, stack: &PageStack) -> Markup {
    let is_inside = |place: &usize| {
        let depth = view.owners.get(*place).map_or(0, |row| row.depth);
        let mut before = view.owners.iter().enumerate().take(*place).rev();
        let around = before.find(|(_, row)| row.depth < depth);
        around.is_some_and(|(around, _)| stack.owners.contains(&around))
    };
    let (inside, outside): (Vec<usize>, Vec<usize>) = stack.owners.iter().copied().partition(is_inside);
    let names: Vec<String> = outside
        .iter()
        .filter_map(|place| view.owners.get(*place))
        .map(|row| owner::full(&row.owner))
        .collect();
    html! {
        @for (at, name) in names.iter().take(OWNERS).enumerate() { @if at > 0 { "; " } bdi { (sanitize::short(name, 120, "…")) } }
        @if names.len() > OWNERS { span.muted { " and " (names.len() - OWNERS) " more" } }
        @if names.is_empty() { "Other cgroups" }
        @if !inside.is_empty() { span.muted { " with " (counted(inside.len(), "owner")) " inside" } }
    }
}

fn cgroups(view: &View<'_>, stack: &PageStack) -> Markup {
    let all = view.page.document.payload.cgroups.as_slice();
    let mine: Vec<&Cgroup> = stack.cgroups.iter().filter_map(|place| all.get(*place)).collect();
    let Some((first, rest)) = mine.split_first() else { return html! {} };
    html! {
        p.where { (text::path(&first.path, first.path_hex.as_deref())) }
        @if !rest.is_empty() {
            details.more {
                summary { "and " (counted(rest.len(), "more cgroup")) }
                ul { @for one in rest.iter().take(SHOWN) { li { (beside(&first.path, one)) } } }
                @if rest.len() > SHOWN { p.muted { "and " (rest.len() - SHOWN) " more" } }
            }
        }
    }
}

/// The path of a cgroup; what it has in common with that of the first, two names or
/// more, is left out.
fn beside(first: &str, one: &Cgroup) -> Markup {
    let names = one.path.split('/').zip(first.split('/')).take_while(|(name, other)| name == other);
    let (count, shared) =
        names.fold((0, 0), |(count, length), (name, _)| (count + 1, length + name.len() + 1));
    let rest = one.path.get(shared.saturating_sub(1)..).filter(|rest| count > 2 && !rest.is_empty());
    match rest {
        Some(rest) if one.path_hex.is_none() => text::path(&format!("…{rest}"), None),
        _ => text::path(&one.path, one.path_hex.as_deref()),
    }
}

/// The programs in run order with what each returns, then the verdict: the drawing in
/// words.
fn table(view: &View<'_>, number: usize, stack: &PageStack) -> Markup {
    let mut running: Vec<(&str, &PageProgram)> = stack
        .levels
        .iter()
        .flat_map(|level| level.programs.iter().map(|program| (level.path.as_str(), program)))
        .filter(|(_, program)| program.order.is_some())
        .collect();
    running.order_by_key(|(_, program)| program.order);
    html! {
        table.ways {
            thead { tr { th { "Program" } @for column in &view.page.columns { th { bdi { (text::column(view, column)) } } } } }
            tbody {
                @for (path, program) in running {
                    tr { th scope="row" { (program_name(view, path, program)) } @for part in &program.returns { td { (returns(view, part)) } } }
                }
                tr.verdict {
                    th scope="row" { "Verdict" }
                    @for (place, one) in stack.verdicts.iter().enumerate() {
                        td id={ "s" (number) "-" (place) } { (text::verdict(one.verdict)) }
                    }
                }
            }
        }
    }
}

fn program_name(view: &View<'_>, path: &str, program: &PageProgram) -> Markup {
    let known = view.program(program.id);
    let flags: Vec<String> = program.flags.iter().map(ToString::to_string).collect();
    html! {
        (program.id) " "
        @if let Some(known) = known { bdi { (sanitize::short(&known.name, 20, "…")) } }
        span.muted.small { "at " bdi { (text::last(path)) } @if !flags.is_empty() { " · " (flags.join(", ")) } }
    }
}

/// What a program returns, with a link to each way through it.
fn returns(view: &View<'_>, part: &PageReturn) -> Markup {
    html! {
        @for proof in &part.proofs {
            @match proof.and_then(|place| Some((place, view.page.proofs.get(place)?))) {
                Some((place, proof)) => a class={ "step " (text::verdict_class(proof.way.returns)) } href={ "#p" (place) } {
                    (proof.way.returns)
                    @if let Some(at) = proof.way.decided_at { i { " @" (at) } }
                },
                None => span class={ "step " (text::verdict_class(part.verdict)) } { (part.verdict) },
            }
        }
        @if part.proofs.is_empty() { span.muted { "not asked" } }
    }
}

/// Why verdicts are unknown, and what the v1 controller adds, each once.
fn reasons(view: &View<'_>, stack: &PageStack) -> Markup {
    let mut told: Vec<(&str, Vec<String>)> = Vec::new();
    for (column, verdict) in view.page.columns.iter().zip(&stack.verdicts) {
        for text in [&verdict.why, &verdict.devices_v1].into_iter().flatten() {
            let name = text::column(view, column);
            match told.iter_mut().find(|(known, _)| known == text) {
                Some((_, names)) => names.push(name),
                None => told.push((text, vec![name])),
            }
        }
    }
    html! {
        @for (why, names) in told { p.reason { b { bdi { (super::super::names::set(names)) } } ": " (text::sentence(why)) } }
    }
}

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
