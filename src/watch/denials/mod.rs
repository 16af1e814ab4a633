//! Devices that the kernel refuses to processes: who was refused what, how often, and what
//! decides. See `bpf/denials.bpf.c` for where the kernel tells it.
//!
//! Nothing is changed by that. What other parts of the kernel refuse (permission bits of
//! files, security modules, drivers) is not seen: it is not asked here.

mod kernel;
mod places;
mod record;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::event::Clock;
use super::{EventSource, EventSubject, ProcessScope};
use crate::analyse::{Holdings, Refusal};
use crate::loader::LoadError;
use crate::loader::interface::CHECK;
use crate::model::{DeviceType, EventKind};
use crate::observation::HeldDevice;
use crate::observe::{self, Options};
use crate::report::{DeniedEvent, DevicesEvent, Event};
use kernel::{Counted, Kernel};
use places::{Lookout, Seen};
use record::{DenialKey, DenialSum};

/// The inventory is read again after this time: a driver may be loaded later.
const FACTS: Duration = Duration::from_secs(60);
/// How long looks are waited for: an ordinary one is over by then.
const PATIENCE: Duration = Duration::from_millis(300);
/// Looks that are kept for a sum that is not read yet.
const KEPT: usize = 8192;
/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
const TICK: u64 = 10_000_000;
/// Said of a sum that nobody looked at in time.
const UNSEEN: &str = "its cgroup was not looked at in time";
const LOST: &str = "refusals that are not told: this user had too many different ones at once";

/// Watches refusals.
pub struct DenialsWatcher {
    kernel: Kernel,
    lookout: Lookout,
    options: Options,
    /// Whether refusals of all devices are told, or only of those that GPUs have.
    all_devices: bool,
    holdings: Holdings,
    facts_at: Instant,
    seen: HashMap<DenialKey, Seen>,
    clock: Clock,
    failed: bool,
}

impl DenialsWatcher {
    /// Starts watching the processes in scope, and devices of GPUs alone or all devices.
    ///
    /// # Errors
    ///
    /// Why the kernel does not tell refusals: see [`LoadError`]. Since Linux 5.8 with BTF,
    /// and fexit programs (on x86-64 since 5.5, on arm64 since 6.4) or kprobes.
    pub fn start(options: &Options, scope: &ProcessScope, all_devices: bool) -> Result<Self, LoadError> {
        let options = Options { detail: false, deadline: None, units: false, hook: false, ..options.clone() };
        let holdings = Holdings::new(&observe::gpus(&options).gpu_facts);
        let (kernel, ring) = Kernel::start(scope, counted(&holdings, all_devices))?;
        let lookout = Lookout::start(ring, options.clone());
        let lookout = lookout.map_err(|error| LoadError::Refused(error.to_string()))?;
        let (facts_at, seen, clock) = (Instant::now(), HashMap::new(), Clock::now());
        Ok(Self { kernel, lookout, options, all_devices, holdings, facts_at, seen, clock, failed: false })
    }

    /// What was refused since the last call. Waits for a third of a second at most.
    pub fn check(&mut self) -> Vec<Event> {
        let taken = self.facts().and_then(|()| self.kernel.take());
        let lost = self.kernel.lost();
        let sums = match taken {
            Ok(sums) => sums,
            Err(error) => return self.fail(&error),
        };
        self.collect(&sums);
        let mut events: Vec<Event> = sums.into_iter().filter_map(|(key, sum)| self.event(&key, &sum)).collect();
        events.sort_by(|a, b| a.at.cmp(&b.at));
        if self.seen.len() > KEPT {
            self.seen.clear();
        }
        match lost {
            Ok(lost) if lost.is_empty() => {}
            Ok(lost) => events.push(Event::lost(lost).because(LOST)),
            Err(error) => events.extend(self.fail(&error)),
        }
        events
    }

    /// Waits for the looks at these sums, for a moment.
    fn collect(&mut self, sums: &[(DenialKey, DenialSum)]) {
        let end = Instant::now() + PATIENCE;
        loop {
            let is_whole = sums.iter().all(|(key, _)| self.seen.contains_key(key));
            let left = if is_whole { Duration::ZERO } else { end.saturating_duration_since(Instant::now()) };
            let Some((key, seen)) = self.lookout.next(left) else { return };
            self.seen.insert(key, seen);
        }
    }

    /// The event of a sum; `None` for a device that is not to be told.
    fn event(&mut self, key: &DenialKey, sum: &DenialSum) -> Option<Event> {
        let device = key.device;
        let (kind, major, minor) = (device.kind, device.major, device.minor);
        let number = HeldDevice { kind, major, minor, fds: 0, mapped: false };
        let seen = self.seen.remove(key);
        let alone = || DevicesEvent { numbers: vec![number], ..DevicesEvent::default() };
        let devices =
            self.holdings.of_refused(number).or_else(|| self.all_devices.then(alone))?;
        let subject = EventSubject {
            pid: key.pid,
            start_time: key.start / TICK,
            uid: sum.uid,
            account: Some(key.account),
            comm: sum.comm.as_slice().into(),
            cgroup: key.cgroup,
        };
        let mut denied = DeniedEvent {
            request: key.request.letters().to_owned(),
            count: sum.count,
            last: self.clock.time(sum.last).to_string(),
            error: error_name(key.error),
            gpu: self.holdings.gpu(&devices),
            ..DeniedEvent::default()
        };
        let at = self.clock.time(sum.first).to_string();
        let event = Event::at(EventKind::Denied, at).of_process(&subject);
        let (place, refusal) = match seen {
            Some(Seen { place, refusal }) => (place, refusal),
            None => (None, Refusal::Unknown(UNSEEN.to_owned())),
        };
        let event = match place {
            Some((path, owner)) => event.in_cgroup(&path, owner),
            None => event,
        };
        let event = match refusal {
            Refusal::Program(program) => {
                denied.program = Some(program);
                event
            }
            Refusal::DevicesV1 => {
                denied.devices_v1 = true;
                event
            }
            Refusal::Unknown(why) => event.because(why),
        };
        Some(Event { devices: Some(devices), denied: Some(denied), ..event })
    }

    /// Reads the inventory again unless it is fresh.
    fn facts(&mut self) -> Result<(), LoadError> {
        if self.all_devices || self.facts_at.elapsed() < FACTS {
            return Ok(());
        }
        self.holdings = Holdings::new(&observe::gpus(&self.options).gpu_facts);
        self.facts_at = Instant::now();
        self.kernel.count(counted(&self.holdings, self.all_devices))
    }

    fn fail(&mut self, error: &LoadError) -> Vec<Event> {
        let first = !std::mem::replace(&mut self.failed, true);
        let why = format!("devices that are refused are not told: {error}");
        if first { vec![Event::now(EventKind::Uncovered).because(why)] } else { Vec::new() }
    }
}

fn counted(holdings: &Holdings, all_devices: bool) -> Counted {
    if all_devices {
        return Counted::All;
    }
    Counted::Majors(holdings.majors().into_iter().map(|major| (DeviceType::Char, major)).collect())
}

/// `EPERM`, for what the kernel answered.
fn error_name(error: i32) -> String {
    match Errno::from_raw(error.saturating_neg()) {
        Errno::UnknownErrno => error.to_string(),
        known => format!("{known:?}"),
    }
}

impl EventSource for DenialsWatcher {
    fn engine(&self) -> String {
        format!("refused devices by {} {CHECK}", self.kernel.way())
    }

    fn events(&mut self) -> Vec<Event> {
        self.check()
    }
}
