//! The answer of `gpumap cgroup -r`: one row for each cgroup, grouped by policy.

use std::collections::HashMap;
use std::io::{self, Write};

use super::table::{self, Last};
use super::{Style, gpus, process, rules, sanitize};
use crate::model::Verdict;
use crate::report::{Cgroup, GpuVerdict, Payload};

/// Prints the cgroups of the answer by policy, in the order in which the walk
/// first met each policy.
pub fn write(out: &mut dyn Write, style: Style, payload: &Payload) -> io::Result<()> {
    let cgroups = payload.cgroups.as_deref().unwrap_or_default();
    let groups = group(cgroups);
    let count =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    writeln!(
        out,
        "{}, {}, {}",
        count(cgroups.len(), "cgroup", "cgroups"),
        count(groups.len(), "policy", "policies"),
        count(payload.gpus.iter().flatten().count(), "GPU", "GPUs"),
    )?;
    groups.iter().try_for_each(|group| one(out, style, group, payload))
}

fn one(out: &mut dyn Write, style: Style, group: &[&Cgroup], payload: &Payload) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let policy = payload.policies.as_ref().and_then(|policies| policies.get(&first.policy));
    let text = policy.map_or_else(
        || "not decoded".to_owned(),
        |policy| rules::brief(policy, payload.gpus.as_deref().unwrap_or_default()),
    );
    writeln!(out, "\nPolicy: {text}")?;
    for why in policy.iter().flat_map(|policy| &policy.unknown) {
        writeln!(out, "  {}: {}", rules::unsettled(style, why), sanitize::text(&why.why))?;
    }
    let gpus = gpus::compact(&first.gpus, payload.gpus.as_deref().unwrap_or_default());
    let rows = group.iter().map(|cgroup| {
        let path = sanitize::with_hex(&cgroup.path, cgroup.path_hex.as_deref()).into_owned();
        let processes = process::count(cgroup.processes.len(), cgroup.unseen.as_ref());
        vec![gpus.clone(), ids(cgroup), processes, path]
    });
    table::write(out, style, &["GPUS", "PROGRAMS", "PROCS", "CGROUP"], &["PROCS"], rows.collect(), Last::Runs)
}

fn ids(cgroup: &Cgroup) -> String {
    let ids: Vec<String> = cgroup.programs.iter().map(|program| program.id.to_string()).collect();
    match ids.as_slice() {
        [] if cgroup.programs_unknown.is_some() => "unknown".to_owned(),
        [] => "none".to_owned(),
        ids => ids.join(","),
    }
}

/// Cgroups with the same policy and the same verdicts; verdicts can differ
/// under one policy where the v1 controller has a say.
fn group(cgroups: &[Cgroup]) -> Vec<Vec<&Cgroup>> {
    let mut groups: Vec<Vec<&Cgroup>> = Vec::new();
    let mut places: HashMap<(&str, Vec<Verdict>), usize> = HashMap::new();
    for cgroup in cgroups {
        let verdicts = cgroup.gpus.iter().map(|gpu: &GpuVerdict| gpu.verdict).collect();
        let place = *places.entry((&cgroup.policy, verdicts)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(cgroup),
            None => groups.push(vec![cgroup]),
        }
    }
    groups
}
