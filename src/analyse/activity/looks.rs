//! Looks at processes about the time of their first call. The driver reads the variables
//! then and never again, and a program may set them just before (Ray's workers do).
//!
//! A look before the first call and one after it that saw the same variables tell what the
//! driver read. Those of a process that ended before a reading are all that is known of it.

use std::collections::{HashMap, HashSet};

use super::neighbours::{Neighbours, SetFlags};
use crate::model::GpuKey;
use crate::observation::ProcessActivity;
use crate::report::{Asked, Process};

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
