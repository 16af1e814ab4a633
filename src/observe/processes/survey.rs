//! Looks through all processes of the node for those whose environment matters.

use std::path::Path;

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use super::credentials;
use super::environment::at_exec;
use super::helpers::depth::Depth;
use super::helpers::depth::SILENT;
use super::helpers::{HelperPool, Requests};
use super::memory::Memory;
use super::refusals::Refusals;
use crate::model::ProblemCode;
use crate::observation::{Answer, Environment, Problem, Text};
use crate::observe::problems::Log;
use crate::observe::procfile::STAT_LIMIT;
use crate::observe::procfile::parse_stat;
use crate::sys::dir::Dir;

/// A process whose environment names the job: its pid and its start time.
pub(in crate::observe) type Candidate = (u32, u64);

/// The processes to look for. A field that is `None` does not filter.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::observe) struct ProcessFilter {
    /// The user.
    pub(in crate::observe) uid: Option<u32>,
    /// The earliest start, in clock ticks since boot: an older process that cannot
    /// be read is not one of them.
    pub(in crate::observe) since: Option<u64>,
}

/// The facts about one process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Surveyed {
    /// When it started, if its environment matters.
    found: Option<u64>,
    /// Why its environment is not known.
    unread: Option<Unread>,
}

/// Why an environment is not known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Unread {
    why: String,
    /// Whether the kernel refused it.
    refused: bool,
}

/// The processes of one user, or of all, whose environment at exec names the job. Of
/// other users' processes only the owner is read. A found process may end and its
/// pid be reused before it is read with [`asked`](super::asked()), so compare start
/// times then.
///
/// Processes that may be among them and whose environment may not be read, or that
/// do not answer, are reported in `log`, each with its name; those that certainly
/// are not are reported in `remarks`.
///
/// # Errors
///
/// Listing the proc file system failed.
pub(in crate::observe) fn survey(
    proc: &Path,
    filter: ProcessFilter,
    log: &mut Log,
    remarks: &mut Vec<Problem>,
    matters: impl Fn(&Environment) -> bool + Sync,
) -> Result<Vec<Candidate>, Errno> {
    let root = Dir::open(proc)?;
    let mut pids = Vec::new();
    root.numbers(c".", |_, pid| {
        pids.push((pid, ()));
        true
    })?;
    let own = credentials::own_namespace();
    let mut pool = HelperPool::new(root, |proc, requests: Requests<'_, (), Surveyed>| {
        let mut buffer = Vec::new();
        requests.answer(|pid, (), depth| {
            let dir = proc.child(pid.to_string().as_str()).ok();
            let dir = dir.filter(|dir| filter.uid.is_none_or(|uid| credentials::may_be_of(dir, uid, own)));
            dir.map(|dir| survey_one(&dir, depth, &mut buffer, &matters)).unwrap_or_default()
        });
    });
    let (mut found, mut unread, mut answered) = (Vec::new(), Vec::new(), 0);
    pool.ask(&pids, log.deadline(), |index, answer| {
        answered += 1;
        let Some((pid, ())) = pids.get(index) else { return };
        let look = answer.unwrap_or_else(|| {
            let unread = Unread { why: SILENT.to_owned(), refused: false };
            Surveyed { unread: Some(unread), ..Surveyed::default() }
        });
        found.extend(look.found.map(|start_time| (*pid, start_time)));
        unread.extend(look.unread.map(|why| (*pid, why)));
    });
    if answered < pids.len() {
        log.out_of_time("looking for processes");
    }
    unread.sort_unstable_by_key(|(pid, _)| *pid);
    let root = Dir::open(proc)?;
    for (pid, unread) in unread {
        tell(&root, pid, &unread, filter, own, log, remarks);
    }
    found.sort_unstable();
    Ok(found)
}

/// Reports a process that could not be read, unless it has ended.
fn tell(
    proc: &Dir,
    pid: u32,
    unread: &Unread,
    filter: ProcessFilter,
    own: Option<u64>,
    log: &mut Log,
    remarks: &mut Vec<Problem>,
) {
    let mut text = Vec::new();
    let Ok(dir) = proc.child(pid.to_string().as_str()) else { return };
    let Ok(()) = dir.read_into(c"stat", &mut text, STAT_LIMIT) else { return };
    let Some(stat) = parse_stat(&text).filter(|stat| !stat.is_ending() && !stat.is_kernel_thread()) else {
        return;
    };
    let why = unread.why.as_str();
    let what = format!("process {pid} ({})", Text::from(stat.comm).lossy());
    let remark = |why: String| Problem {
        code: ProblemCode::Unreadable,
        what: what.clone(),
        why,
        needs: String::new(),
    };
    if filter.since.is_some_and(|since| stat.start_time < since) {
        remarks.push(remark(format!("{why}; it cannot be the job's, for it is older")));
    } else if filter.uid.is_some_and(|uid| !credentials::may_be_of(&dir, uid, own)) {
        remarks.push(remark(format!("{why}; it cannot be the job's, for it is another user's")));
    } else {
        log.add(if unread.refused { ProblemCode::NoRight } else { ProblemCode::Unreadable }, what, why, "");
    }
}

/// Surveys one process.
fn survey_one(
    dir: &Dir,
    depth: Depth,
    buffer: &mut Vec<u8>,
    matters: impl Fn(&Environment) -> bool,
) -> Surveyed {
    let unread =
        |why: String, refused| Surveyed { unread: Some(Unread { why, refused }), ..Surveyed::default() };
    if let Some(why) = depth.refusal() {
        return unread(why.to_owned(), false);
    }
    // The order matters: the area belongs to this memory, or the memory is dead.
    let mut memory = Memory::open(dir);
    let Ok(()) = dir.read_piece(c"stat", buffer, STAT_LIMIT) else { return Surveyed::default() };
    let Some(stat) = parse_stat(buffer) else { return Surveyed::default() };
    let (start_time, area) = (stat.start_time, stat.environment);
    let refusals = Refusals::default();
    let environment = at_exec::read(&mut memory, area, buffer, &refusals);
    match environment {
        Answer::Missing(why) if !refusals.take().is_empty() => unread(why, true),
        Answer::Known(environment) if matters(&environment) => {
            Surveyed { found: Some(start_time), ..Surveyed::default() }
        }
        _ => Surveyed::default(),
    }
}
