//! Rules in the notation of the manual: `deny  c 195:0-2 rwm`.

use std::io::{self, Write};

use super::{Style, sanitize};
use crate::model::{MAX_MAJOR, MAX_MINOR, RuleType, Verdict};
use crate::report::{Gpu, GpuNode, Mask, Policy, Rule, Unknown};

/// A rule without its verdict: `c 195:0-2 rwm`, `a *:* rwm`, `c 195:* rw minor & 0x1
/// = 0x1`; then the driver of a major that changes with each boot.
pub(super) fn notation(rule: &Rule) -> String {
    let kind = match rule.kind {
        RuleType::Char => "c",
        RuleType::Block => "b",
        RuleType::Any => "a",
    };
    let (major, minor) = (range(rule.major, MAX_MAJOR), range(rule.minor, MAX_MINOR));
    let masks = [("major", rule.major_mask), ("minor", rule.minor_mask)];
    let masks: Vec<_> =
        masks.into_iter().filter_map(|(name, mask)| mask.map(|mask| bits(name, mask))).collect();
    let gap = if masks.is_empty() { "" } else { "  " };
    let names = if rule.names.is_empty() { String::new() } else { format!(" ({})", rule.names.join(", ")) };
    let names = sanitize::text(&names);
    let never = if is_never_asked(rule) { " (the kernel never asks about it)" } else { "" };
    let not_drawn = if rule.not_drawn { NOT_DRAWN } else { "" };
    format!("{kind} {major}:{minor} {}{gap}{}{names}{never}{not_drawn}", rule.requests, masks.join(", "))
}

/// What is said of rules of which only single devices can be asked about.
const NOT_DRAWN: &str = " (not drawn: ask gpumap check about one device)";

/// Whether a rule is about c 0:0 alone, overlayfs's whiteouts, which the kernel
/// allows without asking.
fn is_never_asked(rule: &Rule) -> bool {
    let is_zero = (rule.major, rule.minor) == ([0, 0], [0, 0]);
    rule.kind == RuleType::Char && is_zero && rule.major_mask.is_none() && rule.minor_mask.is_none()
}

/// Prints a policy: the default first, then what differs from it, rules about
/// GPUs before others.
pub(super) fn write(out: &mut dyn Write, style: Style, policy: &Policy, gpus: &[Gpu]) -> io::Result<()> {
    let (never_asked, rules): (Vec<&Rule>, Vec<&Rule>) =
        gpus_first(&policy.rules, gpus).into_iter().partition(|rule| is_never_asked(rule));
    let note = match (rules.is_empty(), policy.omitted) {
        _ if policy.not_drawn => "not drawn: ask gpumap check about one device",
        (_, Some(_)) => "most; not all that differs is shown",
        (true, None) => "everything",
        (false, None) => "everything not named below",
    };
    writeln!(out, "  {}  a *:* rwm  ({note})", style.verdict_column(policy.default))?;
    for rule in &rules {
        writeln!(out, "  {}  {}", style.verdict_column(rule.verdict), notation(rule))?;
    }
    if !never_asked.is_empty() {
        writeln!(out, "  c 0:0 is always allowed: the kernel never asks the programs about it")?;
    }
    if let Some(omitted) = policy.omitted {
        let count = omitted.questions;
        writeln!(out, "  … and {count} more device and request pairs that no short rules describe")?;
    }
    policy.unknown.iter().try_for_each(|unknown| {
        let rules = unknown.rules.join(", ");
        writeln!(
            out,
            "  {}  {}: {}",
            unsettled(style, unknown),
            sanitize::text(&rules),
            sanitize::text(&unknown.why)
        )
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
    rules.retain(|rule| !is_never_asked(rule));
    if rules.is_empty() && policy.omitted.is_none() {
        return format!("{} everything", policy.default);
    }
    let mut parts: Vec<String> = Vec::new();
    let mut verdict = None;
    for rule in rules.iter().take(SHOWN) {
        let word = if Some(rule.verdict) == verdict { String::new() } else { format!("{} ", rule.verdict) };
        parts.push(word + &notation(rule));
        verdict = Some(rule.verdict);
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
pub(super) fn gpus_first<'a>(rules: &'a [Rule], gpus: &[Gpu]) -> Vec<&'a Rule> {
    let contains = |[first, last]: [u32; 2], number| (first..=last).contains(&number);
    let rank = |rule: &&Rule| {
        let is_about_all = rule.kind == RuleType::Block || rule.major == [0, MAX_MAJOR];
        let nodes = || gpus.iter().flat_map(|gpu| &gpu.nodes).filter(|_| !is_about_all);
        let is_its = |node: &GpuNode| contains(rule.major, node.major) && contains(rule.minor, node.minor);
        match (nodes().any(is_its), nodes().any(|node| contains(rule.major, node.major))) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        }
    };
    let mut rules: Vec<&Rule> = rules.iter().collect();
    rules.sort_by_cached_key(rank);
    rules
}

fn range([first, last]: [u32; 2], max: u32) -> String {
    match (first, last) {
        (0, last) if last == max => "*".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

fn bits(name: &str, mask: Mask) -> String {
    format!("{name} & {:#x} = {:#x}", mask.mask, mask.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: RuleType, major: [u32; 2], minor: [u32; 2]) -> Rule {
        let (verdict, requests) = (Verdict::Deny, "rwm".to_owned());
        Rule { verdict, kind, major, minor, requests, ..Rule::default() }
    }

    /// Make sure that ranges, wildcards and masks read as in the manual.
    #[test]
    fn spelling() {
        assert_eq!(notation(&rule(RuleType::Char, [195, 195], [0, 2])), "c 195:0-2 rwm");
        assert_eq!(notation(&rule(RuleType::Block, [8, 9], [0, MAX_MINOR])), "b 8-9:* rwm");
        assert_eq!(notation(&rule(RuleType::Any, [0, MAX_MAJOR], [0, MAX_MINOR])), "a *:* rwm");
        assert_eq!(
            notation(&rule(RuleType::Char, [0, 0], [0, 0])),
            "c 0:0 rwm (the kernel never asks about it)"
        );
        let mask = Some(Mask { mask: 1, value: 1 });
        let masked = Rule { minor_mask: mask, ..rule(RuleType::Char, [195, 195], [0, MAX_MINOR]) };
        assert_eq!(notation(&masked), "c 195:* rwm  minor & 0x1 = 0x1");
        let named =
            Rule { names: vec!["nvidia-caps\n".to_owned()], ..rule(RuleType::Char, [510, 510], [0, 1]) };
        assert_eq!(notation(&named), "c 510:0-1 rwm (nvidia-caps\\n)");
    }

    /// Make sure that the one-line form never hides that it was cut.
    #[test]
    fn brief_says_what_it_cuts() {
        let rules = (0..5).map(|minor| rule(RuleType::Char, [195, 195], [minor, minor])).collect();
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
