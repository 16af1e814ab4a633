//! Writes sets of nodes as host lists: `gpu[01-10,12],login1`. Slurm, ClusterShell
//! and pdsh read them.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::InOrder as _;
use crate::report::NodeSet;

/// Digits of the largest number that is folded.
const DIGITS: usize = 18;

/// Nodes of a set that are named one by one.
const NAMED: usize = 12;

/// A name around its last number.
type Frame<'a> = (&'a str, &'a str);

/// The number of a name as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    /// Characters.
    width: usize,
    value: u64,
    /// Whether zeros lead, so that the width is part of the name.
    is_padded: bool,
}

/// A set of nodes, each once.
pub(super) fn set<'a>(names: impl IntoIterator<Item = &'a str>) -> NodeSet {
    let names: BTreeSet<&str> = names.into_iter().collect();
    let first = names.iter().take(NAMED).map(|name| (*name).to_owned()).collect();
    NodeSet { count: names.len(), nodes: fold(&names), first }
}

fn fold(names: &BTreeSet<&str>) -> String {
    let mut numbered: BTreeMap<Frame<'_>, Vec<Number>> = BTreeMap::new();
    let mut parts: Vec<(&str, String)> = Vec::new();
    for name in names {
        match split(name) {
            Some((frame, number)) => numbered.entry(frame).or_default().push(number),
            None => parts.push((name, (*name).to_owned())),
        }
    }
    for ((before, after), numbers) in numbered {
        parts.push((before, format!("{before}{}{after}", bracketed(numbers))));
    }
    parts.order();
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

/// A name before, in and after its last number.
fn split(name: &str) -> Option<(Frame<'_>, Number)> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let (head, after) = name.split_at_checked(end)?;
    let before = head.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = head.get(before.len()..)?;
    let value = digits.parse().ok().filter(|_| digits.len() <= DIGITS)?;
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    Some(((before, after), Number { width: digits.len(), value, is_padded }))
}

fn bracketed(mut numbers: Vec<Number>) -> String {
    numbers.sort_unstable();
    let runs: Vec<(Number, Number)> = numbers
        .chunk_by(|a, b| follows(*a, *b))
        .filter_map(|run| run.first().copied().zip(run.last().copied()))
        .flat_map(|(first, last)| joined(first, last))
        .collect();
    let one = |number: &Number| format!("{:0width$}", number.value, width = number.width);
    match runs.as_slice() {
        [(first, last)] if first == last => one(first),
        runs => {
            let texts = runs.iter().map(|(first, last)| {
                if first == last { one(first) } else { format!("{}-{}", one(first), one(last)) }
            });
            format!("[{}]", texts.collect::<Vec<_>>().join(","))
        }
    }
}

/// Whether two numbers stand beside each other in a range.
fn follows(a: Number, b: Number) -> bool {
    a.value.checked_add(1) == Some(b.value) && (a.width == b.width || !a.is_padded && !b.is_padded)
}

/// A run as ranges. One that begins with leading zeros must not grow wider in it.
fn joined(first: Number, last: Number) -> Vec<(Number, Number)> {
    if !first.is_padded || first.width == last.width {
        return vec![(first, last)];
    }
    let most = 10_u64.saturating_pow(u32::try_from(first.width).unwrap_or(u32::MAX));
    let middle = Number { value: most - 1, is_padded: false, ..first };
    let next = Number { width: first.width + 1, value: most, is_padded: false };
    [vec![(first, middle)], joined(next, last)].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slurm_conf::host_names;

    fn folded(names: &str) -> String {
        set(names.split_whitespace()).nodes
    }

    #[test]
    fn ranges() {
        for (names, expected) in [
            ("n1 n2 n3 n5", "n[1-3,5]"),
            ("n08 n09 n10 n11", "n[08-11]"),
            ("n8 n9 n10 n11", "n[8-11]"),
            ("n098 n099 n100 n1000", "n[098-100,1000]"),
            ("n98 n99 n100", "n[98-100]"),
            ("n1 n01 n001", "n[1,01,001]"),
            ("n08 n09 n10 n99 n100", "n[08-10,99-100]"),
            ("login gpu-01.a gpu-02.a gpu-02.b", "gpu-02.b,gpu-[01-02].a,login"),
            ("n7 n7", "n7"),
            ("r1n1 r1n2 r2n1", "r1n[1-2],r2n1"),
            ("n1234567890123456789012", "n1234567890123456789012"),
            ("", ""),
        ] {
            assert_eq!(folded(names), expected, "{names}");
        }
    }

    proptest! {
        /// Make sure that a folded list has exactly the names that were folded.
        #[test]
        fn folding_loses_nothing(names in prop::collection::btree_set("[a-c]{0,1}[0-9]{0,3}[.-]?[a-b]?0?[0-9]{1,4}", 1..60)) {
            let names: BTreeSet<String> = names.into_iter().filter(|name| !name.starts_with('-')).collect();
            let found = set(names.iter().map(String::as_str));
            let back: BTreeSet<String> = if names.is_empty() { BTreeSet::new() } else {
                host_names(&found.nodes).unwrap().into_iter().collect()
            };
            prop_assert_eq!((back, found.count), (names.clone(), names.len()));
        }
    }
}
