//! The ways of looking that work here: each was tried.

use super::kernel::is_confidential;
use super::kind::{CheckKind, CheckResult, NodeFacts, missing, note, ok};
use crate::model::EngineTask;

pub(super) const KINDS: &[CheckKind] = &[
    CheckKind {
        id: "engine.processes",
        page: "Processes and what they have open are listed by BPF iterators (Linux 5.8 with BTF) or from /proc, \
               which takes ten times as long. Both give the same answers.",
        look: |node| engine(node, &EngineTask::Processes, "Processes are listed by"),
    },
    CheckKind {
        id: "engine.program-lists",
        page: "A resident gpumap reads the programs of many cgroups by a BPF iterator (Linux 6.1 with BTF), or \
               by a query for each cgroup.",
        look: |node| engine(node, &EngineTask::ProgramLists, "Programs of many cgroups are read by"),
    },
    CheckKind {
        id: "engine.cgroup-changes",
        page: "gpumap watch learns of new cgroups from fanotify or inotify, and sees new programs by the \
               revision that the kernel counts (Linux 6.17, and 6.12 of Debian 13) or by comparing lists.",
        look: |node| engine(node, &EngineTask::CgroupChanges, "Changes of programs are noticed by"),
    },
    CheckKind {
        id: "engine.environment-changes",
        page: "gpumap watch sees setenv and its kin by uprobes: sessions since Linux 6.13, pairs since 5.8.",
        look: |node| engine(node, &EngineTask::EnvironmentChanges, "Changes of environments are seen by"),
    },
    CheckKind {
        id: "engine.call-counts",
        page: "gpumap activity counts calls of drivers' libraries by uprobes that have numbers of their own: \
               sessions since Linux 6.13, a link for all functions of a file since 6.6, one for each since 5.15.",
        look: |node| engine(node, &EngineTask::CallCounts, "Calls of drivers are counted by"),
    },
];

fn engine(node: &NodeFacts<'_>, what: &EngineTask, begin: &str) -> Option<CheckResult> {
    let trial = node.setup.trials.iter().find(|trial| trial.what == *what)?;
    let why = trial.refused.as_deref().unwrap_or("no reason was given");
    Some(match (&trial.engine, &trial.refused) {
        (Some(engine), None) => ok(format!("{begin} {engine}.{}", newer(engine))),
        (Some(engine), Some(why)) => {
            let newer = newer(engine);
            note(format!("{begin} {engine}: nothing better works ({why}).{newer}")).with_fix(quicker(node))
        }
        (None, _) => missing(format!("{begin} nothing: no way works here ({why})."), remedy(node)),
    })
}

/// Engines that a newer kernel replaces, by the first word of their names, with what it gives.
const REPLACED: &[(&str, &str)] = &[
    ("/proc", "Linux 5.8 with BTF lists processes in a tenth of the time (BPF iterators)"),
    ("queries", "Linux 6.1 reads all cgroups at once (a BPF iterator)"),
    (
        "lists",
        "Linux 6.17 (6.12 in Debian 13) counts the changes of a cgroup's programs, so that lists need not be compared",
    ),
    ("uprobe", "Linux 6.13 probes a function's entry and return at once (uprobe.session), which is cheaper"),
    (
        "uprobe.multi",
        "Linux 6.13 probes a function's entry and return at once (uprobe.session), which is cheaper",
    ),
];

/// What a newer kernel gives in place of an engine, as a sentence behind another one.
fn newer(engine: &str) -> String {
    let first = engine.split([' ', '+', ',']).next().unwrap_or_default();
    let better = REPLACED.iter().find(|(replaced, _)| *replaced == first);
    better.map(|(_, gives)| format!(" {gives}.")).unwrap_or_default()
}

/// What to do where no way works.
fn remedy(node: &NodeFacts<'_>) -> &'static str {
    if !has_rights(node) {
        "run gpumap as root of the node and not in a container"
    } else if node.setup.btf.known().is_none() {
        "see kernel.btf: this needs a kernel that describes its types"
    } else if is_confidential(node) {
        "boot with lockdown=integrity: under confidentiality BPF programs may not read the kernel's memory"
    } else {
        "a newer kernel may have what this one refuses; no other answer depends on it"
    }
}

/// What makes a slower engine unnecessary. The answers of both are the same.
fn quicker(node: &NodeFacts<'_>) -> &'static str {
    match (has_rights(node), node.setup.btf.known()) {
        (false, _) => "run gpumap as root of the node: it is quicker, and answers stay the same",
        (true, None) => "see kernel.btf: with BTF it is quicker, and answers stay the same",
        (true, Some(_)) => "a newer kernel makes it quicker, and answers stay the same",
    }
}

/// Whether no right is missing that an engine needs.
fn has_rights(node: &NodeFacts<'_>) -> bool {
    node.has("CAP_SYS_ADMIN") && !node.is_apart("user")
}
