//! Proofs: the instructions that the kernel runs for a question, and the one that
//! decides.

use maud::{Markup, html};

use super::super::prog::instruction;
use super::super::sanitize;
use super::text;
use super::view::View;
use crate::report::PageProof;

/// Programs that are named.
const PROGRAMS: usize = 6;
/// Characters of an instruction with its meaning.
const LINE: usize = 400;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
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
