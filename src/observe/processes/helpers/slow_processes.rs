//! Remembers which processes did not answer, and which users' processes take
//! long. For a while those processes, and in the end all processes of such a user,
//! are read without their memory. Other users lose nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::depth::Depth;
use crate::observe::pinned::PinnedProcess;
use crate::observe::processes::credentials::{Account, account, own_namespace};
use crate::sys::dir::Dir;
use crate::sys::helper::{MOST_LEFT_BEHIND, left_behind};

/// How many processes of one user, and of all users, may block helpers.
const OF_A_USER: usize = 3;
const OF_ALL: usize = 16;
/// How long the processes of one user may take together, and the time from which on
/// a process counts. An ordinary process takes less than a tenth of it.
const TIME_OF_A_USER: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_millis(2);
/// How long these facts are remembered.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Processes that kept a helper waiting.
#[derive(Debug, Default)]
pub(super) struct SlowProcesses {
    /// By pid.
    processes: HashMap<u32, Stall>,
    /// By user: how long its processes took together, and since when this is counted.
    users: HashMap<Account, (Duration, Instant)>,
    /// The inode number of gpumap's user namespace, once it was asked for.
    own: Option<Option<u64>>,
}

#[derive(Debug)]
struct Stall {
    /// Its start time and user, if they are known.
    who: Option<(u64, Account)>,
    when: Instant,
}

impl SlowProcesses {
    /// Remembers a process.
    pub(super) fn add(&mut self, proc: &Dir, pid: u32) {
        let who = self.who(proc, pid);
        self.processes.insert(pid, Stall { who, when: Instant::now() });
    }

    /// Remembers how long a process took.
    pub(super) fn spent(&mut self, proc: &Dir, pid: u32, time: Duration) {
        if time < LONG {
            return;
        }
        let Some((_, user)) = self.who(proc, pid) else { return };
        let (spent, _) = self.users.entry(user).or_insert((Duration::ZERO, Instant::now()));
        *spent = spent.saturating_add(time);
    }

    /// How much of a process may be read.
    pub(super) fn depth(&mut self, proc: &Dir, pid: u32) -> Depth {
        self.processes.retain(|_, stall| stall.when.elapsed() < REMEMBERED);
        self.users.retain(|_, (_, since)| since.elapsed() < REMEMBERED);
        // Where no process and no user was slow, nobody has to be asked whose it is.
        let is_any_slow = self.users.values().any(|(spent, _)| *spent > TIME_OF_A_USER);
        let is_full = self.users.is_empty() || !is_any_slow && may_lose_another();
        if self.processes.is_empty() && is_full {
            return Depth::Full;
        }
        let who = self.who(proc, pid);
        let spent = who.and_then(|(_, user)| self.users.get(&user));
        if spent.is_some_and(|(spent, _)| *spent > TIME_OF_A_USER) {
            return Depth::Minimal;
        }
        let same = self.processes.get(&pid).is_some_and(|stall| stall.who == who);
        let user = |who: Option<(u64, Account)>| who.map(|(_, user)| user);
        let of_user = self.processes.values().filter(|stall| user(stall.who) == user(who)).count();
        let enough = of_user >= OF_A_USER || self.processes.len() >= OF_ALL || !may_lose_another();
        if same || enough { Depth::WithoutMemory } else { Depth::Full }
    }

    /// Start time and user: reading these never waits for the process.
    fn who(&mut self, proc: &Dir, pid: u32) -> Option<(u64, Account)> {
        let process = PinnedProcess::open(proc, pid).ok()?;
        let own = *self.own.get_or_insert_with(own_namespace);
        Some((process.stat().ok()?.start_time, account(process.dir(), own)?))
    }
}

/// Whether one more helper may be abandoned.
fn may_lose_another() -> bool {
    left_behind() < MOST_LEFT_BEHIND
}
