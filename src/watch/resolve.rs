//! What an environment asks for inside the set that the process's cgroup
//! allows: the same observation and analysis as those of `gpumap pid`, kept
//! for moments.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::analyse::{self, Granted};
use crate::observation::{Answer, Detail, Environment, Observation, Process, Text};
use crate::observe::{self, Options, Target};
use crate::report::{Gpu, Visible};

/// How long an observation of a cgroup serves: its programs may change.
const FRESH: Duration = Duration::from_millis(500);
/// Cgroups that are remembered.
const REMEMBERED: usize = 64;
/// How long a process is taken to stay in its cgroup, and for how many.
const STAYS: Duration = Duration::from_millis(100);
const PLACES: usize = 1024;
/// Answers that are remembered.
const ANSWERS: usize = 16;

/// What an answer depends on.
type Question = (Text, Option<Environment>, Option<Environment>);

/// Observes cgroups, and remembers them.
#[derive(Debug)]
pub(super) struct Resolver {
    options: Options,
    seen: HashMap<Text, (Instant, Observation)>,
    /// Where processes were, by pid and start time.
    places: HashMap<(u32, u64), (Instant, Option<Text>)>,
    /// The last answers: processes mostly change between few values.
    answers: VecDeque<(Instant, Question, Visible)>,
    /// The node's GPUs as of the last answer.
    pub(super) gpus: Vec<Gpu>,
}

impl Resolver {
    pub(super) fn new(options: Options) -> Self {
        let options = Options { detail: false, deadline: None, units: false, hook: false, ..options };
        Self {
            options,
            seen: HashMap::new(),
            places: HashMap::new(),
            answers: VecDeque::new(),
            gpus: Vec::new(),
        }
    }

    /// Where `/proc` is.
    pub(super) fn proc(&self) -> &Path {
        &self.options.proc
    }

    /// The cgroup of a process, if it still is there.
    pub(super) fn cgroup(&mut self, pid: u32, start_time: u64) -> Option<Text> {
        if let Some((at, path)) = self.places.get(&(pid, start_time))
            && at.elapsed() < STAYS
        {
            return path.clone();
        }
        let path = observe::pid_cgroup(&self.options, pid).ok();
        let path: Option<Text> = path.map(|path| path.as_os_str().as_bytes().into());
        if self.places.len() >= PLACES {
            self.places.clear();
        }
        self.places.insert((pid, start_time), (Instant::now(), path.clone()));
        path
    }

    /// What a process asked for with one environment and asks for with
    /// another; `None` where its cgroup is gone.
    pub(super) fn asked(
        &mut self,
        pid: u32,
        cgroup: &Text,
        before: Option<&Environment>,
        now: Option<&Environment>,
    ) -> Option<Visible> {
        let question = (cgroup.clone(), before.cloned(), now.cloned());
        let known = self.answers.iter().find(|(at, asked, _)| *asked == question && at.elapsed() < FRESH);
        if let Some((.., answer)) = known {
            return Some(answer.clone());
        }
        let (alone, visible) = self.resolve(pid, cgroup, before, now)?;
        // The v1 controller knows every process apart.
        if !alone {
            self.answers.truncate(ANSWERS - 1);
            self.answers.push_front((Instant::now(), question, visible.clone()));
        }
        Some(visible)
    }

    /// The answer, and whether it is that of this process alone.
    fn resolve(
        &mut self,
        pid: u32,
        cgroup: &Text,
        before: Option<&Environment>,
        now: Option<&Environment>,
    ) -> Option<(bool, Visible)> {
        let mut observation = self.observation(pid, cgroup)?;
        let known = |environment: Option<&Environment>| match environment {
            Some(environment) => Answer::Known(environment.clone()),
            None => Answer::Missing("its environment is not known".to_owned()),
        };
        let place = observation.processes.iter().find(|process| process.pid == pid);
        let devices_v1 = place.and_then(|process| process.devices_v1.clone());
        let detail = Some(Detail {
            title: Text::default(),
            exe: Answer::Missing(String::new()),
            stepd_sockets: Vec::new(),
            at_exec: known(before),
            live: known(now),
            devices: Answer::Missing(String::new()),
        });
        let cgroup = cgroup.clone();
        observation.processes =
            vec![Process { pid, cgroup: cgroup.clone(), devices_v1, detail, ..Process::default() }];
        observation.pids = vec![pid];
        let payload = analyse::node(&observation, &Granted::default()).ok();
        let alone = observation.devices_v1.is_some();
        if !alone {
            self.remember(cgroup, observation);
        }
        let payload = payload?;
        self.gpus = payload.gpus.unwrap_or_default();
        let processes = payload.cgroups.into_iter().flatten().flat_map(|cgroup| cgroup.processes);
        let visible = processes.into_iter().find(|process| process.pid == pid)?.visible?;
        Some((alone, visible))
    }

    fn observation(&mut self, pid: u32, cgroup: &Text) -> Option<Observation> {
        if let Some((at, observation)) = self.seen.get(cgroup)
            && at.elapsed() < FRESH
        {
            return Some(observation.clone());
        }
        self.seen.remove(cgroup);
        // Only a living process tells its place in the v1 hierarchy.
        let its = observe::processes(&self.options, &[pid]).ok();
        let its = its.filter(|seen| seen.processes.iter().any(|process| process.cgroup == *cgroup));
        its.or_else(|| {
            let path = PathBuf::from(OsStr::from_bytes(cgroup.as_bytes()));
            observe::cgroups(&self.options, &[Target { path, recursive: false }]).ok()
        })
    }

    fn remember(&mut self, cgroup: Text, observation: Observation) {
        if self.seen.len() >= REMEMBERED {
            self.seen.retain(|_, (at, _)| at.elapsed() < FRESH);
        }
        if self.seen.len() < REMEMBERED {
            self.seen.entry(cgroup).or_insert((Instant::now(), observation));
        }
    }
}
