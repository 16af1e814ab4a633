//! Reads environments of known processes again and again, for `watch`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::detail::DetailReader;
use super::environment::at_exec;
use super::helpers::{Depth, HelperPool, Requests};
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

/// Environments that were read together.
#[derive(Debug, Default)]
pub(crate) struct PolledEnvironments {
    pub(crate) read: Vec<PolledEnvironment>,
    /// Processes that could not be read, and why: nobody knows whether they are there.
    pub(crate) unread: Vec<(u32, String)>,
}

/// Which environment is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Which {
    Live,
    Executed,
}

/// A process as it was read, nothing if it is gone, or why it was not read.
type Polled = Result<Option<PolledEnvironment>, String>;

type Helpers = HelperPool<'static, Which, Polled>;

/// Why there is no answer.
const SILENT: &str = "it does not answer";

thread_local! {
    /// Helpers stay for the next question, which comes soon. They end with the thread
    /// that asks.
    static HELPERS: RefCell<Option<(PathBuf, Helpers)>> = const { RefCell::new(None) };
}

/// The current environments of these processes. Processes that ended are left out.
pub(crate) fn live(proc: &Path, pids: impl IntoIterator<Item = u32>) -> PolledEnvironments {
    ask(proc, pids.into_iter().map(|pid| (pid, Which::Live)).collect())
}

/// The environment of a process's last execve. One that cannot be read is `None`: it is read
/// again soon, with those that executed a program last.
pub(crate) fn executed(proc: &Path, pid: u32) -> Option<PolledEnvironment> {
    ask(proc, vec![(pid, Which::Executed)]).read.pop()
}

/// Asks the helpers, and starts them if necessary.
fn ask(proc: &Path, questions: Vec<(u32, Which)>) -> PolledEnvironments {
    HELPERS.with_borrow_mut(|helpers| {
        if helpers.as_ref().is_none_or(|(place, _)| place != proc) {
            *helpers = match start(proc) {
                Ok(pool) => Some((proc.to_owned(), pool)),
                Err(errno) => return none_read(&questions, errno.desc()),
            };
        }
        let Some((_, pool)) = helpers else { return none_read(&questions, SILENT) };
        let (mut found, mut unread) = (Vec::new(), Vec::new());
        pool.ask(&questions, None, |index, answer| match answer {
            Some(Ok(polled)) => found.extend(polled.map(|polled| (index, polled))),
            Some(Err(why)) => unread.push((index, why)),
            None => unread.push((index, SILENT.to_owned())),
        });
        found.sort_unstable_by_key(|(index, _)| *index);
        let read = found.into_iter().map(|(_, polled)| polled).collect();
        let pid = |index: usize| questions.get(index).map(|(pid, _)| *pid);
        let unread = unread.into_iter().filter_map(|(index, why)| Some((pid(index)?, why))).collect();
        PolledEnvironments { read, unread }
    })
}

fn none_read(questions: &[(u32, Which)], why: &str) -> PolledEnvironments {
    let unread = questions.iter().map(|(pid, _)| (*pid, why.to_owned())).collect();
    PolledEnvironments { read: Vec::new(), unread }
}

fn start(proc: &Path) -> Result<Helpers, Errno> {
    let is_own = is_own(proc);
    Ok(HelperPool::new(Dir::open(proc)?, move |proc, requests: Requests<'_, Which, Polled>| {
        let refusals = Refusals::default();
        let mut detail_reader = DetailReader::new(&refusals, is_own);
        requests.answer(|pid, which, depth| {
            match look(proc, pid, which, depth, &mut detail_reader, &refusals) {
                Err(NotRead::Gone) => Ok(None),
                looked => looked.map_err(|why| why.to_string()),
            }
        });
    }))
}

/// Reads one process; `None` if it has ended or is a thread of the kernel.
fn look(
    proc: &Dir,
    pid: u32,
    which: Which,
    depth: Depth,
    detail_reader: &mut DetailReader<'_>,
    refusals: &Refusals,
) -> Result<Option<PolledEnvironment>, NotRead> {
    let process = PinnedProcess::open(proc, pid)?;
    let (uid, main) = (process.uid()?, process.stat()?);
    if main.is_kernel_thread() || process.has_ended(&main)? {
        return Ok(None);
    }
    let (env_end, environment) = match which {
        Which::Executed => {
            let of = |thread: &PinnedProcess| at_exec::of(thread, depth, &mut Vec::new(), refusals);
            let (stat, environment) = process.by_thread(&main, of)?;
            (stat.environment.1, environment)
        }
        Which::Live => {
            let unread = depth.refusal().map(|why| Answer::Missing(why.to_owned()));
            let environment = unread.map_or_else(|| detail_reader.environment(&process, &main), Ok)?;
            (main.environment.1, environment)
        }
    };
    let (start_time, comm) = (main.start_time, main.comm);
    Ok(Some(PolledEnvironment { pid, start_time, uid, comm, env_end, environment }))
}
