//! The ways of looking that work here: each was tried.

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
               revision that the kernel counts (Linux 6.17) or by comparing lists.",
        look: |node| engine(node, &EngineTask::CgroupChanges, "Changes of programs are noticed by"),
    },
    CheckKind {
        id: "engine.environment-changes",
        page: "gpumap watch sees setenv and its kin by uprobes: sessions since Linux 6.13, pairs since 5.8.",
        look: |node| engine(node, &EngineTask::EnvironmentChanges, "Changes of environments are seen by"),
    },
];

fn engine(node: &NodeFacts<'_>, what: &EngineTask, begin: &str) -> Option<CheckResult> {
    let trial = node.setup.trials.iter().find(|trial| trial.what == *what)?;
    let why = trial.refused.as_deref().unwrap_or("no reason was given");
    Some(match (&trial.engine, &trial.refused) {
        (Some(engine), None) => ok(format!("{begin} {engine}.")),
        (Some(engine), Some(why)) => note(format!("{begin} {engine}: nothing better works ({why})."))
            .with_fix("root on a newer kernel with BTF makes it quicker; answers stay the same"),
        (None, _) => missing(
            format!("{begin} nothing: no way works here ({why})."),
            "see the checks of rights and kernel above",
        ),
    })
}
