//! Rules in the notation of the manual: `deny  c 195:0-2 rwm`.

use std::io::{self, Write};

use super::{Style, sanitize, wrap};
use crate::model::{DeviceType, InOrder as _, MAX_MAJOR, Verdict};
use crate::report::{Gpu, GpuNode, ListedRule, Policy, Unknown};

/// A rule without its verdict: `c 195:0-2 rwm`, `a *:* rwm`, `c 195:* rw minor & 0x1
/// = 0x1`; then the driver of a major that changes with each boot.
pub(super) fn notation(listed: &ListedRule) -> String {
    let names =
        if listed.names.is_empty() { String::new() } else { format!(" ({})", listed.names.join(", ")) };
    let names = sanitize::text(&names);
    let never = if listed.rule.is_never_asked() { " (the kernel never asks about it)" } else { "" };
    let not_drawn = if listed.not_drawn { NOT_DRAWN } else { "" };
    format!("{}{names}{never}{not_drawn}", listed.rule.notation())
}

/// What is said of rules of which only single devices can be asked about.
const NOT_DRAWN: &str = " (not drawn: ask gpumap check about one device)";

/// Prints a policy: the default first, then what differs from it, rules about
/// GPUs before others.
pub(super) fn write(out: &mut dyn Write, style: Style, policy: &Policy, gpus: &[Gpu]) -> io::Result<()> {
    let (never_asked, rules): (Vec<&ListedRule>, Vec<&ListedRule>) =
        gpus_first(&policy.rules, gpus).into_iter().partition(|listed| listed.rule.is_never_asked());
    let note = match (rules.is_empty(), policy.omitted) {
        _ if policy.not_drawn => "not drawn: ask gpumap check about one device",
        (_, Some(_)) => "most; not all that differs is shown",
        (true, None) => "everything",
        (false, None) => "everything not named below",
    };
    writeln!(out, "  {}  a *:* rwm  ({note})", style.verdict_column(policy.default))?;
    for rule in &rules {
        writeln!(out, "  {}  {}", style.verdict_column(rule.rule.verdict), notation(rule))?;
    }
    if !never_asked.is_empty() {
        writeln!(out, "  c 0:0 is always allowed: the kernel never asks the programs about it")?;
    }
    if let Some(omitted) = policy.omitted {
        let count = omitted.questions;
        writeln!(out, "  … and {count} more device and request pairs that no short rules describe")?;
    }
    policy.unknown.iter().try_for_each(|unknown| {
        let text = format!("{}: {}", unknown.rules.join(", "), unknown.why);
        let first = format!("  {}  ", unsettled(style, unknown));
        wrap::write(out, &first, 4, usize::from(style.width), &text)
    })
}

/// Why a verdict is not among the rules, in a word.
pub(super) fn unsettled(style: Style, unknown: &Unknown) -> String {
    if unknown.not_drawn { "not drawn".to_owned() } else { style.verdict(Verdict::Unknown).into_owned() }
}

/// A policy on one line, cut after a few rules: `allow, but deny c 195:0 rwm`.
pub(super) fn brief(policy: &Policy, gpus: &[Gpu]) -> String {
    const SHOWN: usize = 3;
    let mut rules = gpus_first(&policy.rules, gpus);
    rules.retain(|listed| !listed.rule.is_never_asked());
    if rules.is_empty() && policy.omitted.is_none() {
        return format!("{} everything", policy.default);
    }
    let mut parts: Vec<String> = Vec::new();
    let mut verdict = None;
    for listed in rules.iter().take(SHOWN) {
        let own = listed.rule.verdict;
        let word = if Some(own) == verdict { String::new() } else { format!("{own} ") };
        parts.push(word + &notation(listed));
        verdict = Some(own);
    }
    if let Some(more) = rules.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        parts.push(format!("… and {more} more"));
    }
    if let Some(omitted) = policy.omitted {
        parts.push(format!("{} device and request pairs that no short rules describe", omitted.questions));
    }
    let default = if policy.not_drawn { "not drawn".to_owned() } else { policy.default.to_string() };
    format!("{default} all but {}", parts.join(", "))
}

/// The rules as they are read: those about a GPU's node, then those about its
/// driver's other nodes, then the others; in the policy's order otherwise.
pub(super) fn gpus_first<'a>(rules: &'a [ListedRule], gpus: &[Gpu]) -> Vec<&'a ListedRule> {
    let rank = |ListedRule { rule, .. }: &&ListedRule| {
        let is_about_all =
            rule.kind == Some(DeviceType::Block) || (rule.major.first, rule.major.last) == (0, MAX_MAJOR);
        let nodes = || gpus.iter().flat_map(|gpu| &gpu.nodes).filter(|_| !is_about_all);
        let is_its = |node: &GpuNode| rule.major.spans(node.major) && rule.minor.spans(node.minor);
        match (nodes().any(is_its), nodes().any(|node| rule.major.spans(node.major))) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    };
    let mut rules: Vec<&ListedRule> = rules.iter().collect();
    rules.order_by_key(rank);
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Numbers, RequestSet, Rule};

    fn rule(minor: u32) -> ListedRule {
        let (kind, requests) = (Some(DeviceType::Char), RequestSet::ALL);
        let (major, minor) = (Numbers::one(195), Numbers::one(minor));
        Rule { verdict: Verdict::Deny, kind, major, minor, requests }.into()
    }

    /// Make sure that names of drivers are safe, and that what the kernel never asks
    /// about says so.
    #[test]
    fn remarks() {
        let zero = Rule { major: Numbers::one(0), ..rule(0).rule };
        assert_eq!(notation(&zero.into()), "c 0:0 rwm (the kernel never asks about it)");
        let named = ListedRule { names: vec!["nvidia-caps\n".to_owned()], ..rule(1) };
        assert_eq!(notation(&named), "c 195:1 rwm (nvidia-caps\\n)");
    }

    /// Make sure that the one-line form never hides that it was cut.
    #[test]
    fn brief_says_what_it_cuts() {
        let rules = (0..5).map(rule).collect();
        let policy = Policy { default: Verdict::Allow, rules, ..Policy::default() };
        let expected = "allow all but deny c 195:0 rwm, c 195:1 rwm, c 195:2 rwm, … and 2 more";
        assert_eq!(brief(&policy, &[]), expected);
        let node = GpuNode { path: "/dev/nvidia4".to_owned(), major: 195, minor: 4, gate: true };
        let gpu = Gpu { nodes: vec![node], ..Gpu::default() };
        let expected = "allow all but deny c 195:4 rwm, c 195:0 rwm, c 195:1 rwm, … and 2 more";
        assert_eq!(brief(&policy, &[gpu]), expected);
        // Questions that no rule describes are part of the policy.
        let omitted = Some(crate::report::Omitted { questions: 7 });
        let policy = Policy { default: Verdict::Allow, omitted, ..Policy::default() };
        let expected = "allow all but 7 device and request pairs that no short rules describe";
        assert_eq!(brief(&policy, &[]), expected);
    }
}
