//! The kernel side: loads `bpf/activity.bpf.c`, fills its maps, attaches its
//! programs and reads its tables.

use std::path::Path;

use super::ActivityError;
use super::cookie::{Cookie, LINKS};
use super::layout::long;
use crate::loader::objects::{ACTIVITY, ACTIVITY_SESSION};
use crate::loader::{self, AttachedProbes, Entries, FunctionEntry, Loaded, ObjectSpec, Ring};
use crate::probing::Mode;
use crate::sys::clock::boot_ns;
use crate::sys::heap;

/// Programs at tracepoints.
const TRACEPOINTS: [(&str, &str); 3] =
    [("on_exec", "sched_process_exec"), ("on_fork", "sched_process_fork"), ("on_exit", "sched_process_exit")];
/// Programs at the entry and the return of functions, where there are no
/// sessions. The return comes first: what is entered is to be left.
const PAIR: [&str; 2] = ["leave_any", "enter_any"];
/// What `lost_room` counts, by index: tables, and records of processes.
pub(super) const TABLES: [&str; 11] = [
    "processes",
    "threads",
    "contexts",
    "streams",
    "blocks",
    "events",
    "graphs",
    "errors",
    "devices",
    "records",
    "batches",
];

/// The index of `records` there.
pub(super) const RECORDS: usize = 9;

/// The loaded programs, their maps and their ring.
pub(super) struct Kernel {
    loaded: Box<dyn Loaded>,
    /// Processes that begin, execute and end.
    pub(super) ring: Box<dyn Ring>,
    mode: Mode,
    /// How many attachments were made.
    links: u64,
}

impl Kernel {
    /// Loads the programs in the wanted mode, else in the first one that this
    /// kernel takes. Since Linux 5.15 with BTF.
    ///
    /// # Errors
    ///
    /// Why none can be loaded.
    pub(super) fn load(wanted: Option<Mode>, every: u32) -> Result<Self, ActivityError> {
        let (mut loaded, mode) = load_any(wanted)?;
        heap::give_back();
        let ring = loaded.ring("lives")?;
        let mut kernel = Self { loaded, ring, mode, links: 0 };
        kernel.put("settings", &0_u32.to_ne_bytes(), &u64::from(every.max(1)).to_ne_bytes())?;
        Ok(kernel)
    }

    /// How functions are probed.
    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    fn put(&mut self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), ActivityError> {
        Ok(self.loaded.put(map, key, value)?)
    }

    /// Sets which processes are counted: all, or these pids and those in these cgroups.
    /// `own`, gpumap itself, never is.
    pub(super) fn set_scope(
        &mut self,
        all: bool,
        pids: &[u32],
        cgroups: &[u64],
        own: u32,
    ) -> Result<(), ActivityError> {
        for pid in pids {
            self.put("pids", &pid.to_ne_bytes(), &1_u32.to_ne_bytes())?;
        }
        for id in cgroups {
            self.put("cgroups", &id.to_ne_bytes(), &1_u32.to_ne_bytes())?;
        }
        let scope = [u64::from(all), u64::from(!cgroups.is_empty()), u64::from(own)];
        for (slot, setting) in (0_u32..).zip(scope) {
            self.put("scope", &slot.to_ne_bytes(), &setting.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Begins to follow the course of processes.
    pub(super) fn attach_tracepoints(&mut self) -> Result<(), ActivityError> {
        for (program, tracepoint) in TRACEPOINTS {
            self.loaded.attach_tracepoint(program, tracepoint)?;
        }
        Ok(())
    }

    /// Begins to count calls of functions of one file, given with their offsets:
    /// in every process that maps it, or in one and in no other. The number of the
    /// attachment, and its links.
    pub(super) fn attach(
        &mut self,
        functions: &[(Cookie, u64)],
        file: &Path,
        pid: Option<u32>,
    ) -> Result<(u32, Vec<AttachedProbes>), ActivityError> {
        let link = self.links % LINKS;
        self.links += 1;
        let place = u32::try_from(link).unwrap_or(0);
        self.put("attached", &place.to_ne_bytes(), &u64::MAX.to_ne_bytes())?;
        let entries: Vec<FunctionEntry> = functions
            .iter()
            .map(|(cookie, offset)| FunctionEntry { offset: *offset, cookie: cookie.value(link) })
            .collect();
        let links = match self.mode {
            Mode::Session => vec![self.loaded.attach_session(file, &entries, pid)?],
            Mode::Pair => {
                let mut links = Vec::new();
                for program in PAIR {
                    for entry in &entries {
                        links.push(self.loaded.attach_function(program, file, *entry, pid)?);
                    }
                }
                links
            }
        };
        self.put("attached", &place.to_ne_bytes(), &boot_ns().to_ne_bytes())?;
        Ok((place, links))
    }

    /// The entries of a table.
    pub(super) fn entries(&self, table: &'static str) -> Result<Entries, ActivityError> {
        Ok(self.loaded.entries(table)?)
    }

    /// Takes an entry out of a table.
    pub(super) fn remove(&mut self, table: &'static str, key: &[u8]) -> Result<(), ActivityError> {
        Ok(self.loaded.remove(table, key)?)
    }

    /// What found no room, by the index in [`TABLES`].
    pub(super) fn lost(&self) -> Result<Vec<u64>, ActivityError> {
        Ok(self.entries("lost_room")?.iter().filter_map(|(_, count)| long(count)).collect())
    }
}

/// Loads the programs in the wanted mode, or in the first one that works.
fn load_any(wanted: Option<Mode>) -> Result<(Box<dyn Loaded>, Mode), ActivityError> {
    let loader = loader::shared()?;
    let mut result = Err(ActivityError::NoMode);
    for mode in Mode::ALL.into_iter().filter(|mode| wanted.is_none_or(|wanted| wanted == *mode)) {
        let with = match mode {
            Mode::Session => ObjectSpec {
                session: Some(&ACTIVITY_SESSION),
                left_out: &PAIR,
                ..ObjectSpec::whole(&ACTIVITY)
            },
            Mode::Pair => ObjectSpec::whole(&ACTIVITY),
        };
        result = loader.load(&with).map(|loaded| (loaded, mode)).map_err(ActivityError::from);
        if result.is_ok() {
            break;
        }
    }
    result
}
