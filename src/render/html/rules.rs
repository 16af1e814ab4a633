//! Rules: what each policy allows and denies, for every device.

use maud::{Markup, html};

use super::super::rules;
use super::text;
use super::view::View;
use crate::report::Policy;

/// Rules of a policy that are shown.
const SHOWN: usize = 100;

/// The section.
pub(super) fn section(view: &View<'_>) -> Markup {
    let policies = view.page.document.payload.policies.iter().flatten();
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
