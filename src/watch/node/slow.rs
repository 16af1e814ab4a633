//! Decodes what a cgroup allows: at once if that is quick, else beside. Until it is known,
//! what a process may open there is unknown and not waited for.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::resolve::Key;
use crate::analyse::{CgroupGpus, TimeLimit};
use crate::observation::{Observation, Process, Text};
use crate::watch::{Beside, LONG, SOON};

/// Cgroups that are remembered because their programs take long to decode.
const REMEMBERED: usize = 256;

/// What is asked and answered beside.
type Question = (Key, Observation, Process);
type Reply = (Key, Option<CgroupGpus>);

/// Decodes, and remembers what took long.
#[derive(Debug)]
pub(super) struct SlowDecoder {
    beside: Beside<Question, Reply>,
    slow: HashMap<Key, SlowCgroup>,
    /// Cgroups whose policy is not known yet, or is known now, that was not told.
    news: Vec<(Text, bool)>,
}

/// A cgroup whose programs take long to decode.
#[derive(Debug)]
struct SlowCgroup {
    observation: Observation,
    /// What is known of it.
    gpus: CgroupGpus,
    is_decoded: bool,
}

impl Default for SlowDecoder {
    fn default() -> Self {
        Self {
            beside: Beside::start(|(key, observation, process)| {
                (key, decode(&observation, &process, LONG).0)
            }),
            slow: HashMap::new(),
            news: Vec::new(),
        }
    }
}

impl SlowDecoder {
    /// What a process may open in its cgroup, as far as that is known.
    pub(super) fn gpus(
        &mut self,
        key: &Key,
        observation: &Observation,
        process: &Process,
    ) -> Option<CgroupGpus> {
        self.learn();
        let known = self.slow.get(key).filter(|known| decides_the_same(&known.observation, observation));
        if let Some(known) = known {
            return Some(known.gpus.clone());
        }
        let (gpus, is_late) = decode(observation, process, SOON);
        let gpus = gpus?;
        self.slow.remove(key);
        let question = || (key.clone(), observation.clone(), process.clone());
        if is_late && self.slow.len() < REMEMBERED && self.beside.ask(question()).is_ok() {
            self.news.push((key.0.clone(), false));
            let slow = SlowCgroup { observation: observation.clone(), gpus: gpus.clone(), is_decoded: false };
            self.slow.insert(key.clone(), slow);
        }
        Some(gpus)
    }

    /// Takes what was decoded meanwhile; the keys of which something is known now.
    pub(super) fn learn(&mut self) -> Vec<Key> {
        let mut learned = Vec::new();
        while let Some((key, gpus)) = self.beside.answer(Duration::ZERO) {
            let slow = self.slow.get_mut(&key).filter(|slow| !slow.is_decoded);
            if let Some((slow, gpus)) = slow.zip(gpus) {
                (slow.gpus, slow.is_decoded) = (gpus, true);
                self.news.push((key.0.clone(), true));
            }
            learned.push(key);
        }
        learned
    }

    /// What is to be told.
    pub(super) fn news(&mut self) -> Vec<(Text, bool)> {
        std::mem::take(&mut self.news)
    }
}

/// Decodes, and tells whether the time was over before all was decoded.
fn decode(observation: &Observation, process: &Process, limit: Duration) -> (Option<CgroupGpus>, bool) {
    let limit = TimeLimit::at(Instant::now().checked_add(limit));
    let gpus = CgroupGpus::new(observation, process, &limit);
    (gpus, limit.was_missed())
}

/// Whether the programs in force, what they read and the GPUs are the same.
fn decides_the_same(before: &Observation, now: &Observation) -> bool {
    let lists = |one: &Observation| -> Vec<_> {
        one.cgroups.iter().map(|cgroup| (cgroup.path.clone(), cgroup.id, cgroup.effective.clone())).collect()
    };
    lists(before) == lists(now)
        && before.programs == now.programs
        && before.maps == now.maps
        && before.gpu_facts == now.gpu_facts
        && before.devices_v1 == now.devices_v1
}
