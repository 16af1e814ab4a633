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

/// What is asked and answered beside, with the number of the question: by the time of an
/// answer the cgroup may have other programs.
type Question = (u64, Observation, Process);
type Reply = (u64, Option<CgroupGpus>);

/// Decodes, and remembers what took long.
#[derive(Debug)]
pub(super) struct SlowDecoder {
    beside: Beside<Question, Reply>,
    /// How many questions were asked.
    asked: u64,
    slow: HashMap<Key, SlowCgroup>,
    soon: Duration,
    /// Cgroups whose policy is not known yet, or is known now, that was not reported.
    news: Vec<(Text, bool)>,
    /// Answers that nobody took yet, by question.
    answers: Vec<(u64, CgroupGpus)>,
}

/// What a process may open in its cgroup.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) gpus: CgroupGpus,
    /// The question that is still to be answered, before all of it is known.
    pub(super) open: Option<u64>,
}

/// A cgroup whose programs take long to decode.
#[derive(Debug)]
struct SlowCgroup {
    question: u64,
    observation: Observation,
    /// What is known of it.
    gpus: CgroupGpus,
    is_decoded: bool,
}

impl Default for SlowDecoder {
    fn default() -> Self {
        Self {
            beside: Beside::start(|(number, observation, process)| {
                (number, decode(&observation, &process, LONG).0)
            }),
            asked: 0,
            slow: HashMap::new(),
            soon: SOON,
            news: Vec::new(),
            answers: Vec::new(),
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
    ) -> Option<Decoded> {
        self.learn();
        let known = self.slow.get(key).filter(|known| decides_the_same(&known.observation, observation));
        if let Some(known) = known {
            let open = (!known.is_decoded).then_some(known.question);
            return Some(Decoded { gpus: known.gpus.clone(), open });
        }
        let (gpus, is_late) = decode(observation, process, self.soon);
        let gpus = gpus?;
        self.slow.remove(key);
        let open = if is_late { self.ask(key, observation, process, &gpus) } else { None };
        Some(Decoded { gpus, open })
    }

    /// Asks beside; the number of the question.
    fn ask(
        &mut self,
        key: &Key,
        observation: &Observation,
        process: &Process,
        gpus: &CgroupGpus,
    ) -> Option<u64> {
        let question = self.asked + 1;
        if self.slow.len() >= REMEMBERED {
            self.slow.retain(|_, slow| !slow.is_decoded);
        }
        if self.slow.len() >= REMEMBERED {
            return None;
        }
        // A question that is refused is put again with the next event.
        self.beside.ask((question, observation.clone(), process.clone())).ok()?;
        self.asked = question;
        self.news.push((key.0.clone(), false));
        let (observation, gpus) = (observation.clone(), gpus.clone());
        self.slow.insert(key.clone(), SlowCgroup { question, observation, gpus, is_decoded: false });
        Some(question)
    }

    /// Takes what was decoded meanwhile; the keys of which something is known now.
    pub(super) fn learn(&mut self) -> Vec<Key> {
        let mut learned = Vec::new();
        while let Some((question, gpus)) = self.beside.answer(Duration::ZERO) {
            let Some(gpus) = gpus else { continue };
            let current = self.slow.iter_mut().find(|(_, slow)| slow.question == question);
            if let Some((key, slow)) = current {
                (slow.gpus, slow.is_decoded) = (gpus.clone(), true);
                self.news.push((key.0.clone(), true));
                learned.push(key.clone());
            }
            self.answers.push((question, gpus));
        }
        learned
    }

    /// What was asked and is answered.
    pub(super) fn answers(&mut self) -> Vec<(u64, CgroupGpus)> {
        std::mem::take(&mut self.answers)
    }

    /// What is to be reported.
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

    /// A saved node, and a process in one of its cgroups that have programs.
    fn node() -> (Observation, Process) {
        let node = include_str!("../../../fixtures/nodes/slurm-4gpu.json");
        let observation: Observation = serde_json::from_str(node).unwrap();
        let has_programs = |process: &&Process| {
            let mut cgroups = observation.cgroups.iter();
            let cgroup = cgroups.find(|cgroup| cgroup.path == process.cgroup);
            cgroup.is_some_and(|cgroup| cgroup.effective.known().is_some_and(|ids| !ids.is_empty()))
        };
        let process = observation.processes.iter().rfind(has_programs).unwrap().clone();
        (observation, process)
    }

    /// A decoder that has no time, and whose other thread waits for a signal before each
    /// answer.
    fn without_time() -> (SlowDecoder, std::sync::mpsc::Sender<()>) {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let beside = Beside::start(move |(number, observation, process): Question| {
            wait.recv().unwrap();
            (number, decode(&observation, &process, LONG).0)
        });
        (SlowDecoder { soon: Duration::ZERO, beside, ..SlowDecoder::default() }, go)
    }

    fn until_idle(decoder: &mut SlowDecoder) {
        let end = Instant::now() + Duration::from_secs(60);
        while !decoder.beside.is_idle() && Instant::now() < end {
            decoder.learn();
        }
    }

    fn asked(gpus: &CgroupGpus) -> crate::report::Asked {
        gpus.asked(&Answer::Known(Environment::default()))
    }

    /// Make sure that a cgroup whose programs take long is unknown until they are decoded,
    /// that both is reported, and that they are not decoded again as long as they are the same.
    #[test]
    fn late() {
        let (mut observation, process) = node();
        let key = (process.cgroup.clone(), None);
        let (expected, is_late) = decode(&observation, &process, LONG);
        let expected = asked(&expected.unwrap());
        assert!(!is_late);
        let (mut decoder, go) = without_time();
        let first = decoder.gpus(&key, &observation, &process).unwrap();
        let unknown = asked(&first.gpus);
        assert!(unknown != expected && first.open == Some(1));
        assert_eq!(decoder.news(), [(process.cgroup.clone(), false)]);
        let again = decoder.gpus(&key, &observation, &process).unwrap();
        assert_eq!((asked(&again.gpus), again.open), (unknown, Some(1)));
        assert!(decoder.news().is_empty());
        go.send(()).unwrap();
        until_idle(&mut decoder);
        assert_eq!(decoder.news(), [(process.cgroup.clone(), true)]);
        assert!(matches!(&decoder.answers()[..], [(1, gpus)] if asked(gpus) == expected));
        let known = decoder.gpus(&key, &observation, &process).unwrap();
        assert_eq!((asked(&known.gpus), known.open), (expected.clone(), None));
        assert!(decoder.beside.is_idle());
        // Other programs are decoded anew.
        observation.programs.clear();
        let other = decoder.gpus(&key, &observation, &process).unwrap();
        assert!(asked(&other.gpus) != expected && other.open == Some(2));
        assert!(!decoder.beside.is_idle());
    }

    /// Make sure that the answer about programs that are no longer in force is not taken for
    /// one about those that took their place.
    #[test]
    fn replaced_meanwhile() {
        let (before, process) = node();
        let mut now = before.clone();
        // The program of one task is that of another one now.
        now.cgroups.iter_mut().for_each(|cgroup| cgroup.effective = Answer::Known(vec![49635]));
        let key = (process.cgroup.clone(), None);
        let [old, expected] = [&before, &now].map(|one| asked(&decode(one, &process, LONG).0.unwrap()));
        assert_ne!(old, expected);
        let (mut decoder, go) = without_time();
        let open = [&before, &now].map(|one| decoder.gpus(&key, one, &process).unwrap().open);
        go.send(()).unwrap();
        while decoder.answers().is_empty() {
            decoder.learn();
        }
        let meanwhile = decoder.gpus(&key, &now, &process).unwrap();
        assert_eq!((open, meanwhile.open), ([Some(1), Some(2)], Some(2)));
        go.send(()).unwrap();
        until_idle(&mut decoder);
        let known = decoder.gpus(&key, &now, &process).unwrap();
        assert_eq!((asked(&known.gpus), known.open), (expected, None));
    }
}
