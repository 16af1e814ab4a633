//! Rules: what each policy allows and denies, for every device; and proofs: the
//! instructions that the kernel runs for a question, and the one that decides.

use maud::{Markup, html};

use super::super::prog::instruction;
use super::super::{rules, sanitize};
use super::text;
use super::text::View;
use crate::report::{PageProof, Policy};

/// Rules of a policy that are shown.
const SHOWN: usize = 100;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    let policies = &view.page.document.payload.policies;
    html! {
        section #rules aria-labelledby="rules-title" {
            div.title { h2 #rules-title { "Rules" } p.muted { "What the programs decide together, read from their instructions, for every device." } }
            div.cards { @for (id, policy) in policies { (card(view, id, policy)) } }
        }
    }
}

/// The anchor of a policy; ids are gpumap's own, and a file may say anything.
pub(super) fn anchor(id: &str) -> String {
    let plain = id.chars().filter(char::is_ascii_alphanumeric).take(40);
    ['r'].into_iter().chain(plain).collect()
}

fn card(view: &View<'_>, id: &str, policy: &Policy) -> Markup {
    let users = view.page.policy_stacks.get(id).map(Vec::as_slice).unwrap_or_default();
    let listed = rules::gpus_first(&policy.rules, view.gpus);
    html! {
        article.policy id=(anchor(id)) {
            header { h3 { "Policy " code { (text::name(id)) } } @if !policy.exact { span.pill.unknown { "? not exact" } } }
            ul.rules {
                li { (text::verdict(policy.default)) code { "a *:* rwm" } span.muted { (rest(policy, listed.len())) } }
                @for rule in listed.iter().take(SHOWN) { li { (text::verdict(rule.rule.verdict)) code { (rules::notation(rule)) } } }
                @if listed.len() > SHOWN { li.muted { "and " (listed.len() - SHOWN) " more rules: gpumap cgroup PATH lists them" } }
            }
            @if let Some(omitted) = policy.omitted { p.u { (omitted.questions) " more device and request pairs that no short rules describe" } }
            @for unknown in &policy.unknown { p.u { (text::sentence(&unknown.rules.join(", "))) ": " (text::sentence(&unknown.why)) } }
            @if !users.is_empty() {
                p.muted { "In force in "
                    @for (at, stack) in users.iter().take(8).enumerate() { @if at > 0 { ", " } a href={ "#s" (stack) } { "drawing " (stack + 1) } }
                    @if users.len() > 8 { " and " (users.len() - 8) " more" }
                }
            } @else { p.muted { "What single programs decide by themselves." } }
        }
    }
}

fn rest(policy: &Policy, rules: usize) -> &'static str {
    match (rules, policy.omitted) {
        _ if policy.not_drawn => "not drawn: ask gpumap check about one device",
        (_, Some(_)) => "most; not all that differs is shown",
        (0, None) => "everything",
        _ => "everything not named below",
    }
}

/// Programs that are named.
const PROGRAMS: usize = 6;
/// Characters of an instruction with its meaning.
const LINE: usize = 400;

/// The section.
pub(super) fn proofs_section(view: &View<'_>) -> Markup {
    html! {
        section #proofs aria-labelledby="proofs-title" {
            div.title {
                h2 #proofs-title { "Proofs" }
                p.muted { "The way of one question through one program, instruction by instruction. The marked one decides." }
            }
            @for (place, proof) in view.page.proofs.iter().enumerate() { (one(view, place, proof)) }
        }
    }
}

fn one(view: &View<'_>, place: usize, proof: &PageProof) -> Markup {
    let way = &proof.way;
    html! {
        details.proof id={ "p" (place) } {
            summary {
                (text::verdict(way.returns)) " " code.question { (proof.question) } " "
                span { (gpu(view, &proof.question)) }
                span.by { "program " (programs(view, proof)) @if let Some(at) = way.decided_at { ", instruction " (at) } }
            }
            pre tabindex="0" { code {
                @for (row, step) in way.steps.iter().enumerate() {
                    @if proof.folded > 0 && row == proof.folded_after { span.muted { "      … " (proof.folded) " instructions are left out\n" } }
                    @let before = row.checked_sub(1).and_then(|before| way.steps.get(before));
                    @if before.is_some_and(|before| before.program != step.program) {
                        span.muted { "      in program " (step.program.unwrap_or(way.id)) ":\n" }
                    }
                    @let line = sanitize::short(&instruction(step.pc, &step.text, &step.meaning), LINE, "…");
                    @if way.decided_at == Some(step.pc) && step.program.is_none() { mark { "▸ " (line) } "\n" } @else { "  " (line) "\n" }
                }
            } }
            @if let Some(why) = &way.why { p.u { "It could not be followed to its end: " (text::sentence(why)) } }
            @if let Some(error) = way.retval { p.muted { "Error in force after it: " (errno(error)) } }
        }
    }
}

fn errno(error: i32) -> String {
    match error {
        0 => "none".to_owned(),
        -1 => "-1 (EPERM)".to_owned(),
        other => other.to_string(),
    }
}

/// The GPU that a question is about.
fn gpu(view: &View<'_>, question: &str) -> String {
    let column = view.page.columns.iter().find(|column| column.questions.iter().any(|one| one == question));
    column.map(|column| text::column(view, column)).unwrap_or_default()
}

fn programs(view: &View<'_>, proof: &PageProof) -> Markup {
    html! {
        @for (at, id) in proof.programs.iter().take(PROGRAMS).enumerate() { @if at > 0 { ", " } (id) }
        @if proof.programs.len() > PROGRAMS { " and " (proof.programs.len() - PROGRAMS) " more" }
        @if let Some(known) = proof.programs.first().and_then(|id| view.program(*id)) {
            @if !known.name.is_empty() { " " bdi { (sanitize::short(&known.name, 20, "…")) } }
        }
    }
}
