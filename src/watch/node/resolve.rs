//! What environments ask for inside the set that a process's cgroup allows:
//! the same observation and analysis as those of `gpumap pid`, kept for
//! moments.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::place::Remembered;
use super::place::{Key, OwnedCgroup, Places, STAYS};
use super::slow::{Decoded, SlowDecoder};
use crate::analyse::{CgroupGpus, MovedReach};
use crate::observation::{Answer, CgroupMode, Environment, Observation, Process, Text};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::{self, CgroupTarget, Options};
use crate::report::{Asked, Gpu};
use crate::watch::EventSubject;

/// How long an observation of a cgroup serves: its programs may change.
const FRESH: Duration = Duration::from_millis(500);
/// Observations that are remembered.
const REMEMBERED: usize = 256;

/// What one observation of a cgroup says of the GPUs that a process may open in it.
#[derive(Debug)]
pub(in crate::watch) struct CgroupReach {
    at: Instant,
    /// Of all observations, this one.
    pub(in crate::watch) serial: u64,
    /// The question that is still to be answered, before all of it is known: see
    /// [`NodeReader::answers`](super::NodeReader::answers).
    pub(in crate::watch) open: Option<u64>,
    asker: CgroupGpus,
}

impl CgroupReach {
    /// One that a test makes up.
    #[cfg(test)]
    pub(in crate::watch) fn made_up(asker: CgroupGpus, open: Option<u64>) -> Self {
        Self { at: Instant::now(), serial: 0, open, asker }
    }

    /// What a process may open here that it could not where `before` answers, and
    /// the other way round.
    pub(in crate::watch) fn difference(&self, before: &Self) -> MovedReach {
        CgroupGpus::difference(&before.asker, &self.asker)
    }

    /// Why an environment that asks for this gets no GPU: see [`CgroupGpus::why_none`].
    pub(in crate::watch) fn why_none(&self, asked: &Asked, variable: Option<&str>) -> Option<String> {
        self.asker.why_none(asked, variable)
    }

    /// What an environment asks for; one that is not known asks for something
    /// unknown.
    pub(in crate::watch) fn asked(&self, environment: Option<&Environment>) -> Asked {
        self.asker.asked(&match environment {
            Some(environment) => Answer::Known(environment.clone()),
            None => Answer::Missing("its environment is not known".to_owned()),
        })
    }
}

/// Observes cgroups, and remembers them.
#[derive(Debug)]
pub(super) struct Resolver {
    options: Options,
    places: Places,
    /// The cgroups of the v1 devices controller, which no event names.
    /// `None` where one cannot be read.
    groups: Remembered<(u32, u64), Option<Option<Text>>>,
    known: HashMap<Key, Rc<CgroupReach>>,
    slow: SlowDecoder,
    serial: u64,
    /// Whether the v1 controller has a say, as of the last observation.
    v1: bool,
    /// The node's GPUs as of the last observation.
    pub(super) gpus: Vec<Gpu>,
}

impl Resolver {
    pub(super) fn new(options: Options) -> Self {
        let options = Options { detail: false, deadline: None, units: false, hook: false, ..options };
        Self {
            places: Places::new(observe::trusted_names(&options)),
            options,
            groups: Remembered::new(STAYS),
            known: HashMap::new(),
            slow: SlowDecoder::default(),
            serial: 0,
            v1: false,
            gpus: Vec::new(),
        }
    }

    /// Where `/proc` is.
    pub(super) fn proc(&self) -> &Path {
        &self.options.proc
    }

    /// The cgroup that a process was in, if it is known.
    pub(super) fn place(&mut self, subject: &EventSubject) -> Option<Rc<OwnedCgroup>> {
        self.places.of(&self.options, subject)
    }

    /// The cgroup of this id, if it is there or was seen; no process is asked.
    pub(super) fn cgroup(&mut self, id: u64) -> Option<Rc<OwnedCgroup>> {
        self.places.by_id(&self.options, id)
    }

    /// What answers for a process in a cgroup; `None` where the cgroup is
    /// gone.
    pub(super) fn reach(&mut self, subject: &EventSubject, cgroup: &OwnedCgroup) -> Option<Rc<CgroupReach>> {
        if let Some(key) = self.key(subject, cgroup) {
            if let Some(known) = self.known.get(&key).filter(|known| known.at.elapsed() < FRESH) {
                return Some(known.clone());
            }
            self.known.remove(&key);
        }
        self.observe(subject, cgroup)
    }

    /// What answers for a process whose cgroup is gone.
    pub(super) fn nowhere(&mut self, subject: &EventSubject) -> Option<CgroupReach> {
        if self.serial == 0 {
            // Nobody has looked at the node's GPUs yet.
            self.observe(subject, &OwnedCgroup { path: "/".into(), ..OwnedCgroup::default() })?;
        }
        let asker = CgroupGpus::nowhere(self.gpus.clone());
        Some(CgroupReach { at: Instant::now(), serial: self.serial, open: None, asker })
    }

    /// What is to be reported of cgroups whose programs take long to decode. What was known of
    /// them is looked up again.
    pub(super) fn decoding(&mut self) -> Vec<(Text, bool)> {
        for key in self.slow.learn() {
            self.known.remove(&key);
        }
        self.slow.news()
    }

    /// What was still open, by its question, and is known now.
    pub(super) fn answers(&mut self) -> Vec<(u64, Rc<CgroupReach>)> {
        let (at, serial) = (Instant::now(), self.serial);
        let reach = |asker| Rc::new(CgroupReach { at, serial, open: None, asker });
        self.slow.answers().into_iter().map(|(question, gpus)| (question, reach(gpus))).collect()
    }

    /// `None` where it is not known which rules of v1 count for the process.
    fn key(&mut self, subject: &EventSubject, cgroup: &OwnedCgroup) -> Option<Key> {
        // What is kept serves nobody whose place is not known.
        let group = || v1_group(&self.options.proc, subject.pid).ok();
        let group = if self.v1 { self.groups.get((subject.pid, subject.start_time), group)? } else { None };
        Some((cgroup.path.clone(), group))
    }

    fn observe(&mut self, subject: &EventSubject, cgroup: &OwnedCgroup) -> Option<Rc<CgroupReach>> {
        let pid = subject.pid;
        let at = Instant::now();
        // Where its place is not known, what it may open is not reported.
        let group = v1_group(&self.options.proc, pid).ok()?;
        let observation = self.observation(pid, &cgroup.path)?;
        self.v1 = observation.devices_v1.is_some();
        let seen = observation.processes.iter().find(|process| process.pid == pid);
        let is_there = seen.is_some();
        let devices_v1 = seen.and_then(|process| process.devices_v1.clone());
        let process = Process { pid, cgroup: cgroup.path.clone(), devices_v1, ..Process::default() };
        let Decoded { gpus: asker, open } =
            self.slow.gpus(&(cgroup.path.clone(), group.clone()), &observation, &process)?;
        self.gpus = asker.gpus().to_vec();
        self.serial += 1;
        // On a legacy host ids are those of another hierarchy.
        let seen = observation.cgroups.iter().find(|seen| seen.path == cgroup.path);
        if let Some(seen) = seen.filter(|_| observation.host.cgroup_mode != CgroupMode::Legacy) {
            self.places.remember(seen.id, &cgroup.path);
        }
        let known = Rc::new(CgroupReach { at, serial: self.serial, open, asker });
        // One that moved meanwhile may have been seen before or after that.
        if v1_group(&self.options.proc, pid).as_ref() == Ok(&group) {
            // Of one that is not there nothing is known of v1.
            let group = group.filter(|_| self.v1 && is_there);
            self.keep((cgroup.path.clone(), group), known.clone());
        }
        Some(known)
    }

    fn keep(&mut self, key: Key, known: Rc<CgroupReach>) {
        if self.known.len() >= REMEMBERED {
            self.known.retain(|_, known| known.at.elapsed() < FRESH);
        }
        if self.known.len() < REMEMBERED {
            self.known.insert(key, known);
        }
    }

    fn observation(&self, pid: u32, cgroup: &Text) -> Option<Observation> {
        // Only a living process tells its place in the v1 hierarchy.
        let target = CgroupTarget::observed(cgroup, false);
        // One that is elsewhere by now has the same place there.
        // A process that cannot be read is asked about by its cgroup alone.
        let its = observe::processes_and(&self.options, &[pid], std::slice::from_ref(&target)).ok();
        let its = its.filter(|seen| seen.cgroups.iter().any(|seen| seen.path == *cgroup));
        // Then an event does not tell what may be opened: it is not known.
        its.or_else(|| observe::cgroups(&self.options, &[target]).ok())
    }
}

/// The line of `/proc/PID/cgroup` for the v1 devices controller, if there is
/// one and the process is.
fn v1_group(proc: &Path, pid: u32) -> Result<Option<Text>, NotRead> {
    match PinnedProcess::at(proc, pid).and_then(|process| process.cgroups()) {
        Ok(lines) => Ok(lines.devices().map(Text::from)),
        Err(NotRead::Gone) => Ok(None),
        Err(why) => Err(why),
    }
}
