//! The programs of `bpf/activity.bpf.c` and their tables.

use std::collections::HashMap;
use std::path::Path;

use super::ActivityError;
use super::cookie::{Cookie, LINKS};
use super::layout::{self, Account, EVERYBODY, OTHERS, Process, ROOMS};
use crate::loader::interface::{ACTIVITY, ACTIVITY_SESSION};
use crate::loader::{AttachedProbes, Entries, FunctionEntry};
use crate::model::CountTable;
use crate::probing::{Mode, ProbePrograms, ProgramsSpec};
use crate::sys::bpf::refuses_cookies;
use crate::sys::clock::{boot_ns, monotonic_ns};
use crate::sys::locked_memory;

/// Programs at the entry and the return of functions, where there are no
/// sessions. The return comes first: what is entered is to be left.
const PAIR: [&str; 2] = ["leave_any", "enter_any"];
/// The tables in which accounts have shares, by their index (`enum activity_table`), and what
/// else is counted as lost. Processes out of scope have no numbers that could be missing.
pub(super) const TABLES: [Option<CountTable>; 13] = [
    Some(CountTable::Processes),
    Some(CountTable::Threads),
    Some(CountTable::Contexts),
    Some(CountTable::Streams),
    Some(CountTable::Blocks),
    Some(CountTable::Events),
    Some(CountTable::Graphs),
    Some(CountTable::Errors),
    Some(CountTable::Devices),
    Some(CountTable::Records),
    Some(CountTable::Batches),
    // Streams that are captured.
    Some(CountTable::Graphs),
    None,
];

/// The index of `processes`, of `threads` and of `records` there.
const PROCESSES: usize = 0;
const THREADS: usize = 1;
pub(super) const RECORDS: usize = 9;
/// The maps with entries of processes, by the same index.
pub(super) const OF_PROCESSES: [(usize, &str); 8] = [
    (2, "contexts"),
    (3, "streams"),
    (4, "blocks"),
    (5, "events"),
    (6, "graphs"),
    (7, "errors"),
    (8, "devices"),
    (11, "captures"),
];

/// Bytes of `struct activity_account`.
pub(super) const ACCOUNT_SIZE: usize = ROOMS * 12;

/// How calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountingOptions {
    /// One launch out of so many is timed and looked at when it returns; 1: every
    /// one.
    pub every: u32,
    /// The kind of probes; `None`: the cheapest that the kernel has.
    pub mode: Option<Mode>,
    /// Whether functions that programs call often are probed where that takes two
    /// traps a call.
    pub costly: bool,
    /// Whether launches are kept apart by stream: the stream is an argument that takes
    /// longer to read than all the rest. Without it they are counted by context, but for
    /// those that are made while something of the process is captured.
    pub streams: bool,
    /// The tables of the kernel have room for 2^N times less: tests fill them up with it.
    pub smaller: u8,
}

impl Default for CountingOptions {
    fn default() -> Self {
        Self { every: 64, mode: None, costly: false, streams: true, smaller: 0 }
    }
}

/// The loaded programs and their tables.
pub(super) struct Kernel {
    pub(super) programs: ProbePrograms,
    /// How many attachments were made.
    links: u64,
    /// The room that was given back, by account and table.
    returned: HashMap<u32, [u32; ROOMS]>,
}

impl Kernel {
    /// Loads the programs in the wanted mode, else in the first one that this
    /// kernel takes. Since Linux 5.15 with BTF.
    ///
    /// # Errors
    ///
    /// Why none can be loaded.
    pub(super) fn load(options: &CountingOptions) -> Result<Self, ActivityError> {
        locked_memory::raised();
        if refuses_cookies() {
            return Err(ActivityError::NoCookies);
        }
        let spec = ProgramsSpec {
            object: &ACTIVITY,
            session: &ACTIVITY_SESSION,
            replaced: &PAIR,
            multi: &PAIR,
            optional: &[],
            ring: "lives",
        };
        let mut kernel =
            Self { programs: ProbePrograms::load(&spec, options.mode)?, links: 0, returned: HashMap::new() };
        let streams = u64::from(options.streams);
        let settings = [u64::from(options.every.max(1)), u64::from(options.smaller), streams];
        for (place, setting) in (0_u32..).zip(settings) {
            kernel.put("settings", &place.to_ne_bytes(), &setting.to_ne_bytes())?;
        }
        for account in [OTHERS, EVERYBODY] {
            kernel.put("accounts", &account.to_ne_bytes(), &[0; ACCOUNT_SIZE])?;
        }
        kernel.programs.attach_tracepoint("on_move", "cgroup_attach_task")?;
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

    /// The accounts with what found no room. Records that were not made because the kernel
    /// did not run a program are lost records of [`OTHERS`].
    pub(super) fn accounts(&self) -> Result<Vec<Account>, ActivityError> {
        let (entries, missed) = (self.entries("accounts")?, self.missed()?);
        let mut accounts: Vec<Account> =
            entries.iter().filter_map(|(key, value)| Account::read(key, value)).collect();
        for others in accounts.iter_mut().filter(|account| account.number == OTHERS) {
            if let Some(records) = others.lost.get_mut(RECORDS) {
                *records = records.saturating_add(missed);
            }
        }
        Ok(accounts)
    }

    /// See [`ProbePrograms::missed`].
    pub(super) fn missed(&self) -> Result<u64, ActivityError> {
        Ok(self.programs.missed()?)
    }

    /// A process that has ended was cleared away: its account has the room again.
    pub(super) fn returned(&mut self, process: &Process) -> Result<(), ActivityError> {
        let held = |(table, _)| (table, process.held.get(table).copied().unwrap_or(0));
        let room: Vec<(usize, u32)> =
            std::iter::once((PROCESSES, 1)).chain(OF_PROCESSES.into_iter().map(held)).collect();
        self.give_back(process.account, &room)
    }

    /// An account has room again, by table.
    fn give_back(&mut self, account: u32, room: &[(usize, u32)]) -> Result<(), ActivityError> {
        for account in [account, EVERYBODY] {
            let all = self.returned.entry(account).or_default();
            for (table, by) in room {
                if let Some(count) = all.get_mut(*table) {
                    *count = count.wrapping_add(*by);
                }
            }
            let bytes: Vec<u8> = all.iter().copied().flat_map(u32::to_ne_bytes).collect();
            self.put("returned_room", &account.to_ne_bytes(), &bytes)?;
        }
        Ok(())
    }

    /// Takes out the entry of a thread that has ended; its account has the room again.
    pub(super) fn forget_thread(&mut self, tid: u32, account: Option<u32>) -> Result<(), ActivityError> {
        self.remove("threads", &tid.to_ne_bytes())?;
        account.map_or(Ok(()), |account| self.give_back(account, &[(THREADS, 1)]))
    }

    /// Says that a process that is gone has ended now.
    pub(super) fn end(&mut self, id: u64, pid: u32) -> Result<(), ActivityError> {
        let (id, pid) = (id.to_ne_bytes(), pid.to_ne_bytes());
        let known = self.entries("processes")?.into_iter().find(|(key, _)| *key == id);
        let Some((_, mut process)) = known else { return Ok(()) };
        layout::end(&mut process, monotonic_ns());
        self.put("processes", &id, &process)?;
        if self.entries("current")?.iter().any(|(key, value)| *key == pid && *value == id) {
            self.remove("current", &pid)?;
        }
        Ok(())
    }
}
