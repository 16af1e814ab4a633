//! Looks at what was refused while it is there: where the process is, whose it is, and
//! what decides. A job often ends at its first refusal, and its cgroup with it: so a
//! thread waits for new sums and looks at once, without keeping anything else waiting.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::record::DenialKey;
use crate::analyse::{Refusal, TimeLimit, refusals};
use crate::loader::Ring;
use crate::model::{Device, Owner, Request};
use crate::observation::{Observation, Text};
use crate::observe::{self, CgroupTarget, Options};
use crate::quota::{PerAccount, Quota};
use crate::sys::test_hook::scaled;
use crate::watch::EventSubject;
use crate::watch::node::{OwnedCgroup, Places};

/// Looks that wait to be taken at most: as many as there are sums in a turn.
const WAITING: usize = 4096;
/// Turns whose looks have room before they are taken: else a flood fills it.
const TURNS: usize = 4;
/// Keys of one account that wait for a look; of more only the owner is reported.
const OWN_WAITING: usize = 256;
/// Observations of cgroups in a second: of one account, and of all. A user may have many
/// cgroups and leave room for the others.
/// A cgroup where devices are refused all the time takes ten.
const OWN_LOOKS: usize = 20;
const ALL_LOOKS: usize = 100;
const SECOND: Duration = Duration::from_secs(1);
/// How long an observation of a cgroup serves: its programs may change.
const FRESH: Duration = Duration::from_millis(100);
/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
pub(super) const TICK: u64 = 10_000_000;
/// How long decoding the programs of a cgroup may take. Nothing waits for it but other looks.
const DECODING: Duration = Duration::from_secs(10);
/// Said where nobody looked.
const TOO_MANY: &str = "this user was refused too much at once to read the programs each time";
const GONE: &str = "its cgroup is gone";
const NOT_READ: &str = "the programs of its cgroup could not be read";
const LATE: &str = "decoding the programs of its cgroup takes longer than 10 seconds";

/// What a look at one refusal found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// The cgroup, and whose it is; `None` where it was gone.
    pub(super) place: Option<(Text, Option<Owner>)>,
    /// What decides.
    pub(super) refusal: Refusal,
}

/// The thread that looks.
pub(super) struct Lookout {
    seen: Receiver<(DenialKey, Seen)>,
    shared: Arc<Shared>,
}

/// What the thread and its owner say to each other.
struct Shared {
    /// Wakes the thread when this is written.
    wake: EventFd,
    /// Whether it is to end.
    end: AtomicBool,
    /// How often it was asked to say that it is done, and up to which of these it is.
    asked: AtomicU64,
    done: AtomicU64,
}

impl Shared {
    fn wake(&self) {
        // It is there as long as the thread; a small counter always has room.
        let _written = self.wake.write(1);
    }
}

impl Lookout {
    /// Begins to look at each key that comes from the ring.
    ///
    /// # Errors
    ///
    /// No descriptor or thread is left.
    pub(super) fn start(ring: Box<dyn Ring>, options: Options) -> std::io::Result<Self> {
        let (sender, seen) = sync_channel(TURNS * WAITING);
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (end, asked, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { wake, end, asked, done });
        let its = shared.clone();
        thread::Builder::new()
            .name("denials".to_owned())
            .spawn(move || Looker::new(options).follow(ring, &sender, &its))?;
        Ok(Self { seen, shared })
    }

    /// Asks whether all is looked at that is in the ring by now. It is as soon as
    /// [`Self::done`] has reached this number.
    pub(super) fn ask(&self) -> u64 {
        let asked = self.shared.asked.fetch_add(1, Ordering::AcqRel) + 1;
        self.shared.wake();
        asked
    }

    /// Up to which question it is: what has no look by then found no room in the ring.
    pub(super) fn done(&self) -> u64 {
        self.shared.done.load(Ordering::Acquire)
    }

    /// The next look that is over.
    pub(super) fn next(&self) -> Option<(DenialKey, Seen)> {
        // A thread that has ended looks at nothing more, which the events say.
        self.seen.try_recv().ok()
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.shared.end.store(true, Ordering::Release);
        self.shared.wake();
    }
}

/// Looks at refusals.
struct Looker {
    options: Options,
    places: Places,
    /// Cgroups that were observed, by path; of v1 groups also by process.
    observed: HashMap<(Text, Option<u32>), Option<Observation>>,
    /// What was decided in these.
    decided: HashMap<(Text, Option<u32>, Device, Request), Refusal>,
    /// Keys that nobody looked at yet, by account.
    waiting: PerAccount<u32, VecDeque<DenialKey>>,
    looks: Quota<u32>,
    second: Instant,
    /// When the first of these observations was made, or earlier.
    observed_at: Instant,
}

impl Looker {
    fn new(options: Options) -> Self {
        let options = Options { detail: false, deadline: None, units: false, hook: false, ..options };
        Self {
            places: Places::new(observe::trusted_names(&options)),
            options,
            observed: HashMap::new(),
            decided: HashMap::new(),
            waiting: PerAccount::default(),
            looks: Quota::new(OWN_LOOKS, ALL_LOOKS),
            second: Instant::now(),
            observed_at: Instant::now(),
        }
    }

    /// Looks at one key after another, of each user in turn: who is refused much does not
    /// keep the others waiting.
    fn follow(mut self, mut ring: Box<dyn Ring>, sender: &SyncSender<(DenialKey, Seen)>, shared: &Shared) {
        while !shared.end.load(Ordering::Acquire) {
            let asked = shared.asked.load(Ordering::Acquire);
            let mut keys = Vec::new();
            let is_empty = ring.read(&mut |record| {
                keys.extend(DenialKey::read(record));
                keys.len() < WAITING
            });
            for key in keys {
                let own = self.waiting.of(key.account);
                if own.len() < OWN_WAITING {
                    own.push_back(key);
                } else {
                    let place = self.place(&key).map(|place| (place.path.clone(), place.owner.clone()));
                    hand_on(sender, key, Seen { place, refusal: Refusal::Unknown(TOO_MANY.to_owned()) });
                }
            }
            let keys = self.next();
            if !keys.is_empty() {
                let seen = self.look(&keys);
                keys.into_iter().zip(seen).for_each(|(key, seen)| hand_on(sender, key, seen));
                continue;
            }
            if !is_empty {
                continue;
            }
            shared.done.store(asked, Ordering::Release);
            let (ring, wake) = (ring.as_fd(), shared.wake.as_fd());
            let mut fds = [PollFd::new(ring, PollFlags::POLLIN), PollFd::new(wake, PollFlags::POLLIN)];
            let _interrupted = poll(&mut fds, PollTimeout::NONE);
            // Nothing is there to be read if it was the ring.
            let _woken = shared.wake.read();
        }
    }

    /// The next keys of the user whose turn it is: those of one process in one cgroup.
    fn next(&mut self) -> Vec<DenialKey> {
        let Some(account) = self.waiting.in_turn().next() else { return Vec::new() };
        self.waiting.had_turn(account);
        let process = |key: &DenialKey| (key.pid, key.start, key.cgroup);
        let own = self.waiting.of(account);
        let first = own.front().map(process);
        let (its, others): (VecDeque<_>, _) =
            std::mem::take(own).into_iter().partition(|key| Some(process(key)) == first);
        *own = others;
        if own.is_empty() {
            self.waiting.remove(account);
        }
        its.into()
    }

    fn place(&mut self, key: &DenialKey) -> Option<Rc<OwnedCgroup>> {
        let subject = EventSubject {
            pid: key.pid,
            start_time: key.start / TICK,
            account: Some(key.account),
            cgroup: key.cgroup,
            ..EventSubject::default()
        };
        self.places.of(&self.options, &subject)
    }

    /// What is to be known of these keys, which are of one process in one cgroup.
    fn look(&mut self, keys: &[DenialKey]) -> Vec<Seen> {
        if self.second.elapsed() > SECOND {
            self.second = Instant::now();
            self.looks = Quota::new(OWN_LOOKS, ALL_LOOKS);
        }
        if self.observed_at.elapsed() > FRESH {
            self.observed_at = Instant::now();
            self.observed.clear();
            self.decided.clear();
        }
        let Some(first) = keys.first() else { return Vec::new() };
        let Some(place) = self.place(first) else {
            let gone = || Seen { place: None, refusal: Refusal::Unknown(GONE.to_owned()) };
            return keys.iter().map(|_| gone()).collect();
        };
        let refusals = self.refusals(first, keys, &place.path);
        let place = Some((place.path.clone(), place.owner.clone()));
        refusals.into_iter().map(|refusal| Seen { place: place.clone(), refusal }).collect()
    }

    /// What refuses them; each question about a cgroup is decided once.
    fn refusals(&mut self, first: &DenialKey, keys: &[DenialKey], path: &Text) -> Vec<Refusal> {
        let all = (path.clone(), None);
        // Where the v1 controller has a say, its group is the process's own.
        let is_v1 = |seen: &Option<Observation>| seen.as_ref().is_some_and(|seen| seen.devices_v1.is_some());
        let place = match self.observed.get(&all) {
            Some(seen) if !is_v1(seen) => all,
            _ => (path.clone(), Some(first.pid)),
        };
        let question = |key: &DenialKey| (place.0.clone(), place.1, key.device, key.request);
        let mut open: Vec<&DenialKey> = keys.iter().collect();
        open.retain(|key| !self.decided.contains_key(&question(key)));
        // Where there is no room for another look, the events say so.
        let has_room = open.is_empty()
            || self.observed.contains_key(&place)
            // That is all that an error says.
            || self.looks.take(first.account, 1).is_ok();
        if !open.is_empty() && has_room {
            if !self.observed.contains_key(&place) {
                let seen = self.observe(first.pid, path);
                if !is_v1(&seen) {
                    self.observed.insert((path.clone(), None), seen.clone());
                }
                self.observed.insert(place.clone(), seen);
            }
            let asked: Vec<(Device, Request)> = open.iter().map(|key| (key.device, key.request)).collect();
            let decided = decide(self.observed.get(&place).and_then(Option::as_ref), path, &asked);
            self.decided.extend(open.into_iter().map(question).zip(decided));
        }
        let known = |key| self.decided.get(&question(key)).cloned();
        keys.iter().map(|key| known(key).unwrap_or_else(|| Refusal::Unknown(TOO_MANY.to_owned()))).collect()
    }

    fn observe(&self, pid: u32, cgroup: &Text) -> Option<Observation> {
        let target = CgroupTarget::observed(cgroup, false);
        // Only a living process shows its place in the v1 hierarchy; of one that is gone, or
        // elsewhere by now, the cgroup is asked about alone.
        let its = observe::processes_and(&self.options, &[pid], std::slice::from_ref(&target)).ok();
        let its = its.filter(|seen| seen.cgroups.iter().any(|seen| seen.path == *cgroup));
        // Then the event says that it is not known.
        its.or_else(|| observe::cgroups(&self.options, &[target]).ok())
    }
}

/// What refuses these requests in a cgroup that was observed.
fn decide(seen: Option<&Observation>, path: &Text, asked: &[(Device, Request)]) -> Vec<Refusal> {
    let Some(seen) = seen else {
        return asked.iter().map(|_| Refusal::Unknown(NOT_READ.to_owned())).collect();
    };
    let limit = TimeLimit::at(Instant::now().checked_add(scaled(DECODING)));
    let mut refusals = refusals(seen, path, asked, &limit);
    for refusal in refusals.iter_mut().filter(|_| limit.was_missed()) {
        if matches!(refusal, Refusal::Unknown(_)) {
            *refusal = Refusal::Unknown(LATE.to_owned());
        }
    }
    refusals
}

/// Hands a look on. Where too many wait, or nobody does, the sum is reported without it.
fn hand_on(sender: &SyncSender<(DenialKey, Seen)>, key: DenialKey, seen: Seen) {
    let _ = sender.try_send((key, seen));
}
