//! Which processes did not answer: they, and in the end all of the users who
//! have them, are looked at from outside for a while. Others pay for nobody's
//! processes.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Care, may_lose_another};
use crate::observe::procfile::parse_stat;
use crate::sys::dir::Dir;

/// Processes of one user that may keep helpers waiting, and of all.
const OF_A_USER: usize = 3;
const OF_ALL: usize = 16;
/// How long that is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Bytes of `stat`.
const LIMIT: usize = 8 << 10;

/// Processes that kept a helper waiting.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// By pid.
    processes: HashMap<u32, Stall>,
}

#[derive(Debug)]
struct Stall {
    /// Its start time and user, as far as they are known.
    who: Option<(u64, u32)>,
    when: Instant,
}

impl Stalls {
    /// Remembers a process.
    pub(super) fn add(&mut self, pid: u32) {
        self.processes.insert(pid, Stall { who: who(pid), when: Instant::now() });
    }

    /// How far a process may be looked into.
    pub(super) fn care(&mut self, pid: u32) -> Care {
        if self.processes.is_empty() {
            return Care::Inside;
        }
        self.processes.retain(|_, stall| stall.when.elapsed() < REMEMBERED);
        let who = who(pid);
        let same = self.processes.get(&pid).is_some_and(|stall| stall.who == who);
        let user = |who: Option<(u64, u32)>| who.map(|(_, uid)| uid);
        let of_user = self.processes.values().filter(|stall| user(stall.who) == user(who)).count();
        let enough = of_user >= OF_A_USER || self.processes.len() >= OF_ALL || !may_lose_another();
        if same || enough { Care::Outside } else { Care::Inside }
    }
}

/// Start time and user: neither takes anything of the process itself.
fn who(pid: u32) -> Option<(u64, u32)> {
    let dir = Dir::open(&Path::new("/proc").join(pid.to_string())).ok()?;
    let mut text = Vec::new();
    dir.read_piece(c"stat", &mut text, LIMIT).ok()?;
    Some((parse_stat(&text)?.start_time, dir.stat().ok()?.uid))
}
