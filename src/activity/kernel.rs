//! The programs of `bpf/activity.bpf.c` and their tables.

use std::path::Path;

use super::ActivityError;
use super::cookie::{Cookie, LINKS};
use super::layout::long;
use crate::loader::objects::{ACTIVITY, ACTIVITY_SESSION};
use crate::loader::{AttachedProbes, Entries, FunctionEntry};
use crate::model::CountTable;
use crate::probing::{Mode, ProbePrograms, ProgramsSpec};
use crate::sys::clock::boot_ns;

/// Programs at the entry and the return of functions, where there are no
/// sessions. The return comes first: what is entered is to be left.
const PAIR: [&str; 2] = ["leave_any", "enter_any"];
/// What `lost_room` counts, by index: tables, and records of processes.
pub(super) const TABLES: [CountTable; 11] = [
    CountTable::Processes,
    CountTable::Threads,
    CountTable::Contexts,
    CountTable::Streams,
    CountTable::Blocks,
    CountTable::Events,
    CountTable::Graphs,
    CountTable::Errors,
    CountTable::Devices,
    CountTable::Records,
    CountTable::Batches,
];

/// The index of `records` there.
pub(super) const RECORDS: usize = 9;

/// The loaded programs and their tables.
pub(super) struct Kernel {
    pub(super) programs: ProbePrograms,
    /// How many attachments were made.
    links: u64,
}

impl Kernel {
    /// Loads the programs in the wanted mode, else in the first one that this
    /// kernel takes. Since Linux 5.15 with BTF. Of launches one in `every` is timed.
    ///
    /// # Errors
    ///
    /// Why none can be loaded.
    pub(super) fn load(wanted: Option<Mode>, every: u32) -> Result<Self, ActivityError> {
        let spec = ProgramsSpec {
            object: &ACTIVITY,
            session: &ACTIVITY_SESSION,
            replaced: &PAIR,
            multi: &PAIR,
            optional: &[],
            ring: "lives",
        };
        let mut kernel = Self { programs: ProbePrograms::load(&spec, wanted)?, links: 0 };
        kernel.put("settings", &0_u32.to_ne_bytes(), &u64::from(every.max(1)).to_ne_bytes())?;
        Ok(kernel)
    }

    fn put(&mut self, map: &'static str, key: &[u8], value: &[u8]) -> Result<(), ActivityError> {
        Ok(self.programs.loaded().put(map, key, value)?)
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
        let mode = self.programs.mode();
        let loaded = self.programs.loaded();
        let links = match (mode, pid) {
            (Mode::Session, _) => vec![loaded.attach_session(file, &entries, pid)?],
            (Mode::Multi, None) => {
                let attach = |program| loaded.attach_multi(program, file, &entries);
                PAIR.into_iter().map(attach).collect::<Result<_, _>>()?
            }
            // One process: before 6.10 the kernel takes its first thread alone for it.
            (Mode::Multi, Some(_)) | (Mode::Pair, _) => {
                let mut links = Vec::new();
                for program in PAIR {
                    for entry in &entries {
                        links.extend(self.programs.attach_pair([program], file, *entry, pid)?);
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
        Ok(self.programs.entries(table)?)
    }

    /// Takes an entry out of a table.
    pub(super) fn remove(&mut self, table: &'static str, key: &[u8]) -> Result<(), ActivityError> {
        Ok(self.programs.loaded().remove(table, key)?)
    }

    /// What found no room, by the index in [`TABLES`].
    pub(super) fn lost(&self) -> Result<Vec<u64>, ActivityError> {
        Ok(self.entries("lost_room")?.iter().filter_map(|(_, count)| long(count)).collect())
    }
}
