//! Attaches the probes at the same functions of the library in between and of the driver, and
//! measures what one probe adds to the time between two, on functions of gpumap's own of
//! which one does nothing but call the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use super::tables::{self, FUNCTIONS, Returned, driver_cookie};
use crate::activity::kernel::ACCOUNT_SIZE;
use crate::activity::layout::{EVERYBODY, OTHERS};
use crate::elf::Cost;
use crate::loader::interface::INTERCEPTION;
use crate::loader::{self, AttachedProbes, FunctionEntry, LoadError, Loaded, ObjectSpec};
use crate::observation::{ProcessActivity, Text, Uncovered};
use crate::probing::{Coverage, FileRole, ProbeTarget, Prober, ProcessScope, own_place, places};
use crate::sys::probed;
use crate::sys::window::Windowed;

/// Why the time before a function is not measured.
const TOO_COSTLY: &str = "the time before the driver is not measured: a probe there takes two traps, far more than what \
                          is to be measured";
/// What is not known of a process of which a library could not be probed.
const UNMEASURED: &str =
    "whether a library takes its calls before the driver, and for how long, is not known";
/// Functions, and processes, that are told as not measured.
const UNCOVERED: usize = 64;

/// On which side of the library's code a probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the library's function, which programs call.
    Library,
    /// At the driver's, which the library calls.
    Driver,
}

impl Side {
    /// The program in `bpf/interception.bpf.c`.
    fn program(self) -> &'static str {
        match self {
            Self::Library => "enter_library",
            Self::Driver => "enter_driver",
        }
    }
}

/// The kernel side, and the processes that were looked at.
pub(super) struct Between {
    /// The programs, once a process needs them.
    pub(super) loaded: Option<Box<dyn Loaded>>,
    scope: ProcessScope,
    /// The tables have room for 2^N times less.
    smaller: u8,
    /// The room that was given back.
    pub(super) returned: Returned,
    /// What one probe adds to a time, in nanoseconds.
    pub(super) probe_ns: Option<u64>,
    /// Pids and starts in clock ticks.
    known: BTreeSet<(u32, u64)>,
    /// Functions that are not measured, and why.
    uncovered: Vec<Uncovered>,
    /// Why processes are not measured, by pids and starts in clock ticks.
    unmeasured: BTreeMap<(u32, u64), String>,
}

impl Between {
    pub(super) fn new(scope: ProcessScope, smaller: u8) -> Self {
        Self {
            loaded: None,
            scope,
            smaller,
            returned: Returned::default(),
            probe_ns: None,
            known: BTreeSet::new(),
            uncovered: Vec::new(),
            unmeasured: BTreeMap::new(),
        }
    }

    /// The programs; they are loaded for the first file that they are put into.
    fn loaded(&mut self) -> Result<&mut (dyn Loaded + 'static), LoadError> {
        if self.loaded.is_none() {
            let mut loaded = loader::shared()?.load(&ObjectSpec::whole(&INTERCEPTION))?;
            let own = std::process::id();
            for account in [OTHERS, EVERYBODY] {
                loaded.put("accounts", &account.to_ne_bytes(), &[0; ACCOUNT_SIZE])?;
            }
            let smaller = u64::from(self.smaller);
            loaded.put("settings", &1_u32.to_ne_bytes(), &smaller.to_ne_bytes())?;
            loaded.attach_tracepoint("forget_caller", "sched_process_exit")?;
            self.probe_ns = measure(loaded.as_mut(), own);
            follow(loaded.as_mut(), &self.scope, own)?;
            self.loaded = Some(loaded);
        }
        self.loaded.as_deref_mut().ok_or(LoadError::Missing("programs"))
    }

    /// Whether a process was looked at.
    pub(super) fn is_known(&self, pid: u32, start: u64) -> bool {
        self.known.contains(&(pid, start))
    }

    /// A process was looked at; one that could not be is looked at again, and told until then.
    pub(super) fn looked_at(&mut self, pid: u32, start: u64, coverage: Coverage) {
        self.unmeasured.remove(&(pid, start));
        match coverage {
            Coverage::Covered => {
                self.known.insert((pid, start));
            }
            Coverage::Uncovered(why) => {
                self.unmeasured.insert((pid, start), why);
            }
            // It ended. Only who looks at drivers alone looks at a part.
            Coverage::Partly | Coverage::None => {}
        }
    }

    /// Lets go of those that a reading no longer has: their end is told, or its record was lost.
    pub(super) fn keep(&mut self, processes: &[ProcessActivity]) {
        if self.unmeasured.is_empty() {
            return;
        }
        let there: BTreeSet<_> = processes.iter().map(|process| (process.pid, process.start_time)).collect();
        self.unmeasured.retain(|process, _| there.contains(process));
    }

    /// What is not measured, and why.
    pub(super) fn uncovered(&self) -> impl Iterator<Item = Uncovered> + '_ {
        let processes = self.unmeasured.iter().map(|((pid, _), why)| Uncovered {
            file: Text::from(format!("/proc/{pid}").into_bytes()),
            function: None,
            counted: true,
            why: format!("{UNMEASURED} ({why})"),
            pid: Some(*pid),
        });
        self.uncovered.iter().cloned().chain(processes.take(UNCOVERED))
    }

    /// A process has ended.
    pub(super) fn forget(&mut self, pid: u32, start: u64) {
        self.known.remove(&(pid, start));
    }
}

impl Prober for Between {
    type Point = (Side, u32, u64);

    const C_LIBRARIES: bool = false;
    const INTERCEPTION: bool = true;
    const UNUSED: Duration = Duration::from_secs(5);

    fn find(
        &mut self,
        file: Windowed,
        kind: FileRole,
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<Self::Point>, String> {
        let side = if kind == FileRole::Interceptor { Side::Library } else { Side::Driver };
        let found = places(file, &FUNCTIONS, false).map_err(|error| error.to_string())?;
        let (cheap, costly): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|place| place.cost != Cost::TwoTraps);
        for place in costly.iter().filter(|_| side == Side::Library) {
            let function = Some(place.function.to_owned());
            let why = TOO_COSTLY.to_owned();
            let file = Text::from(target.shown.to_vec());
            let left_out = Uncovered { file, function, counted: true, why, pid: None };
            if self.uncovered.len() < UNCOVERED && !self.uncovered.contains(&left_out) {
                self.uncovered.push(left_out);
            }
        }
        let numbered = cheap.into_iter().filter_map(|place| {
            let number = FUNCTIONS.iter().position(|name| *name == place.function)?;
            Some((side, u32::try_from(number + 1).ok()?, place.offset))
        });
        Ok(numbered.collect())
    }

    fn attach(
        &mut self,
        places: &[Self::Point],
        target: &ProbeTarget<'_>,
    ) -> Result<Vec<AttachedProbes>, String> {
        let loaded = self.loaded().map_err(|error| error.to_string())?;
        let each = places.iter().map(|(side, function, offset)| {
            let cookie = if *side == Side::Driver { driver_cookie(*function) } else { u64::from(*function) };
            let entry = FunctionEntry { offset: *offset, cookie };
            loaded.attach_function(side.program(), target.path, entry, target.pid)
        });
        each.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }
}

/// Whom to count; `own` is never counted.
fn follow(loaded: &mut dyn Loaded, scope: &ProcessScope, own: u32) -> Result<(), LoadError> {
    for pid in &scope.pids {
        loaded.put("pids", &pid.to_ne_bytes(), &1_u32.to_ne_bytes())?;
    }
    let cgroups = scope.cgroup_ids().map_err(LoadError::Scope)?;
    for id in &cgroups {
        loaded.put("cgroups", &id.to_ne_bytes(), &1_u32.to_ne_bytes())?;
    }
    let settings = [u64::from(scope.all), u64::from(!cgroups.is_empty()), u64::from(own)];
    for (slot, setting) in (0_u32..).zip(settings) {
        loaded.put("scope", &slot.to_ne_bytes(), &setting.to_ne_bytes())?;
    }
    Ok(())
}

/// The cookie of both functions: none of those of a driver.
const COOKIE: u64 = 255;
/// Rounds of calls. The round in the middle counts.
const ROUNDS: usize = 15;
const CALLS: u64 = 64;

/// The nanoseconds from the probe of one function to that of a function which it
/// calls at once; `None` where that cannot be measured.
pub(super) fn measure(loaded: &mut dyn Loaded, own: u32) -> Option<u64> {
    let key = own.to_ne_bytes();
    // Then the cost is unknown, which the answer says.
    loaded.put("pids", &key, &1_u32.to_ne_bytes()).ok()?;
    // The same.
    let measured = attach(loaded, own).ok().flatten().and_then(|_attached| {
        let mut rounds: Vec<u64> = (0..ROUNDS).filter_map(|_| round(loaded)).collect();
        rounds.sort_unstable();
        rounds.get(rounds.len() / 2).copied()
    });
    let _unless_gone = loaded.remove("pids", &key);
    measured
}

/// The time of some calls.
fn round(loaded: &mut dyn Loaded) -> Option<u64> {
    (0..CALLS).for_each(|_| probed::call());
    // A round that fails is none of those that count.
    let entries = loaded.entries("interceptions").ok()?;
    let (key, sums) = entries.first()?;
    let quick = tables::quick(&tables::classes(sums)?);
    // The same.
    loaded.remove("interceptions", key).ok()?;
    quick
}

fn attach(loaded: &mut dyn Loaded, own: u32) -> Result<Option<[AttachedProbes; 2]>, LoadError> {
    let path = Path::new("/proc/self/exe");
    let Some(addresses) = probed::addresses() else { return Ok(None) };
    let [Some(outer), Some(inner)] = addresses.map(own_place) else { return Ok(None) };
    let entry = |offset| FunctionEntry { offset, cookie: COOKIE };
    let first = loaded.attach_function("enter_library", path, entry(outer), Some(own))?;
    let second = loaded.attach_function("enter_driver", path, entry(inner), Some(own))?;
    Ok(Some([first, second]))
}
