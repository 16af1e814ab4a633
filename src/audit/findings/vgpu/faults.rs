//! One finding for each cgroup in which a process has the same fault.

use std::collections::BTreeMap;

use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::tenants::Place;
use crate::audit::{finding, wording};
use crate::report::{Finding, FindingDevice, Process, Vgpu};

/// A process with its limits and what is wrong with it, a sentence.
type Fault<'f> = (&'f Process, &'f Vgpu, String);

/// What one kind of finding says of the processes of a cgroup.
pub(super) struct About {
    pub(super) kind: &'static Kind,
    /// What they do, after their name: `may use GPU memory beyond its limit`.
    pub(super) summary: &'static str,
    pub(super) excuses: &'static [&'static str],
    pub(super) advice: &'static str,
}

/// One finding for each cgroup with a faulty process.
pub(super) fn report<'a>(
    facts: &Facts<'a>,
    about: &About,
    fault: impl Fn(&'a Process, &'a Vgpu) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Place { cgroup, .. } in &facts.places {
        let limited = cgroup.processes.iter().filter_map(|process| Some((process, process.vgpu.as_deref()?)));
        let faults = limited.filter_map(|(process, limits)| Some((process, limits, fault(process, limits)?)));
        let faults: Vec<Fault<'a>> = faults.collect();
        let Some((first, ..)) = faults.first() else { continue };
        let who = match faults.len() {
            1 => format!("process {}", first.pid),
            count => format!("process {} and {} more", first.pid, count - 1),
        };
        findings.push(Finding {
            processes: finding::processes(faults.iter().map(|(process, ..)| *process)),
            devices: devices(facts, &faults),
            evidence: evidence(&faults),
            excuses: about.excuses.iter().map(|excuse| (*excuse).to_owned()).collect(),
            advice: about.advice.to_owned(),
            ..finding::at(about.kind, cgroup, format!("{who}: {}", about.summary))
        });
    }
    findings
}

/// What is wrong, each sentence once, with the first process it is so for.
fn evidence(faults: &[Fault<'_>]) -> Vec<String> {
    let mut by_text: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (process, _, text) in faults {
        by_text.entry(text).or_default().push(process.pid);
    }
    let clause = |(text, pids): (&str, Vec<u32>)| match pids.as_slice() {
        [pid] => format!("{pid}: {text}"),
        [pid, rest @ ..] => format!("{pid} and {} more: {text}", rest.len()),
        [] => text.to_owned(),
    };
    wording::clauses(by_text.into_iter().map(clause).collect())
}

/// The node's GPUs among their devices.
fn devices(facts: &Facts<'_>, faults: &[Fault<'_>]) -> Vec<FindingDevice> {
    let is_theirs = |key: &str| {
        let devices = faults.iter().flat_map(|(_, limits, _)| &limits.devices);
        devices.into_iter().any(|device| device.gpu.as_deref() == Some(key))
    };
    facts.gpus().iter().filter(|gpu| is_theirs(&gpu.key)).map(finding::gpu).collect()
}
