//! Environments alone, of processes that are known already: what `watch` asks
//! for again and again.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::detail::Looker;
use super::environment::at_exec;
use super::helpers::care::Care;
use super::helpers::{Crew, Duty};
use super::memory::Memory;
use super::procfile::parse_stat;
use super::procfile::{STAT_LIMIT, is_own};
use super::refusals::Refusals;
use crate::observation::{Answer, Environment, Text};
use crate::sys::dir::Dir;

/// A process and its environment at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Peek {
    pub(crate) pid: u32,
    pub(crate) start_time: u64,
    pub(crate) uid: u32,
    pub(crate) comm: Text,
    /// Where the environment of its last execve ends; 0 if that is not told.
    pub(crate) env_end: u64,
    pub(crate) environment: Answer<Environment>,
}

/// Which environment is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Which {
    Live,
    Executed,
}

type Helpers = Crew<'static, Which, Option<Peek>>;

thread_local! {
    /// Helpers stay for the next question, which comes soon; they end with the
    /// thread that asks.
    static HELPERS: RefCell<Option<(PathBuf, Helpers)>> = const { RefCell::new(None) };
}

/// The environments that processes have in memory now; those that went are
/// left out.
pub(crate) fn live(proc: &Path, pids: impl IntoIterator<Item = u32>) -> Vec<Peek> {
    ask(proc, pids.into_iter().map(|pid| (pid, Which::Live)).collect())
}

/// The environment of a process's last execve.
pub(crate) fn executed(proc: &Path, pid: u32) -> Option<Peek> {
    ask(proc, vec![(pid, Which::Executed)]).pop()
}

/// Asks the helpers, which are started where there are none.
fn ask(proc: &Path, questions: Vec<(u32, Which)>) -> Vec<Peek> {
    HELPERS.with_borrow_mut(|helpers| {
        if helpers.as_ref().is_none_or(|(place, _)| place != proc) {
            *helpers = start(proc).map(|crew| (proc.to_owned(), crew));
        }
        let Some((_, crew)) = helpers else { return Vec::new() };
        let mut found = Vec::new();
        crew.ask(&questions, None, |index, answer| {
            found.extend(answer.flatten().map(|peek| (index, peek)));
        });
        found.sort_unstable_by_key(|(index, _)| *index);
        found.into_iter().map(|(_, peek)| peek).collect()
    })
}

fn start(proc: &Path) -> Option<Helpers> {
    let is_own = is_own(proc);
    Some(Crew::new(Dir::open(proc).ok()?, move |proc, duty: Duty<'_, Which, Option<Peek>>| {
        let refusals = Refusals::default();
        let mut looker = Looker::new(&refusals, is_own);
        duty.answer(|pid, which, care| look(proc, pid, which, care, &mut looker, &refusals));
    }))
}

/// One process; `None` for one that went or is a thread of the kernel.
fn look(
    proc: &Dir,
    pid: u32,
    which: Which,
    care: Care,
    looker: &mut Looker<'_>,
    refusals: &Refusals,
) -> Option<Peek> {
    let dir = proc.child(format!("{pid}/.").as_str()).ok()?;
    let uid = dir.stat().ok()?.uid;
    // In this order: the area is that of the memory, or it is dead.
    let mut memory =
        if which == Which::Executed && care == Care::Inside { Some(Memory::open(&dir)) } else { None };
    let mut text = Vec::new();
    dir.read_into(c"stat", &mut text, STAT_LIMIT).ok()?;
    let stat = parse_stat(&text).filter(|stat| !stat.is_kernel_thread() && !stat.has_ended())?;
    let mut peek = Peek {
        pid,
        start_time: stat.start_time,
        uid,
        comm: stat.comm.into(),
        env_end: stat.environment.1,
        environment: Answer::Missing(care.refusal().unwrap_or_default().to_owned()),
    };
    let area = stat.environment;
    if care != Care::Inside {
        return Some(peek);
    }
    peek.environment = match &mut memory {
        Some(memory) => at_exec::read(memory, area, &mut Vec::new(), refusals),
        None => looker.environment(pid, &dir)?,
    };
    Some(peek)
}
