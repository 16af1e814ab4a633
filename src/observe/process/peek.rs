//! Environments alone, of processes that are known already: what `watch` asks
//! for again and again.

use std::path::Path;

use super::detail::Looker;
use super::refusals::Refusals;
use super::{STAT_LIMIT, at_exec};
use crate::observation::{Answer, Environment, Text};
use crate::observe::procfile::parse_stat;
use crate::sys::dir::Dir;

/// A process and its environment at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Peek {
    pub(crate) pid: u32,
    pub(crate) start_time: u64,
    pub(crate) uid: u32,
    pub(crate) comm: Text,
    /// Where the environment of its last execve ends; 0 if that is not told.
    pub(crate) env_end: u64,
    pub(crate) environment: Answer<Environment>,
}

/// Who a process is, with its directory; `None` for one that went or is a
/// thread of the kernel.
fn open(proc: &Path, pid: u32) -> Option<(Dir, Peek)> {
    let dir = Dir::open(&proc.join(pid.to_string())).ok()?;
    let uid = dir.stat().ok()?.uid;
    let mut text = Vec::new();
    dir.read_into(c"stat", &mut text, STAT_LIMIT).ok()?;
    let stat = parse_stat(&text).filter(|stat| !stat.is_kernel_thread() && !stat.has_ended())?;
    let environment = Answer::Missing(String::new());
    let peek = Peek {
        pid,
        start_time: stat.start_time,
        uid,
        comm: stat.comm.into(),
        env_end: stat.env_end,
        environment,
    };
    Some((dir, peek))
}

/// The environments that processes have in memory now; those that went are
/// left out.
pub(crate) fn live(proc: &Path, pids: impl IntoIterator<Item = u32>) -> Vec<Peek> {
    let refusals = Refusals::default();
    let mut looker = Looker::new(&refusals);
    let found = pids.into_iter().filter_map(|pid| {
        let (dir, peek) = open(proc, pid)?;
        let detail = looker.look(&dir, false, false).ok()?;
        Some(Peek { environment: detail.live, ..peek })
    });
    found.collect()
}

/// The environment of a process's last execve.
pub(crate) fn executed(proc: &Path, pid: u32) -> Option<Peek> {
    let (dir, peek) = open(proc, pid)?;
    let environment = at_exec::read(&dir, &mut Vec::new(), &Refusals::default());
    Some(Peek { environment, ..peek })
}
