//! What is put into a driver's library: the program that counts, at every
//! function of the table that the library has and that can be probed cheaply.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::cookie::Cookie;
use super::functions;
use super::kernel::Kernel;
use crate::elf::Cost;
use crate::loader::AttachedProbes;
use crate::observation::{ActivityLibrary, GpuApi, Text, Uncovered};
use crate::probing::{Coverage, FileId, FileRole, ProbeTarget, Prober, none, places};
use crate::sys::clock::boot_ns;
use crate::sys::window::Windowed;

/// Why a function is left alone that programs call often.
const TOO_COSTLY: &str = "a probe would make each call take two traps instead of one: some 14 microseconds more in a \
                          virtual machine, where one trap takes 0.4";
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
        Self { kernel, costly, attached: BTreeMap::new(), uncovered: Vec::new() }
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

    /// What is not counted.
    pub(super) fn uncovered(&self) -> Vec<Uncovered> {
        let mut all = self.uncovered.clone();
        all.sort_by(|a, b| {
            (a.file.as_bytes(), &a.function, a.pid).cmp(&(b.file.as_bytes(), &b.function, b.pid))
        });
        all
    }

    fn leave_out(&mut self, shown: &[u8], function: Option<&str>, pid: Option<u32>, why: &str) {
        let left_out = Uncovered {
            file: Text::from(shown.to_vec()),
            function: function.map(str::to_owned),
            why: why.to_owned(),
            pid,
        };
        if self.uncovered.len() < UNCOVERED && !self.uncovered.contains(&left_out) {
            self.uncovered.push(left_out);
        }
    }

    /// Keeps why a process could not be looked at, until it could: which library
    /// it uses is not known then, and its calls may be missing.
    pub(super) fn looked_at(&mut self, pid: u32, coverage: &Coverage) {
        let process = format!("/proc/{pid}");
        let is_its = |left_out: &Uncovered| {
            left_out.pid == Some(pid) && left_out.file.as_bytes() == process.as_bytes()
        };
        self.uncovered.retain(|left_out| !is_its(left_out));
        if let Coverage::Uncovered(why) = coverage {
            self.leave_out(process.as_bytes(), None, Some(pid), why);
        }
    }

    /// Forgets what was not covered in a process that has ended.
    pub(super) fn ended(&mut self, pid: u32) {
        self.uncovered.retain(|left_out| left_out.pid != Some(pid));
    }
}

impl Prober for Counting {
    type Place = (Cookie, u64);

    const C_LIBRARIES: bool = false;
    /// A container that begins uses the library of the one before it.
    const UNUSED: Duration = Duration::from_secs(30);

    fn find(
        &mut self,
        file: Windowed,
        _kind: FileRole,
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<Self::Place>, String> {
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
        places: &[Self::Place],
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
