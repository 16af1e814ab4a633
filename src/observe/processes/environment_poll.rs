//! Reads environments of known processes again and again, for `watch`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::detail::DetailReader;
use super::environment::at_exec;
use super::helpers::depth::Depth;
use super::helpers::{HelperPool, Requests};
use super::refusals::Refusals;
use crate::observation::{Answer, Environment, Text};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::procfile::is_own;
use crate::sys::dir::Dir;

/// A process and its environment at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PolledEnvironment {
    pub(crate) pid: u32,
    pub(crate) start_time: u64,
    pub(crate) uid: u32,
    pub(crate) comm: Text,
    /// The address at which the environment of its last execve ends; 0 if the kernel
    /// does not say.
    pub(crate) env_end: u64,
    pub(crate) environment: Answer<Environment>,
}

/// Which environment is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Which {
    Live,
    Executed,
}

type Helpers = HelperPool<'static, Which, Option<PolledEnvironment>>;

thread_local! {
    /// Helpers stay for the next question, which comes soon. They end with the thread
    /// that asks.
    static HELPERS: RefCell<Option<(PathBuf, Helpers)>> = const { RefCell::new(None) };
}

/// The current environments of these processes. Processes that ended are left out.
pub(crate) fn live(proc: &Path, pids: impl IntoIterator<Item = u32>) -> Vec<PolledEnvironment> {
    ask(proc, pids.into_iter().map(|pid| (pid, Which::Live)).collect())
}

/// The environment of a process's last execve.
pub(crate) fn executed(proc: &Path, pid: u32) -> Option<PolledEnvironment> {
    ask(proc, vec![(pid, Which::Executed)]).pop()
}

/// Asks the helpers, and starts them if necessary.
fn ask(proc: &Path, questions: Vec<(u32, Which)>) -> Vec<PolledEnvironment> {
    HELPERS.with_borrow_mut(|helpers| {
        if helpers.as_ref().is_none_or(|(place, _)| place != proc) {
            *helpers = start(proc).map(|pool| (proc.to_owned(), pool));
        }
        let Some((_, pool)) = helpers else { return Vec::new() };
        let mut found = Vec::new();
        pool.ask(&questions, None, |index, answer| {
            found.extend(answer.flatten().map(|polled| (index, polled)));
        });
        found.sort_unstable_by_key(|(index, _)| *index);
        found.into_iter().map(|(_, polled)| polled).collect()
    })
}

fn start(proc: &Path) -> Option<Helpers> {
    let is_own = is_own(proc);
    Some(HelperPool::new(
        Dir::open(proc).ok()?,
        move |proc, requests: Requests<'_, Which, Option<PolledEnvironment>>| {
            let refusals = Refusals::default();
            let mut detail_reader = DetailReader::new(&refusals, is_own);
            requests.answer(|pid, which, depth| {
                // One that cannot be read now is read at its next turn.
                look(proc, pid, which, depth, &mut detail_reader, &refusals).unwrap_or(None)
            });
        },
    ))
}

/// Reads one process; `None` if it has ended, is a thread of the kernel, or cannot be read.
fn look(
    proc: &Dir,
    pid: u32,
    which: Which,
    depth: Depth,
    detail_reader: &mut DetailReader<'_>,
    refusals: &Refusals,
) -> Result<Option<PolledEnvironment>, NotRead> {
    let process = PinnedProcess::open(proc, pid)?;
    let uid = process.uid()?;
    let (stat, environment) = match which {
        Which::Executed => at_exec::of(&process, depth, &mut Vec::new(), refusals)?,
        Which::Live => {
            let stat = process.stat()?;
            let unread = depth.refusal().map(|why| Answer::Missing(why.to_owned()));
            (stat, unread.map_or_else(|| detail_reader.environment(&process), Ok)?)
        }
    };
    if stat.is_kernel_thread() || stat.has_ended() {
        return Ok(None);
    }
    let (start_time, env_end) = (stat.start_time, stat.environment.1);
    Ok(Some(PolledEnvironment { pid, start_time, uid, comm: stat.comm, env_end, environment }))
}
