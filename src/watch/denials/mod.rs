//! Devices that the kernel refuses to processes: who was refused what, how often, and what
//! decides. See `bpf/denials.bpf.c` for where the kernel answers.
//!
//! Nothing is changed by that. What other parts of the kernel refuse (permission bits of
//! files, security modules, drivers) is not seen: it is not asked here.

mod kept;
mod kernel;
mod places;
mod record;

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::event::Clock;
use super::{EventSource, EventSubject, ProcessScope};
use crate::analyse::{Holdings, Refusal};
use crate::loader::LoadError;
use crate::loader::interface::CHECK;
use crate::model::{Device, DeviceType, EventKind};
use crate::observation::{HeldDevice, Refusals};
use crate::observe::{self, Options};
use crate::report::{DeniedEvent, DevicesEvent, Event, Gpu};
use crate::sys::test_hook::scaled;
use kept::Kept;
use kernel::{Counted, Kernel};
use places::{Lookout, Seen};
use record::{DenialKey, DenialSum};

/// The inventory is read again after this time: a driver may be loaded later.
const FACTS: Duration = Duration::from_secs(60);
/// How long a sum waits to be looked at, where the looks before it take that long.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a look is kept: a sum that is read late is of the same turn or of the next.
const KEPT: Duration = Duration::from_secs(5);
/// How often finished looks are taken at the end, and how long in between.
const LAST: u32 = 20;
const MOMENT: Duration = Duration::from_millis(50);
/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
const TICK: u64 = 10_000_000;
/// What is not reported, a sentence each.
pub const NOT_SEEN: [&str; 1] = [
    "what the permissions of files, security modules and drivers refuse is not reported: the kernel asks these elsewhere",
];
/// Said of a sum whose process nobody looked at in time.
const UNSEEN: &str = "its cgroup was not read in time";
const LOST: &str = "refusals that are not reported: this user had too many different ones at once";
const MISSED: &str = "checks of devices that gpumap did not see, any of which may be a refusal: the kernel did not run its program";

/// Watches refusals.
pub struct DenialsWatcher {
    kernel: Kernel,
    lookout: Lookout,
    options: Options,
    /// Whether refusals of all devices are reported, or only of those that GPUs have.
    all_devices: bool,
    holdings: Holdings,
    facts_at: Instant,
    /// Sums and looks, with the moments in which they came, and the question to the lookout
    /// with which they are all looked at.
    waiting: Vec<(Instant, u64, DenialKey, DenialSum)>,
    seen: HashMap<DenialKey, (Instant, Seen)>,
    clock: Clock,
    /// What was refused in the last hour, where somebody asks for it.
    kept: Option<Kept>,
    failed: bool,
}

impl DenialsWatcher {
    /// Starts watching the processes in scope, and devices of GPUs alone or all devices.
    ///
    /// # Errors
    ///
    /// Why refusals cannot be seen on this kernel: see [`LoadError`]. Since Linux 5.8 with BTF,
    /// and fexit programs (on x86-64 since 5.5, on arm64 since 6.4) or kprobes.
    pub fn start(options: &Options, scope: &ProcessScope, all_devices: bool) -> Result<Self, LoadError> {
        let options = Options { detail: false, deadline: None, units: false, hook: false, ..options.clone() };
        let holdings = Holdings::new(&observe::gpus(&options).gpu_facts);
        let (kernel, ring) = Kernel::start(scope, counted(&holdings, all_devices))?;
        let lookout = Lookout::start(ring, options.clone());
        let lookout = lookout.map_err(|error| LoadError::Refused(error.to_string()))?;
        Ok(Self {
            kernel,
            lookout,
            options,
            all_devices,
            holdings,
            facts_at: Instant::now(),
            waiting: Vec::new(),
            seen: HashMap::new(),
            clock: Clock::now(),
            kept: None,
            failed: false,
        })
    }

    /// What was refused since the call before, or a little earlier: a sum is reported when its
    /// process was looked at. Does not wait.
    pub fn check(&mut self) -> Vec<Event> {
        let taken = self.facts().and_then(|()| self.kernel.take());
        let lost = self.kernel.lost();
        let now = Instant::now();
        match taken {
            Ok(sums) => {
                self.keep_sums(&sums);
                let asked = if sums.is_empty() { 0 } else { self.lookout.ask() };
                self.waiting.extend(sums.into_iter().map(|(key, sum)| (now, asked, key, sum)));
            }
            Err(error) => return self.fail(&error),
        }
        // Before the looks are taken: what it is done with is among these.
        let done = self.lookout.done();
        while let Some((key, seen)) = self.lookout.next() {
            self.seen.insert(key, (now, seen));
        }
        let mut events = self.ripe(done);
        self.seen.retain(|_, (at, _)| at.elapsed() < KEPT);
        match lost {
            Ok(lost) if lost.is_empty() => {}
            Ok(lost) => {
                let count = lost.iter().map(|(_, count)| count).sum();
                self.kept.iter_mut().for_each(|kept| kept.lose(count));
                events.push(Event::lost(lost).because(LOST));
            }
            Err(error) => events.extend(self.fail(&error)),
        }
        match self.kernel.missed() {
            Ok(0) => {}
            Ok(missed) => {
                self.kept.iter_mut().for_each(|kept| kept.miss(missed));
                let event = Event { lost: Some(missed), ..Event::now(EventKind::Lost) };
                events.push(event.because(MISSED));
            }
            Err(error) => events.extend(self.fail(&error)),
        }
        events
    }

    /// The last events, of sums that still wait for a look too: waits a moment for these.
    pub fn finish(&mut self) -> Vec<Event> {
        let mut events = self.check();
        for _ in 0..LAST {
            if self.waiting.is_empty() {
                break;
            }
            thread::sleep(MOMENT);
            events.extend(self.check());
        }
        events
    }

    /// Keeps what is refused of GPUs from now on, for [`Self::refusals`].
    pub fn keep(&mut self) {
        self.kept = Some(Kept::new());
    }

    /// Whether something was kept since the last call.
    pub fn has_kept(&mut self) -> bool {
        self.kept.as_mut().is_some_and(Kept::has_changed)
    }

    /// What was refused of GPUs in the last hour; `None` where nobody asked to keep it.
    pub fn refusals(&mut self) -> Option<Refusals> {
        Some(self.kept.as_mut()?.refusals(&mut self.clock))
    }

    fn keep_sums(&mut self, sums: &[(DenialKey, DenialSum)]) {
        let Some(kept) = &mut self.kept else { return };
        for (key, sum) in sums {
            if self.holdings.of_refused(number(key.device)).is_some() {
                kept.add(key, sum);
            }
        }
    }

    /// The node's GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        self.holdings.gpus()
    }

    /// The events of sums that were looked at, or will not be: the lookout is done with them,
    /// or takes too long.
    fn ripe(&mut self, done: u64) -> Vec<Event> {
        let mut events = Vec::new();
        for (at, asked, key, sum) in std::mem::take(&mut self.waiting) {
            let seen = self.seen.get(&key).map(|(_, seen)| seen.clone());
            if seen.is_none() && done < asked && at.elapsed() < scaled(PATIENCE) {
                self.waiting.push((at, asked, key, sum));
            } else {
                events.extend(self.event(&key, &sum, seen));
            }
        }
        events.sort_by(|a, b| a.at.cmp(&b.at));
        events
    }

    /// The event of a sum; `None` for a device that is not to be reported.
    fn event(&mut self, key: &DenialKey, sum: &DenialSum, seen: Option<Seen>) -> Option<Event> {
        let number = number(key.device);
        let alone = || DevicesEvent { numbers: vec![number], ..DevicesEvent::default() };
        let devices = self.holdings.of_refused(number).or_else(|| self.all_devices.then(alone))?;
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
            last: self.clock.time(sum.last).into(),
            error: error_name(key.error),
            gpu: self.holdings.gpu(&devices),
            ..DeniedEvent::default()
        };
        let at = self.clock.time(sum.first).into();
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
        let why = format!("devices that are refused are not reported: {error}");
        if first { vec![Event::now(EventKind::Uncovered).because(why)] } else { Vec::new() }
    }
}

fn number(device: Device) -> HeldDevice {
    let Device { kind, major, minor } = device;
    HeldDevice { kind, major, minor, fds: 0, mapped: false }
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
