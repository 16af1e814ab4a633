//! The programs of `bpf/watch.bpf.c`, and what they report.

use std::path::Path;

use super::probes::Unprobed;
use super::probes::{ENVIRON, Probe};
use super::record::{NAME, OTHERS};
use crate::loader::interface::{SESSION, WATCH};
use crate::loader::{AttachedProbes, FunctionEntry, IteratorScope, LoadError};
use crate::model::VARIABLES;
use crate::probing::{Mode, ProbePrograms, ProgramsSpec};
use crate::sys::fields::Fields;
use crate::watch::WatchError;

/// The program that reports moves to other cgroups and its tracepoint, and the
/// iterator that finds where processes are before the first move. A watch works
/// without them, too.
const ON_MOVE: &str = "on_move";
const MOVE: &str = "cgroup_attach_task";
const FIND_HOMES: &str = "find_homes";

/// What a watch reports of moves to other cgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    /// That a process was moved.
    pub(super) reported: bool,
    /// Where the process was before.
    pub(super) from: bool,
}

/// The loaded programs and what they report.
pub(super) struct Kernel {
    pub(super) programs: ProbePrograms,
    moves: Moves,
    pub(super) unprobed: Unprobed,
}

impl Kernel {
    /// Loads the programs in the wanted mode, else in the first one that this
    /// kernel takes. Since Linux 5.8 with BTF.
    ///
    /// # Errors
    ///
    /// Why none can be loaded: the kernel is too old or has no BTF, or a right
    /// is missing (`CAP_BPF` and `CAP_PERFMON`, or `CAP_SYS_ADMIN`).
    pub(super) fn load(wanted: Option<Mode>) -> Result<Self, WatchError> {
        let replaced: Vec<&str> =
            ENVIRON.iter().flat_map(|probe| std::iter::once(probe.exit).chain(probe.entry)).collect();
        let optional = [ON_MOVE, FIND_HOMES];
        let spec = ProgramsSpec {
            object: &WATCH,
            session: &SESSION,
            replaced: &replaced,
            multi: &[],
            optional: &optional,
            ring: "ring",
        };
        let programs = ProbePrograms::load(&spec, wanted)?;
        let mut kernel = Self { programs, moves: Moves::default(), unprobed: Unprobed::default() };
        kernel.put("losses", &OTHERS.to_ne_bytes(), &0_u64.to_ne_bytes())?;
        kernel.fill_variables()?;
        Ok(kernel)
    }

    fn put(&mut self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), WatchError> {
        Ok(self.programs.loaded().put(map, key, value)?)
    }

    fn fill_variables(&mut self) -> Result<(), WatchError> {
        // What says which job a process belongs to chooses no devices.
        let variables = (0_u32..).zip(VARIABLES);
        for (index, variable) in variables.filter(|(_, name)| !name.starts_with("SLURM")) {
            let mut name = [0; NAME];
            // Room for the end must stay: see NAME_SIZE in bpf/gpumap.h.
            let room = name.get_mut(..variable.len()).filter(|_| variable.len() < NAME - 1);
            room.ok_or(WatchError::Object("variables"))?.copy_from_slice(variable.as_bytes());
            self.put("variables", &name, &index.to_ne_bytes())?;
            let beginning = name.first_chunk::<8>().ok_or(WatchError::Object("beginnings"))?;
            self.put("beginnings", beginning, &1_u32.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Begins to report processes that start, execute and end, and those that
    /// are moved to other cgroups.
    pub(super) fn attach_tracepoints(&mut self) -> Result<(), WatchError> {
        let attached = self.programs.attach_tracepoints();
        attached.map_err(|error| attach_error("the course of processes", &error))?;
        // Which moves are not reported is said in `not_seen`.
        self.moves.reported = self.programs.attach_tracepoint(ON_MOVE, MOVE).is_ok();
        // The same.
        self.moves.from = self.moves.reported && self.find_homes().is_ok();
        Ok(())
    }

    /// Lets the kernel side note the cgroup of every process. It writes to a map
    /// alone, so the file that runs it is empty.
    fn find_homes(&mut self) -> Result<(), WatchError> {
        let mut file = self.programs.loaded().iterator(FIND_HOMES, IteratorScope::All)?.open()?;
        let read = std::io::copy(&mut file, &mut std::io::sink());
        read.map(drop).map_err(|error| WatchError::Load(error.to_string()))
    }

    /// What is reported of moves to other cgroups.
    pub(super) fn moves(&self) -> Moves {
        self.moves
    }

    /// How many records were lost since the beginning, with those that were not made because
    /// the kernel did not run a program ([`ProbePrograms::missed`]).
    ///
    /// # Errors
    ///
    /// Those of bpf(2).
    pub(super) fn lost(&self) -> Result<u64, LoadError> {
        let counted = self.programs.entries("lost")?;
        let counted: u64 = counted.iter().filter_map(|(_, count)| Fields(count).long()).sum();
        Ok(counted.saturating_add(self.programs.missed()?))
    }

    /// The same by the account that lost them, [`OTHERS`] among them: whose records were not
    /// made is not known. Not fewer than [`Self::lost`] said before.
    ///
    /// # Errors
    ///
    /// Those of bpf(2).
    pub(super) fn losses(&self) -> Result<Vec<(u32, u64)>, LoadError> {
        let (entries, missed) = (self.programs.entries("losses")?, self.programs.missed()?);
        let of = |account: u32| if account == OTHERS { missed } else { 0 };
        let loss = |(account, count): &(Vec<u8>, Vec<u8>)| {
            let account = Fields(account).word()?;
            Some((account, Fields(count).long()?.saturating_add(of(account))))
        };
        Ok(entries.iter().filter_map(loss).collect())
    }

    /// Begins to report calls of functions of one file, given with their
    /// offsets: in every process that maps it, or in one and in no other. One
    /// link serves all functions that a session serves; each other function has
    /// a link for its return and perhaps one for its entry.
    pub(super) fn attach(
        &mut self,
        functions: &[(&Probe, u64)],
        file: &Path,
        pid: Option<u32>,
    ) -> Result<Vec<AttachedProbes>, WatchError> {
        let mut links = Vec::new();
        let mut entries = Vec::new();
        for (probe, offset) in functions {
            match (self.programs.mode(), probe.kind) {
                (Mode::Session, Some(cookie)) => entries.push(FunctionEntry { offset: *offset, cookie }),
                _ => links.extend(self.attach_pair(probe, file, *offset, pid)?),
            }
        }
        if !entries.is_empty() {
            let link = self.programs.loaded().attach_session(file, &entries, pid);
            links.push(link.map_err(|error| attach_error("the environment", &error))?);
        }
        Ok(links)
    }

    fn attach_pair(
        &mut self,
        probe: &Probe,
        file: &Path,
        offset: u64,
        pid: Option<u32>,
    ) -> Result<Vec<AttachedProbes>, WatchError> {
        let programs = std::iter::once(probe.exit).chain(probe.entry);
        let entry = FunctionEntry { offset, cookie: 0 };
        let links = self.programs.attach_pair(programs, file, entry, pid);
        links.map_err(|error| attach_error(probe.function, &error))
    }
}

fn attach_error(what: &str, error: &LoadError) -> WatchError {
    WatchError::Attach(what.to_owned(), error.to_string())
}
