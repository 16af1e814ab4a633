//! What the answer of `node` says of a process whose calls are counted (where it is, whose
//! it is, and what it was allocated, may open, asks for and holds), and looks at it about
//! the time of its first call. The driver reads the variables then and never again, and a
//! program may set them just before (Ray's workers do).
//!
//! A look before the first call and one after it that saw the same variables tell what the
//! driver read. Those of a process that ended before a reading are all that is known of it.

use std::collections::{HashMap, HashSet};

use crate::analyse::joined_node::JoinedNode;
use crate::model::{CgroupPath, GpuKey, Owner, Verdict};
use crate::observation::{ProcessActivity, Text};
use crate::report::{Asked, Cgroup, Gpu, GpuSet, NodeAnswer, Process};

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

/// Looks that are kept of one process, and processes.
const EACH: usize = 6;

const PROCESSES: usize = 4096;

/// What was seen of processes, by pid and start, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<(u32, u64), Vec<Look>>);

/// What was seen of one process, and when the look began and ended.
#[derive(Clone, Debug)]
struct Look {
    from: u64,
    until: u64,
    process: Process,
    sets: Vec<(GpuKey, SetFlags)>,
}

impl Looks {
    /// Keeps what was seen of all processes of an answer.
    pub(super) fn add(&mut self, neighbours: &Neighbours<'_>, from: u64, until: u64) {
        if self.0.len() > PROCESSES {
            self.0.clear();
        }
        for (key, process) in neighbours.observed() {
            let looks = self.0.entry(key).or_default();
            let sets = neighbours.gpus().iter().map(|gpu| (gpu.key.clone(), neighbours.sets(key, &gpu.key)));
            if looks.len() < EACH {
                looks.push(Look { from, until, process: process.clone(), sets: sets.collect() });
            }
        }
    }

    /// What they tell of a process that is counted.
    pub(super) fn of(&self, counted: &ProcessActivity) -> FirstLook {
        let looks = self.0.get(&(counted.pid, counted.start_time)).map(Vec::as_slice).unwrap_or_default();
        let is_its = |look: &&Look| counted.ended_ns.is_none_or(|ended| look.until <= ended);
        let after = looks.iter().filter(is_its).find(|look| look.from >= counted.first_ns);
        let before = looks.iter().rfind(|look| look.until <= counted.first_ns);
        let live = |look: &Look| look.process.visible.as_ref().map(|visible| visible.live.clone());
        let asked = after.and_then(live).filter(|asked| before.and_then(live).as_ref() == Some(asked));
        FirstLook { asked, seen: after.map(|look| (look.process.clone(), look.sets.clone())) }
    }

    /// Forgets processes of which nothing is counted any more.
    pub(super) fn keep_only(&mut self, counted: &HashSet<(u32, u64)>, before: u64) {
        let is_young = |looks: &[Look]| looks.last().is_some_and(|look| look.until >= before);
        self.0.retain(|key, looks| counted.contains(key) || is_young(looks));
    }
}

/// What was seen of one process about its first call.
#[derive(Debug, Default)]
pub(super) struct FirstLook {
    asked: Option<Asked>,
    seen: Option<(Process, Vec<(GpuKey, SetFlags)>)>,
}

impl FirstLook {
    /// Whether nothing was.
    pub(super) fn is_nothing(&self) -> bool {
        self.asked.is_none() && self.seen.is_none()
    }

    /// What its variables said at its first call.
    pub(super) fn asked(&self) -> Option<&Asked> {
        self.asked.as_ref()
    }

    /// The process soon after its first call.
    pub(super) fn process(&self) -> Option<&Process> {
        self.seen.as_ref().map(|(process, _)| process)
    }

    /// Which of the four sets had a GPU then.
    pub(super) fn sets(&self, gpu: &str) -> Option<SetFlags> {
        self.seen.as_ref()?.1.iter().find(|(key, _)| key == gpu).map(|(_, sets)| *sets)
    }
}
