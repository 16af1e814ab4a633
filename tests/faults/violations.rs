//! What broke the law, in groups that can be read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use nix::errno::Errno;

use super::engine::{Failed, Fault};
use super::law::Breach;

/// One breach of the law.
#[derive(Clone, Debug)]
pub struct Violation {
    pub command: &'static str,
    pub fault: Fault,
    pub failed: Failed,
    pub error: Errno,
    pub breach: Breach,
}

/// Breaches of one kind: the same call about the same kind of thing.
#[derive(Default)]
struct Group {
    count: usize,
    commands: BTreeMap<&'static str, usize>,
    errors: BTreeMap<String, usize>,
    example: Option<Violation>,
}

/// A report, the greatest groups first; empty where there is none.
pub fn report(all: &[Violation]) -> String {
    let mut groups: BTreeMap<(String, String, &str), Group> = BTreeMap::new();
    for one in all {
        let key = (one.failed.call.clone(), one.failed.kind(), one.breach.how);
        let group = groups.entry(key).or_default();
        group.count += 1;
        *group.commands.entry(one.command).or_default() += 1;
        *group.errors.entry(one.error.to_string_short()).or_default() += 1;
        group.example.get_or_insert_with(|| one.clone());
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    let mut text = String::new();
    for ((call, target, how), group) in groups {
        let _ = writeln!(text, "\n## {how}: {call} {target} ({} times)", group.count);
        let list = |names: Vec<String>| names.join(", ");
        let _ = writeln!(
            text,
            "commands: {}",
            list(group.commands.iter().map(|(name, count)| format!("{name} {count}")).collect())
        );
        let _ = writeln!(
            text,
            "errors: {}",
            list(group.errors.iter().map(|(name, count)| format!("{name} {count}")).collect())
        );
        if let Some(one) = group.example {
            let which = match one.fault {
                Fault::Once(number) => format!("call {number}"),
                Fault::Always(_) => "each of its kind".to_owned(),
            };
            let _ = writeln!(
                text,
                "e.g. {}, {which}, {}, {}",
                one.command,
                one.error.to_string_short(),
                one.failed.target
            );
            for line in &one.breach.what {
                let _ = writeln!(text, "    {line}");
            }
        }
    }
    text
}

trait Short {
    fn to_string_short(&self) -> String;
}

impl Short for Errno {
    fn to_string_short(&self) -> String {
        format!("{self:?}")
    }
}
