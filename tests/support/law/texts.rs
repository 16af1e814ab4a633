//! What people read, compared with the JSON of the same answer.

use gpumap::model::{DeviceType, MAX_MAJOR, MAX_MINOR, Mask, Numbers, Rule, Verdict};
use gpumap::report::{Diff, GpuVerdict, Policy};

use super::{Differ, must};

/// The rules of a text: the default, then all rules but the one that the kernel never
/// asks about.
pub(super) fn rules(text: &str, policy: &Policy) -> Differ {
    let listed = policy.rules.iter().map(|listed| said(listed.rule.verdict, &listed.rule));
    let mut expected: Vec<String> = listed.filter(|line| !line.contains("c 0:0 ")).collect();
    let section = text.lines().skip_while(|line| !line.starts_with("Rules")).skip(1);
    let mut lines = section.take(expected.len() + 1).map(bare);
    let default = lines.next().unwrap_or_default();
    must(default == format!("{} a *:* rwm", policy.default), || format!("the text begins with {default}"))?;
    same(lines.collect(), &mut expected)
}

/// The row of a GPU.
pub(super) fn gpu(text: &str, gpu: &GpuVerdict) -> Differ {
    let number = format!(" {}:{} ", gpu.major.unwrap_or_default(), gpu.minor.unwrap_or_default());
    let row = text.lines().find(|line| line.contains("/dev/nvidia") && line.contains(&number));
    let word = row.and_then(|row| row.split_whitespace().next()).unwrap_or_default();
    must(word == gpu.verdict.to_string(), || format!("the text says {word:?} of {gpu:?}"))
}

/// The lines of a difference.
pub(super) fn changes(text: &str, diff: &Diff) -> Differ {
    let pairs = diff.changes.iter();
    let mut expected: Vec<String> = pairs
        .flat_map(|change| {
            let (from, to) = (said(change.from, &change.rule.rule), said(change.to, &change.rule.rule));
            [format!("- {from}"), format!("+ {to}")]
        })
        .collect();
    let lines = text.lines().filter(|line| line.starts_with("- ") || line.starts_with("+ "));
    same(lines.map(bare).collect(), &mut expected)?;
    let says_equal = text.contains("The policies are equal.");
    must(says_equal == diff.equal, || format!("equal: {}, and the text says {text}", diff.equal))
}

fn same(mut found: Vec<String>, expected: &mut Vec<String>) -> Differ {
    found.sort();
    expected.sort();
    let differs = || found.iter().zip(expected.iter()).find(|(a, b)| a != b);
    must(found == *expected, || {
        format!("{} lines for {} rules, first {:?}", found.len(), expected.len(), differs())
    })
}

/// A line without notes and alignment.
fn bare(line: &str) -> String {
    let rule = line.split(" (").next().unwrap_or_default();
    rule.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn said(verdict: Verdict, rule: &Rule) -> String {
    let kind = match rule.kind {
        Some(DeviceType::Char) => 'c',
        Some(DeviceType::Block) => 'b',
        None => 'a',
    };
    let (major, minor) = (range(rule.major, MAX_MAJOR), range(rule.minor, MAX_MINOR));
    let masks = [mask("major", rule.major.mask), mask("minor", rule.minor.mask)];
    let masks: Vec<String> = masks.into_iter().flatten().collect();
    bare(&format!("{verdict} {kind} {major}:{minor} {} {}", rule.requests, masks.join(", ")))
}

fn mask(name: &str, mask: Option<Mask>) -> Option<String> {
    mask.map(|Mask { mask, value }| format!("{name} & {mask:#x} = {value:#x}"))
}

fn range(Numbers { first, last, .. }: Numbers, most: u32) -> String {
    match (first, last) {
        (0, last) if last == most => "*".to_owned(),
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}
