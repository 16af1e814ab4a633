//! What the answer of `node` says of a process whose calls are counted: where it is,
//! whose it is, and what it was allocated, may open, asks for and holds.

use std::collections::HashMap;

use super::super::joined_node::JoinedNode;
use crate::model::{CgroupPath, GpuKey, Owner, Verdict};
use crate::observation::{ProcessActivity, Text};
use crate::report::{Cgroup, Gpu, GpuSet, NodeAnswer, Process};

/// Where a process is, and whose it is.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessLocation {
    pub(super) cgroup: String,
    pub(super) cgroup_hex: Option<String>,
    pub(super) owner: Option<Owner>,
    pub(super) user: Option<String>,
    pub(super) user_hex: Option<String>,
}

/// Which of the four sets have a GPU; `None` where that is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SetFlags {
    pub(super) allocated: Option<bool>,
    pub(super) allowed: Option<bool>,
    pub(super) asked: Option<bool>,
    pub(super) held: Option<bool>,
}

/// The rest of an answer, to be looked up.
#[derive(Debug)]
pub(super) struct Neighbours<'a> {
    join: &'a JoinedNode<'a>,
    /// What is known to be allocated, by the topmost cgroup of its owner.
    allocated: HashMap<CgroupPath<'a>, &'a GpuSet>,
    processes: HashMap<(u32, u64), (&'a Cgroup, &'a Process)>,
    cgroups: HashMap<u64, &'a Text>,
}

impl<'a> Neighbours<'a> {
    pub(super) fn new(join: &'a JoinedNode<'_>, answer: &'a NodeAnswer) -> Self {
        let cgroups = answer.cgroups.iter();
        let processes = cgroups.flat_map(|cgroup| cgroup.processes.iter().map(move |it| (cgroup, it)));
        let key = |process: &Process| (process.pid, process.start_time);
        let all = &join.observation.cgroups;
        let rows = answer.owners.iter().flatten();
        let rows = rows.filter(|row| row.owner.is_workload() && row.allocated.gpus.is_some());
        Self {
            join,
            allocated: rows.map(|row| (CgroupPath::new(&row.cgroup), &row.allocated)).collect(),
            processes: processes.map(|(cgroup, process)| (key(process), (cgroup, process))).collect(),
            cgroups: all.iter().map(|cgroup| (cgroup.id, &cgroup.path)).collect(),
        }
    }

    /// The node's GPUs.
    pub(super) fn gpus(&self) -> &'a [Gpu] {
        &self.join.gpus
    }

    /// What was observed of a process.
    pub(super) fn process(&self, counted: &ProcessActivity) -> Option<&'a Process> {
        self.processes.get(&(counted.pid, counted.start_time)).map(|(_, process)| *process)
    }

    /// Where a process is and whose it is; of one that was not observed, the cgroup
    /// in which it made its first call, if that is there.
    pub(super) fn place(&self, counted: &ProcessActivity) -> Option<ProcessLocation> {
        let observed = self.process(counted);
        if let Some(process) = observed {
            let cgroup = self.processes.get(&(counted.pid, counted.start_time)).map(|(cgroup, _)| *cgroup)?;
            return Some(ProcessLocation {
                cgroup: cgroup.path.clone(),
                cgroup_hex: cgroup.path_hex.clone(),
                owner: cgroup.owner.clone(),
                user: process.user.clone(),
                user_hex: process.user_hex.clone(),
            });
        }
        let path = self.cgroups.get(&counted.cgroup_id).copied().or(counted.cgroup.as_ref())?;
        Some(ProcessLocation {
            cgroup: path.lossy().into_owned(),
            cgroup_hex: path.hex(),
            owner: self.join.owners.of(path).cloned(),
            user: self.join.user(counted.uid).map(|name| name.lossy().into_owned()),
            user_hex: self.join.user(counted.uid).and_then(Text::hex),
        })
    }

    /// A process that was observed (pid, start), and its cgroup.
    pub(super) fn there(&self, process: (u32, u64)) -> Option<(&'a Cgroup, &'a Process)> {
        self.processes.get(&process).copied()
    }

    /// The processes that were observed, by pid and start.
    pub(super) fn observed(&self) -> impl Iterator<Item = ((u32, u64), &'a Process)> + '_ {
        self.processes.iter().map(|(key, (_, process))| (*key, *process))
    }

    /// Which of the four sets of a process (pid, start) have this GPU.
    pub(super) fn sets(&self, process: (u32, u64), gpu: &str) -> SetFlags {
        let Some((cgroup, process)) = self.there(process) else { return SetFlags::default() };
        let verdict = cgroup.gpus.iter().find(|verdict| *verdict.gpu == *gpu).map(|verdict| verdict.verdict);
        let has = |keys: &[GpuKey]| keys.iter().any(|key| **key == *gpu);
        let live = process.visible.as_ref().map(|visible| &visible.live);
        SetFlags {
            allocated: self.allocated(&cgroup.path).and_then(|set| membership(set, gpu)),
            allowed: verdict.and_then(|verdict| match verdict {
                Verdict::Allow => Some(true),
                Verdict::Deny => Some(false),
                Verdict::Unknown => None,
            }),
            asked: live.and_then(|asked| asked.gpus.as_deref()).map(has),
            held: process.held.as_deref().and_then(|held| match (has(held), &process.held_unknown) {
                (false, Some(_)) => None,
                (held, _) => Some(held),
            }),
        }
    }

    /// What the innermost owner around a cgroup was allocated of which that is known.
    fn allocated(&self, cgroup: &str) -> Option<&'a GpuSet> {
        CgroupPath::new(cgroup).upwards().find_map(|path| self.allocated.get(&path).copied())
    }
}

/// Whether a set has a GPU; `None` where that is not known.
fn membership(set: &GpuSet, gpu: &str) -> Option<bool> {
    let gpus = set.gpus.as_ref()?;
    let has = |keys: &[GpuKey]| keys.iter().any(|key| **key == *gpu);
    if has(gpus) { Some(true) } else { (!has(&set.unknown)).then_some(false) }
}
