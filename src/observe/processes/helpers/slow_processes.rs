//! Which processes did not answer, and which users' processes take long: they,
//! and in the end all of these users, are looked at from outside for a while.
//! Others pay for nobody's processes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::depth::Depth;
use crate::observe::processes::procfile::parse_stat;
use crate::sys::dir::Dir;
use crate::sys::helper::left_behind;

/// Processes of one user that may keep helpers waiting, and of all.
const OF_A_USER: usize = 3;
const OF_ALL: usize = 16;
/// How long the processes of one user may take together, and from when on the
/// time of one counts: an ordinary one takes less than a tenth of that.
const TIME_OF_A_USER: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_millis(2);
/// How long all of that is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Helpers that may be left behind on the node by this gpumap.
const LEFT_BEHIND: usize = 16;
/// Bytes of `stat`.
const LIMIT: usize = 8 << 10;

/// Processes that kept a helper waiting.
#[derive(Debug, Default)]
pub(super) struct SlowProcesses {
    /// By pid.
    processes: HashMap<u32, Stall>,
    /// By uid: how long processes took together, and since when that is counted.
    users: HashMap<u32, (Duration, Instant)>,
}

#[derive(Debug)]
struct Stall {
    /// Its start time and user, as far as they are known.
    who: Option<(u64, u32)>,
    when: Instant,
}

impl SlowProcesses {
    /// Remembers a process.
    pub(super) fn add(&mut self, proc: &Dir, pid: u32) {
        self.processes.insert(pid, Stall { who: who(proc, pid), when: Instant::now() });
    }

    /// Remembers how long a process took.
    pub(super) fn spent(&mut self, proc: &Dir, pid: u32, time: Duration) {
        if time < LONG {
            return;
        }
        let Some((_, uid)) = who(proc, pid) else { return };
        let (spent, _) = self.users.entry(uid).or_insert((Duration::ZERO, Instant::now()));
        *spent = spent.saturating_add(time);
    }

    /// How far a process may be looked into.
    pub(super) fn depth(&mut self, proc: &Dir, pid: u32) -> Depth {
        self.processes.retain(|_, stall| stall.when.elapsed() < REMEMBERED);
        self.users.retain(|_, (_, since)| since.elapsed() < REMEMBERED);
        if self.processes.is_empty() && self.users.is_empty() {
            return Depth::Full;
        }
        let who = who(proc, pid);
        let spent = who.and_then(|(_, uid)| self.users.get(&uid));
        if spent.is_some_and(|(spent, _)| *spent > TIME_OF_A_USER) {
            return Depth::Minimal;
        }
        let same = self.processes.get(&pid).is_some_and(|stall| stall.who == who);
        let user = |who: Option<(u64, u32)>| who.map(|(_, uid)| uid);
        let of_user = self.processes.values().filter(|stall| user(stall.who) == user(who)).count();
        let enough = of_user >= OF_A_USER || self.processes.len() >= OF_ALL || !may_lose_another();
        if same || enough { Depth::WithoutMemory } else { Depth::Full }
    }
}

/// Whether another helper may be lost to a process.
fn may_lose_another() -> bool {
    left_behind() < LEFT_BEHIND
}

/// Start time and user: neither takes anything of the process itself.
fn who(proc: &Dir, pid: u32) -> Option<(u64, u32)> {
    let dir = proc.child(format!("{pid}/.").as_str()).ok()?;
    let mut text = Vec::new();
    dir.read_piece(c"stat", &mut text, LIMIT).ok()?;
    Some((parse_stat(&text)?.start_time, dir.stat().ok()?.uid))
}
