//! The programs that probes run: one object, loaded in the first mode that the
//! kernel takes, with the maps that say which processes count, and its ring.
//! A [`Mode`] is the kind of probes: one program for entry and return, or a pair.

use super::scope::ProcessScope;
use crate::loader::interface::Object;
use crate::loader::{self, AttachedProbes, Entries, FunctionEntry, LoadError, Loaded, ObjectSpec, Ring};
use crate::model::ProbeEngine;
use crate::sys::bpf::{ManyProbes, has_many};
use crate::sys::heap;

/// Programs at the tracepoints that tell when processes begin, execute and end.
const TRACEPOINTS: [(&str, &str); 3] =
    [("on_exec", "sched_process_exec"), ("on_fork", "sched_process_fork"), ("on_exit", "sched_process_exit")];

/// What to load.
#[derive(Debug)]
pub struct ProgramsSpec<'a> {
    /// The object with programs for entries and returns of functions.
    pub object: &'static Object,
    /// The object with one program that serves both. Since Linux 6.13.
    pub session: &'static Object,
    /// Programs that the session program replaces.
    pub replaced: &'a [&'a str],
    /// Programs for entries and returns that may have one link for many functions; none:
    /// [`Mode::Multi`] is left out.
    pub multi: &'a [&'static str],
    /// Programs that the kernel may refuse.
    pub optional: &'a [&'a str],
    /// The ring with the records of processes.
    pub ring: &'static str,
}

/// Loaded programs with their maps and their ring.
pub struct ProbePrograms {
    loaded: Box<dyn Loaded>,
    /// Records, to wait for and to read.
    pub ring: Box<dyn Ring>,
    mode: Mode,
    /// The programs that are attached to tracepoints.
    at_tracepoints: Vec<&'static str>,
}

impl ProbePrograms {
    /// Loads the programs in the wanted mode, or in the first mode that this kernel
    /// takes.
    ///
    /// # Errors
    ///
    /// Why the last mode that was tried cannot be loaded: the kernel is too old or
    /// has no BTF, or a right is missing (`CAP_BPF` and `CAP_PERFMON`, or
    /// `CAP_SYS_ADMIN`).
    pub fn load(spec: &ProgramsSpec<'_>, wanted: Option<Mode>) -> Result<Self, LoadError> {
        let (mut loaded, mode) = load_first(spec, wanted)?;
        heap::give_back();
        let ring = loaded.ring(spec.ring)?;
        Ok(Self { loaded, ring, mode, at_tracepoints: Vec::new() })
    }

    /// How functions are probed.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The maps, and the programs that only one caller attaches.
    pub fn loaded(&mut self) -> &mut dyn Loaded {
        &mut *self.loaded
    }

    /// The entries of a map.
    ///
    /// # Errors
    ///
    /// See [`Loaded::entries`].
    pub fn entries(&self, map: &'static str) -> Result<Entries, LoadError> {
        self.loaded.entries(map)
    }

    /// Sets which processes count. `own`, gpumap itself, never does.
    ///
    /// # Errors
    ///
    /// See [`Loaded::put`]; a cgroup in scope cannot be looked at.
    pub fn set_scope(&mut self, scope: &ProcessScope, own: u32) -> Result<(), LoadError> {
        scope.put(&mut *self.loaded, own)
    }

    /// Begins to report processes that begin, execute and end.
    ///
    /// # Errors
    ///
    /// See [`Loaded::attach_tracepoint`].
    pub fn attach_tracepoints(&mut self) -> Result<(), LoadError> {
        TRACEPOINTS
            .into_iter()
            .try_for_each(|(program, tracepoint)| self.attach_tracepoint(program, tracepoint))
    }

    /// Runs one more program at a tracepoint.
    ///
    /// # Errors
    ///
    /// See [`Loaded::attach_tracepoint`].
    pub fn attach_tracepoint(&mut self, program: &'static str, tracepoint: &str) -> Result<(), LoadError> {
        self.loaded.attach_tracepoint(program, tracepoint)?;
        self.at_tracepoints.push(program);
        Ok(())
    }

    /// How often the kernel did not run a program at its tracepoint since it was loaded:
    /// it runs a program for one task at a time on a processor, and new kernels (7.2) may
    /// give the processor to another task meanwhile. Of processes out of scope too.
    ///
    /// # Errors
    ///
    /// See [`Loaded::missed`].
    pub fn missed(&self) -> Result<u64, LoadError> {
        self.at_tracepoints.iter().map(|program| self.loaded.missed(program)).sum()
    }

    /// Attaches programs to one function, in this order. The program of the return
    /// comes first: an entry whose return is not seen would stay in a map for ever.
    ///
    /// # Errors
    ///
    /// See [`Loaded::attach_function`].
    pub fn attach_pair(
        &mut self,
        programs: impl IntoIterator<Item = &'static str>,
        file: &std::path::Path,
        entry: FunctionEntry,
        pid: Option<u32>,
    ) -> Result<Vec<AttachedProbes>, LoadError> {
        let attach = |program| self.loaded.attach_function(program, file, entry, pid);
        programs.into_iter().map(attach).collect()
    }
}

/// The kernel's types are gone from memory before a ring is mapped, unless another
/// loader shares them.
fn load_first(spec: &ProgramsSpec<'_>, wanted: Option<Mode>) -> Result<(Box<dyn Loaded>, Mode), LoadError> {
    let loader = loader::shared()?;
    let mut result = Err(LoadError::Refused("it has no such kind of probes".to_owned()));
    let is_served = |mode: &Mode| (*mode != Mode::Multi || !spec.multi.is_empty()) && mode.is_had();
    let modes = Mode::ALL.into_iter().filter(|mode| wanted.is_none_or(|wanted| wanted == *mode));
    for mode in modes.filter(is_served) {
        let pair = ObjectSpec { optional: spec.optional, ..ObjectSpec::whole(spec.object) };
        let object = match mode {
            Mode::Session => ObjectSpec { session: Some(spec.session), left_out: spec.replaced, ..pair },
            Mode::Multi => ObjectSpec { multi: spec.multi, ..pair },
            Mode::Pair => pair,
        };
        result = loader.load(&object).map(|loaded| (loaded, mode));
        // The failure of the last mode is handed on.
        if result.is_ok() {
            break;
        }
    }
    result
}

/// How functions are probed, the cheapest first. No program of either kind
/// sleeps: none makes the kernel wait for a page of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One program for entry and return; the return is seen only of calls that
    /// matter. Since Linux 6.13.
    Session,
    /// A program at entries and one at returns, each in one link for all functions of a
    /// file. Since Linux 6.6.
    Multi,
    /// The same with a link for each function and program. Since Linux 5.8.
    Pair,
}

impl Mode {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::Session, Self::Multi, Self::Pair];

    /// Whether this kernel may have such probes. Asking costs next to nothing; to prepare
    /// programs that it refuses takes seconds on a slow machine.
    pub(super) fn is_had(self) -> bool {
        match self {
            Self::Session => has_many(ManyProbes::Sessions),
            // What is asked is the same for entries and returns.
            Self::Multi => has_many(ManyProbes::Entries),
            Self::Pair => true,
        }
    }

    /// Its name in answers.
    pub fn engine(self) -> ProbeEngine {
        match self {
            Self::Session => ProbeEngine::Session,
            Self::Multi => ProbeEngine::Multi,
            Self::Pair => ProbeEngine::Pair,
        }
    }

    /// The mode of this name: `session`, `multi`, or `pair` (also called `plain`, from
    /// when there were pairs that sleep).
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "session" => Some(Self::Session),
            "multi" => Some(Self::Multi),
            "pair" | "plain" => Some(Self::Pair),
            _ => None,
        }
    }
}
