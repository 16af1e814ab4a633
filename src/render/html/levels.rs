//! Levels: for each set of cgroups with the same programs, which program at which level
//! allows or denies.

use maud::{Markup, html};

use super::super::counted::counted;
use super::super::{owner, sanitize};
use super::view::View;
use super::{diagram, rules, text};
use crate::report::{Cgroup, PageProgram, PageReturn, PageStack};

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
                (diagram::draw(view, stack))
                (table(view, number, stack))
            }
            p.rule { (text::sentence(&stack.rule)) " "
                @if view.page.document.payload.policies.as_ref().is_some_and(|all| all.contains_key(&stack.policy)) {
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
    let all = view.page.document.payload.cgroups.as_deref().unwrap_or_default();
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
    running.sort_by_key(|(_, program)| program.order);
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
