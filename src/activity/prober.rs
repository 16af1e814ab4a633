//! Attaches the program that counts to a driver's library: at every function of the table
//! that the library has and that can be probed cheaply.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use super::cookie::Cookie;
use super::functions;
use super::kernel::Kernel;
use crate::elf::Cost;
use crate::loader::AttachedProbes;
use crate::model::InOrder as _;
use crate::observation::{ActivityLibrary, GpuApi, Text, Uncovered};
use crate::probing::{Coverage, FileId, FileRole, ProbeTarget, Prober, none, places};
use crate::sys::clock::boot_ns;
use crate::sys::window::Windowed;

/// Why a function is left alone that programs call often.
const TOO_COSTLY: &str = "a probe would make each call take two traps instead of one: some 14 microseconds more in a \
                          virtual machine, where one trap takes 0.4";
/// Why the calls of a process may be missing whose library nobody could look at.
const TOO_SHORT: &str =
    "the process could call it before gpumap had attached to it, and ended without a call that was counted";
/// What is missing where mappings are not reported.
const UNTOLD: &str = "the kernel does not tell which processes map libraries: one that opens a library late is \
                      found within a minute, and one that ends before that is not noticed";
/// Files and functions that are remembered as not covered.
const UNCOVERED: usize = 1024;

/// The kernel side, and what was attached.
pub(super) struct Counting {
    pub(super) kernel: Kernel,
    /// Whether functions that are called often are probed at any cost.
    costly: bool,
    /// By the number of the attachment.
    attached: BTreeMap<u32, Library>,
    uncovered: Vec<Uncovered>,
    /// Processes that have ended: what was not covered of them is reported once more.
    ended: BTreeSet<u32>,
}

/// A library that was attached to.
struct Library {
    id: FileId,
    shared: bool,
    ended: bool,
    facts: ActivityLibrary,
}

impl Counting {
    pub(super) fn new(kernel: Kernel, costly: bool) -> Self {
        Self { kernel, costly, attached: BTreeMap::new(), uncovered: Vec::new(), ended: BTreeSet::new() }
    }

    /// When each attachment was made, by its number.
    pub(super) fn since(&self) -> BTreeMap<u32, u64> {
        self.attached.iter().map(|(link, library)| (*link, library.facts.since_ns)).collect()
    }

    /// The libraries that are attached to, each once.
    pub(super) fn libraries(&self) -> Vec<ActivityLibrary> {
        let mut libraries: BTreeMap<FileId, &ActivityLibrary> = BTreeMap::new();
        for library in self.attached.values().filter(|library| !library.ended) {
            libraries.entry(library.id).or_insert(&library.facts);
        }
        libraries.into_values().cloned().collect()
    }

    /// Since when one of these files has been attached to.
    pub(super) fn since_of(&self, files: impl Iterator<Item = FileId>) -> Option<u64> {
        let all = || self.attached.values().filter(|library| !library.ended);
        let since = |file| all().filter(move |library| library.id == file).map(|it| it.facts.since_ns).min();
        files.filter_map(since).min()
    }

    /// Since when a file with this number has been attached to, for all processes or for
    /// any one.
    pub(super) fn attached_since(&self, inode: u64) -> Option<u64> {
        let of_it = self.attached.values().filter(|library| !library.ended && library.id.1 == inode);
        of_it.map(|library| library.facts.since_ns).min()
    }

    /// What is not counted. What concerns processes that have ended is reported this once.
    pub(super) fn uncovered(&mut self) -> Vec<Uncovered> {
        let mut all = self.uncovered.clone();
        let ended = std::mem::take(&mut self.ended);
        self.uncovered.retain(|one| one.pid.is_none_or(|pid| !ended.contains(&pid)));
        all.order_by(|a, b| {
            (a.file.as_bytes(), &a.function, a.pid).cmp(&(b.file.as_bytes(), &b.function, b.pid))
        });
        all
    }

    /// Keeps that a process mapped a library and ended, and nothing of it was counted
    /// because the library was attached to too late or never.
    pub(super) fn overlooked(&mut self, pid: u32, path: &[u8]) {
        self.leave_out(path, None, Some(pid), TOO_SHORT);
        self.ended.insert(pid);
    }

    /// Keeps that the kernel does not tell which processes map libraries.
    pub(super) fn mappings_unknown(&mut self, why: &str) {
        self.leave_out(b"/proc", None, None, &format!("{UNTOLD} ({why})"));
    }

    /// Keeps that the processes in scope could not all be listed.
    pub(super) fn processes_unlisted(&mut self, why: &str) {
        self.leave_out(b"/proc", None, None, &format!("processes in scope may be missing ({why})"));
    }

    fn leave_out(&mut self, shown: &[u8], function: Option<&str>, pid: Option<u32>, why: &str) {
        let left_out = Uncovered {
            counted: false,
            file: Text::from(shown.to_vec()),
            function: function.map(str::to_owned),
            why: why.to_owned(),
            pid,
        };
        if self.uncovered.len() < UNCOVERED && !self.uncovered.contains(&left_out) {
            self.uncovered.push(left_out);
        }
    }

    /// A process is about to be looked at: what could not be covered before may be now.
    pub(super) fn look_at(&mut self, pid: u32) {
        // What a process left behind that has ended is still to be reported.
        if !self.ended.contains(&pid) {
            self.uncovered.retain(|left_out| left_out.pid != Some(pid));
        }
    }

    /// Keeps why a process could not be looked at, until it can: which library it uses
    /// is not known then, and its calls may be missing.
    pub(super) fn looked_at(&mut self, pid: u32, coverage: &Coverage) {
        if let Coverage::Uncovered(why) = coverage {
            self.leave_out(format!("/proc/{pid}").as_bytes(), None, Some(pid), why);
        }
    }

    /// A process has ended. What was not covered in it is reported once more: its calls are
    /// missing for ever.
    pub(super) fn ended(&mut self, pid: u32) {
        if self.uncovered.iter().any(|left_out| left_out.pid == Some(pid)) {
            self.ended.insert(pid);
        }
    }
}

impl Prober for Counting {
    type Point = (Cookie, u64);

    const C_LIBRARIES: bool = false;
    /// A container that begins uses the library of the one before it.
    const UNUSED: Duration = Duration::from_secs(30);

    fn find(
        &mut self,
        file: Windowed,
        _kind: FileRole,
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<Self::Point>, String> {
        let names: Vec<&str> = functions::all().iter().map(|function| function.name.as_str()).collect();
        let found = places(file, &names, false).map_err(|error| error.to_string())?;
        let cookies: HashMap<&str, Cookie> =
            functions::all().iter().map(|function| (function.name.as_str(), function.cookie)).collect();
        let mut wanted = Vec::new();
        for place in found {
            let Some(cookie) = cookies.get(place.function) else { continue };
            if place.cost == Cost::TwoTraps && cookie.is_frequent() && !self.costly {
                self.leave_out(target.shown, Some(place.function), None, TOO_COSTLY);
            } else {
                wanted.push((*cookie, place.offset));
            }
        }
        Ok(wanted)
    }

    fn attach(
        &mut self,
        places: &[Self::Point],
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<AttachedProbes>, String> {
        let attached = self.kernel.attach(places, target.path, target.pid);
        let (link, links) = attached.map_err(|error| error.to_string())?;
        let api = if places.iter().any(|(cookie, _)| cookie.is_hip()) { GpuApi::Hip } else { GpuApi::Cuda };
        let facts = ActivityLibrary {
            path: Text::from(target.shown.to_vec()),
            api,
            since_ns: boot_ns(),
            functions: u32::try_from(places.len()).unwrap_or(u32::MAX),
        };
        self.uncovered.retain(|one| {
            let is_it = one.function.is_none() && one.file.as_bytes() == target.shown;
            !is_it || target.pid.is_some() && one.pid != target.pid
        });
        let library = Library { id: target.id, shared: target.pid.is_none(), ended: false, facts };
        self.attached.insert(link, library);
        Ok(links)
    }

    fn refused(&mut self, shown: &[u8], pid: Option<u32>, why: &str) {
        if why != none(FileRole::Driver) {
            self.leave_out(shown, None, pid, why);
        }
    }

    fn released(&mut self, id: FileId) {
        for library in self.attached.values_mut().filter(|library| library.shared && library.id == id) {
            library.ended = true;
        }
    }
}
