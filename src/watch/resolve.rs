//! What environments ask for inside the set that a process's cgroup allows:
//! the same observation and analysis as those of `gpumap pid`, kept for
//! moments.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::Subject;
use super::place::{Place, Places};
use crate::analyse::Asker;
use crate::observation::{Answer, CgroupMode, Environment, Observation, Process, Text};
use crate::observe::{self, Options, Target};
use crate::report::{Asked, Gpu};

/// How long an observation of a cgroup serves: its programs may change.
const FRESH: Duration = Duration::from_millis(500);
/// The same where the v1 controller has a say: a process may also move in a
/// hierarchy whose cgroups no event names.
const FRESH_V1: Duration = Duration::from_millis(100);
/// Observations that are remembered.
const REMEMBERED: usize = 256;

/// One observation, and what is to be asked of it.
#[derive(Debug)]
pub(super) struct Known {
    at: Instant,
    /// Of all observations, this one.
    pub(super) serial: u64,
    asker: Asker,
}

impl Known {
    /// What an environment asks for; one that is not known asks for something
    /// unknown.
    pub(super) fn asked(&self, environment: Option<&Environment>) -> Asked {
        self.asker.asked(&match environment {
            Some(environment) => Answer::Known(environment.clone()),
            None => Answer::Missing("its environment is not known".to_owned()),
        })
    }
}

/// A cgroup, and a process where the v1 controller knows every process apart.
type Key = (Text, Option<u32>);

/// Observes cgroups, and remembers them.
#[derive(Debug)]
pub(super) struct Resolver {
    options: Options,
    places: Places,
    known: HashMap<Key, Rc<Known>>,
    serial: u64,
    /// Whether the v1 controller has a say, as of the last observation.
    v1: bool,
    /// The node's GPUs as of the last observation.
    pub(super) gpus: Vec<Gpu>,
}

impl Resolver {
    pub(super) fn new(options: Options) -> Self {
        let options = Options { detail: false, deadline: None, units: false, hook: false, ..options };
        let (places, known) = (Places::default(), HashMap::new());
        Self { options, places, known, serial: 0, v1: false, gpus: Vec::new() }
    }

    /// Where `/proc` is.
    pub(super) fn proc(&self) -> &Path {
        &self.options.proc
    }

    /// The cgroup that a process was in, if it can be told.
    pub(super) fn place(&mut self, subject: &Subject) -> Option<Rc<Place>> {
        self.places.of(&self.options, subject)
    }

    /// What answers for a process in a cgroup; `None` where the cgroup is
    /// gone.
    pub(super) fn asker(&mut self, pid: u32, cgroup: &Place) -> Option<Rc<Known>> {
        let fresh = if self.v1 { FRESH_V1 } else { FRESH };
        let key = self.key(pid, cgroup);
        if let Some(known) = self.known.get(&key).filter(|known| known.at.elapsed() < fresh) {
            return Some(known.clone());
        }
        self.known.remove(&key);
        self.observe(pid, cgroup)
    }

    fn key(&self, pid: u32, cgroup: &Place) -> Key {
        (cgroup.path.clone(), self.v1.then_some(pid))
    }

    fn observe(&mut self, pid: u32, cgroup: &Place) -> Option<Rc<Known>> {
        let at = Instant::now();
        let observation = self.observation(pid, &cgroup.path)?;
        self.v1 = observation.devices_v1.is_some();
        let process = observation.processes.iter().find(|process| process.pid == pid);
        let devices_v1 = process.and_then(|process| process.devices_v1.clone());
        let process = Process { pid, cgroup: cgroup.path.clone(), devices_v1, ..Process::default() };
        let asker = Asker::new(&observation, &process)?;
        self.gpus = asker.gpus().to_vec();
        self.serial += 1;
        // On a legacy host ids are those of another hierarchy.
        let seen = observation.cgroups.iter().find(|seen| seen.path == cgroup.path);
        if let Some(seen) = seen.filter(|_| observation.host.cgroup_mode != CgroupMode::Legacy) {
            self.places.remember(seen.id, &cgroup.path);
        }
        let known = Rc::new(Known { at, serial: self.serial, asker });
        if self.known.len() >= REMEMBERED {
            self.known.retain(|_, known| known.at.elapsed() < FRESH_V1);
        }
        if self.known.len() < REMEMBERED {
            self.known.insert(self.key(pid, cgroup), known.clone());
        }
        Some(known)
    }

    fn observation(&self, pid: u32, cgroup: &Text) -> Option<Observation> {
        // Only a living process tells its place in the v1 hierarchy.
        let its = observe::processes(&self.options, &[pid]).ok();
        let its = its.filter(|seen| seen.processes.iter().any(|process| process.cgroup == *cgroup));
        its.or_else(|| {
            let path = PathBuf::from(OsStr::from_bytes(cgroup.as_bytes()));
            observe::cgroups(&self.options, &[Target { path, recursive: false }]).ok()
        })
    }
}
