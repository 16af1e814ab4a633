//! What each user may cost: files, descriptors, and time; and whose processes are looked at
//! next. A user who takes all of his own leaves that of the others alone.
//!
//! Processes that executed a program wait to be looked at: a program maps its libraries
//! within moments. Each user's processes wait in a queue of their own, and the queues take
//! turns: who executes many programs keeps nobody else waiting.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::quota::{Full, PerAccount, Quota, Recovering};

/// Files that are known at a time: of one user, and of all.
const FILES: usize = 1024;

const ALL_FILES: usize = 16_384;

/// Descriptors that attachments take, of all: at most this many, and at most
/// half of what this process may have. Of one user a quarter of that.
const DESCRIPTORS: usize = 16_384;

/// Time that looking at the files of one user may take: saved up to the first,
/// and nanoseconds that come back in a second, a tenth of it.
const TIME: Duration = Duration::from_secs(2);

const BACK: u64 = 100_000_000;

/// Who needs no budget of time: root, outside of every user namespace.
const ROOT: u32 = 0;

/// What was used so far.
#[derive(Debug)]
pub(super) struct Budgets {
    users: PerAccount<u32, User>,
    files: Quota<u32>,
    /// Descriptors in use; those that are being closed count.
    descriptors: Arc<AtomicUsize>,
    most: usize,
}

/// What one user uses besides files: descriptors, and nanoseconds.
#[derive(Debug, Default)]
struct User {
    descriptors: usize,
    time: Recovering,
}

impl Budgets {
    /// Nothing is used. As many descriptors as root allows are asked for.
    pub(super) fn new() -> Self {
        // With fewer descriptors fewer probes fit, and each that does not is told.
        let (mut soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        // With fewer descriptors fewer probes fit, and each that does not is told.
        if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
            soft = hard;
        }
        let half = usize::try_from(soft / 2).unwrap_or(usize::MAX);
        let (users, files) = (PerAccount::default(), Quota::new(FILES, ALL_FILES));
        Self { users, files, descriptors: Arc::default(), most: half.min(DESCRIPTORS) }
    }

    /// The number of descriptors, for who closes them.
    pub(super) fn descriptors(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.descriptors)
    }

    /// Whether one more file may be looked at for a user.
    ///
    /// # Errors
    ///
    /// Which budget is used up.
    pub(super) fn allows(&mut self, uid: u32, now: Instant) -> Result<(), String> {
        self.has_time(uid, now)?;
        let room = self.files.room(&uid, 1);
        if room == Err(Full::Own) {
            return Err(format!("{FILES} files of user {uid} are watched already, which is the limit"));
        }
        let (descriptors, most) = (self.users.of(uid).descriptors, self.most / 4);
        if descriptors >= most {
            return Err(format!("the files of user {uid} take {descriptors} probes, of {most} for one user"));
        }
        // That of all: its own was looked at above.
        if room.is_err() || self.descriptors.load(Ordering::Relaxed) >= self.most {
            return Err("more files are watched already than gpumap can".to_owned());
        }
        Ok(())
    }

    /// Whether there is time left for a user. Root has as much as it takes: on a busy
    /// machine looks take long through nobody's fault, and most files are root's.
    ///
    /// # Errors
    ///
    /// That it is used up.
    pub(super) fn has_time(&mut self, uid: u32, now: Instant) -> Result<(), String> {
        if uid == ROOT {
            return Ok(());
        }
        let used = self.users.of(uid).time.used(now, BACK);
        let over = "the time for looking at the files of user";
        if Duration::from_nanos(used) < TIME {
            Ok(())
        } else {
            Err(format!("{over} {uid} is used up (a tenth of all time)"))
        }
    }

    /// Time was spent for a user.
    pub(super) fn spend(&mut self, uid: u32, time: Duration, now: Instant) {
        let user = self.users.of(uid);
        user.time.used(now, BACK);
        user.time.spend(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A file is known for a user, or is so no longer.
    pub(super) fn file(&mut self, uid: u32, more: bool) {
        if more {
            self.files.add(uid, 1);
        } else {
            self.files.give_back(uid, 1);
        }
    }

    /// Descriptors were opened for a user.
    pub(super) fn opened(&mut self, uid: u32, count: usize) {
        self.users.of(uid).descriptors += count;
        self.descriptors.fetch_add(count, Ordering::Relaxed);
    }

    /// Descriptors of a user were given away to be closed.
    pub(super) fn closed(&mut self, uid: u32, count: usize) {
        let user = self.users.of(uid);
        user.descriptors = user.descriptors.saturating_sub(count);
    }

    /// Forgets users who use nothing.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.users.retain(|_, user| user.descriptors > 0 || user.time.used(now, BACK) > 0);
    }
}

/// When a process is looked at, from its execve or from the last look.
const LOOKS: [Duration; 3] = [Duration::from_millis(1), Duration::from_millis(5), Duration::from_millis(250)];

/// Processes of one account that wait, at most.
pub const EACH: usize = 4096;

/// Who answers for a process; `None` where that is not known.
pub type Account = Option<u32>;

/// A look that is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingLook {
    /// Who answers for the process.
    pub account: Account,
    /// The process.
    pub pid: u32,
    number: usize,
}

impl PendingLook {
    /// Whether it is the last one of the process.
    pub fn is_last(self) -> bool {
        self.number + 1 == LOOKS.len()
    }
}

/// The queues.
#[derive(Debug, Default)]
pub struct Waiting {
    accounts: PerAccount<Account, Queues>,
}

/// Of one account, a queue for each look, in the order of time.
#[derive(Debug, Default)]
struct Queues([VecDeque<(Instant, u32)>; LOOKS.len()]);

impl Waiting {
    /// A process executed a program. Whether it will be looked at: not if too
    /// many of its account wait.
    pub fn add(&mut self, account: Account, pid: u32) -> bool {
        self.put(PendingLook { account, pid, number: 0 })
    }

    /// It was looked at: there may be a further look.
    pub fn put_back(&mut self, look: PendingLook) -> bool {
        self.put(PendingLook { number: look.number + 1, ..look })
    }

    fn put(&mut self, look: PendingLook) -> bool {
        let Some(delay) = LOOKS.get(look.number) else { return true };
        let queues = self.accounts.of(look.account);
        let has_room = queues.0.iter().map(VecDeque::len).sum::<usize>() < EACH;
        if let Some(queue) = queues.0.get_mut(look.number).filter(|_| has_room) {
            queue.push_back((Instant::now() + *delay, look.pid));
        }
        has_room
    }

    /// When the next one is to be looked at.
    pub fn due(&self) -> Option<Instant> {
        self.accounts.values().filter_map(|queues| Some(queues.first()?.1)).min()
    }

    /// The next one whose time has come, an account after the other.
    pub fn next(&mut self, now: Instant) -> Option<PendingLook> {
        let is_due = |queues: &Queues| queues.first().is_some_and(|(_, due)| due <= now);
        let account =
            self.accounts.in_turn().find(|account| self.accounts.get(*account).is_some_and(is_due))?;
        self.accounts.had_turn(account);
        let queues = self.accounts.get_mut(account)?;
        let (number, _) = queues.first()?;
        let (_, pid) = queues.0.get_mut(number)?.pop_front()?;
        if queues.0.iter().all(VecDeque::is_empty) {
            self.accounts.remove(account);
        }
        Some(PendingLook { account, pid, number })
    }
}

impl Queues {
    /// The queue whose first process is to be looked at before those of the
    /// others, and when.
    fn first(&self) -> Option<(usize, Instant)> {
        let fronts = self.0.iter().enumerate().filter_map(|(number, queue)| Some((number, queue.front()?.0)));
        fronts.min_by_key(|(_, due)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that one user's use ends that user's, and that time comes back.
    #[test]
    fn apart() {
        let (mut budgets, now) = (Budgets::new(), Instant::now());
        for _ in 0..FILES {
            budgets.allows(7, now).unwrap();
            budgets.file(7, true);
        }
        assert!(budgets.allows(7, now).unwrap_err().contains("user 7"));
        budgets.allows(8, now).unwrap();
        budgets.file(7, false);
        budgets.allows(7, now).unwrap();
        budgets.spend(8, TIME, now);
        budgets.spend(ROOT, TIME * 2, now);
        assert!(budgets.allows(8, now).unwrap_err().contains("time"));
        budgets.allows(ROOT, now).unwrap();
        assert!(budgets.allows(8, now + Duration::from_secs(1)).is_ok());
        budgets.opened(9, budgets.most / 4);
        assert!(budgets.allows(9, now).unwrap_err().contains("probes"));
        budgets.closed(9, budgets.most / 4);
        let later = now + TIME * 20;
        budgets.tidy(later);
        assert!(budgets.users.len() <= 2, "nobody is kept but who uses something");
    }

    /// Make sure that a process is looked at as often as it is to be, not before
    /// its time.
    #[test]
    fn looks() {
        let mut waiting = Waiting::default();
        assert_eq!(waiting.due(), None);
        assert!(waiting.add(Some(1), 7));
        assert_eq!(waiting.next(Instant::now() - Duration::from_secs(1)), None);
        let later = Instant::now() + Duration::from_secs(3600);
        for number in 0..LOOKS.len() {
            assert!(waiting.due().is_some());
            let look = waiting.next(later).unwrap();
            assert_eq!((look.pid, look.number, look.is_last()), (7, number, number == 2));
            assert!(waiting.put_back(look));
        }
        assert!(waiting.next(later).is_none() && waiting.accounts.is_empty());
    }

    /// Make sure that one account that has too many keeps no other waiting.
    #[test]
    fn fair() {
        let mut waiting = Waiting::default();
        let added = (0..10_000).filter(|pid| waiting.add(Some(1), *pid)).count();
        assert_eq!(added, EACH);
        assert!(waiting.add(Some(2), 77));
        let later = Instant::now() + Duration::from_secs(3600);
        let first: Vec<u32> = (0..3).filter_map(|_| Some(waiting.next(later)?.pid)).collect();
        assert!(first.contains(&77), "{first:?}");
    }
}
