//! Decodes what a cgroup allows: at once if that is quick, else beside. Until it is known,
//! what a process may open there is unknown and not waited for.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::place::Key;
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
    soon: Duration,
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
            soon: SOON,
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
        let (gpus, is_late) = decode(observation, process, self.soon);
        let gpus = gpus?;
        self.slow.remove(key);
        let question = || (key.clone(), observation.clone(), process.clone());
        // Where nobody decodes, what is known so far is the answer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Answer, Environment};

    /// Make sure that a cgroup whose programs take long is unknown until they are decoded,
    /// that both is told, and that they are not decoded again as long as they are the same.
    #[test]
    fn late() {
        let node = include_str!("../../../fixtures/nodes/slurm-4gpu.json");
        let mut observation: Observation = serde_json::from_str(node).unwrap();
        let has_programs = |process: &&Process| {
            let mut cgroups = observation.cgroups.iter();
            let cgroup = cgroups.find(|cgroup| cgroup.path == process.cgroup);
            cgroup.is_some_and(|cgroup| cgroup.effective.known().is_some_and(|ids| !ids.is_empty()))
        };
        let process = observation.processes.iter().rfind(has_programs).unwrap().clone();
        let key = (process.cgroup.clone(), None);
        let asked = |gpus: CgroupGpus| gpus.asked(&Answer::Known(Environment::default()));
        let (expected, is_late) = decode(&observation, &process, LONG);
        let expected = asked(expected.unwrap());
        assert!(!is_late);
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let mut decoder = SlowDecoder { soon: Duration::ZERO, ..SlowDecoder::default() };
        decoder.beside = Beside::start(move |(key, observation, process): Question| {
            wait.recv().unwrap();
            (key, decode(&observation, &process, LONG).0)
        });
        let unknown = asked(decoder.gpus(&key, &observation, &process).unwrap());
        assert_ne!(unknown, expected);
        assert_eq!(decoder.news(), [(process.cgroup.clone(), false)]);
        assert_eq!(asked(decoder.gpus(&key, &observation, &process).unwrap()), unknown);
        assert!(decoder.news().is_empty());
        go.send(()).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while decoder.learn().is_empty() && Instant::now() < end {}
        assert_eq!(decoder.news(), [(process.cgroup.clone(), true)]);
        assert_eq!(asked(decoder.gpus(&key, &observation, &process).unwrap()), expected);
        assert!(decoder.beside.is_idle());
        // Other programs are decoded anew.
        observation.programs.clear();
        assert_ne!(asked(decoder.gpus(&key, &observation, &process).unwrap()), expected);
        assert!(!decoder.beside.is_idle());
    }
}
