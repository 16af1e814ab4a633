//! Reads processes one after another, each through one handle of its `/proc`
//! directory, so that a reused pid cannot mix two processes.

use std::thread;
use std::time::Duration;

use nix::errno::Errno;

use super::detail::{DetailReader, Parts, ProcessToRead};
use super::helpers::Depth;
use super::refusals::Refusals;
use super::step_daemon::{self, STEP_DAEMON};
use super::wanted::{Outcome, Sieve, Sifter, Unread, Wanted, settle};
use crate::observation::{Detail, Process, Text};
use crate::observe::cgroups::devices_v1;
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::pinned::{NotRead, PinnedProcess, exists};
use crate::observe::procfile::{Stat, can_be, may_be_cut};
use crate::owner;
use crate::sys::absence::is_end;
use crate::sys::dir::Dir;

/// Pauses after which a process that is ending is looked at again: it has ended soon, unless
/// one of its files keeps it.
const ENDING: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4)];

/// What is the same for all processes that are read.
#[derive(Debug)]
pub(super) struct ReadContext<'a> {
    pub(super) proc: &'a Dir,
    pub(super) hierarchy: &'a Hierarchy,
    /// The cgroups that were walked.
    pub(super) cgroups: &'a [&'a Text],
    pub(super) detail: bool,
    /// Whether a process is also read if its cgroup is outside of the root.
    pub(super) anywhere: bool,
    /// What is looked for; `None` if all are.
    pub(super) sieve: Option<&'a Sieve<'a>>,
    /// Whether this `/proc` has the pids that system calls use.
    pub(super) is_own: bool,
    pub(super) refusals: Refusals,
}

/// Reads processes, and reuses the buffers for the next one.
pub(super) struct Reader<'a> {
    context: &'a ReadContext<'a>,
    detail_reader: DetailReader<'a>,
    sifter: Sifter,
}

/// The cgroups of a process.
struct Groups {
    own: Text,
    devices_v1: Option<Text>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(context: &'a ReadContext<'a>) -> Self {
        let detail_reader = DetailReader::new(&context.refusals, context.is_own);
        Self { context, detail_reader, sifter: Sifter::default() }
    }

    /// Reads a process.
    pub(super) fn read(&mut self, wanted: Wanted, depth: Depth) -> Outcome {
        let (mut uid, mut ended) = (None, false);
        let found = self.attempt(wanted, depth, &mut uid, &mut ended);
        Outcome { found, uid, ended, refusals: self.context.refusals.take() }
    }

    fn attempt(
        &mut self,
        wanted: Wanted,
        depth: Depth,
        known_uid: &mut Option<u32>,
        ended: &mut bool,
    ) -> Result<Process, Unread> {
        let context = self.context;
        let process = PinnedProcess::open(context.proc, wanted.pid).map_err(|why| absent(wanted.pid, why))?;
        let uid = process.uid()?;
        let mut stat = process.stat()?;
        *known_uid = Some(uid);
        *ended = process.has_ended(&stat)?;
        let doubt = match context.sieve {
            Some(_) if *ended => return Err(Unread::Other),
            Some(sieve) => self.sifter.sift(sieve, &process, (uid, &stat), depth)?,
            None => None,
        };
        // Asked of those that matter alone, for it takes a file more.
        if wanted.cgroup.is_none() && !process.is_process()? {
            return Err(Unread::Gone);
        }
        let mut detail = self.detail(&process, uid, &mut stat, depth, ended)?;
        let Groups { own, devices_v1 } = match (self.groups(&process, &stat, wanted), &doubt) {
            // Wherever it is, it is too old to be looked for.
            (Err(Unread::LongPath(_)), Some(doubt)) if doubt.older => {
                return Err(Unread::Unsure(doubt.clone()));
            }
            (groups, _) => groups?,
        };
        if let Some(detail) = detail.as_mut().filter(|_| uid == 0)
            && serves_unnumbered_job(&own, &detail.title)
        {
            detail.stepd_sockets = sockets(&process)?;
        }
        let process = Process {
            pid: wanted.pid,
            start_time: stat.start_time,
            uid,
            state: Some(char::from(stat.state)),
            threads: Some(stat.threads),
            kernel_thread: stat.is_kernel_thread(),
            comm: stat.comm,
            cgroup: own,
            devices_v1,
            detail,
        };
        match doubt {
            Some(doubt) => settle(doubt, process),
            None => Ok(process),
        }
    }

    /// What it asks for and holds, if that is wanted. One of which nothing could be read may
    /// have ended meanwhile.
    fn detail(
        &mut self,
        process: &PinnedProcess,
        uid: u32,
        stat: &mut Stat,
        depth: Depth,
        ended: &mut bool,
    ) -> Result<Option<Detail>, Unread> {
        if !self.context.detail || stat.is_kernel_thread() {
            return Ok(None);
        }
        // Root's daemon of a step has its title, which others need not.
        let titled = uid == 0 && stat.comm.as_bytes() == STEP_DAEMON;
        let (several, parts) = (stat.threads > 1, Parts::All);
        let subject = ProcessToRead { process, main: stat, titled, several, depth, parts };
        let look = self.detail_reader.read(&subject)?;
        if !*ended && look.at_exec.known().is_none() && look.live.known().is_none() {
            for pause in ENDING {
                thread::sleep(pause);
                *stat = process.stat()?;
                *ended = process.is_ending()?;
                match *ended {
                    true if stat.has_ended() => return Err(Unread::Gone),
                    true => {}
                    false => break,
                }
            }
        }
        Ok(Some(look))
    }

    fn groups(&mut self, process: &PinnedProcess, main: &Stat, wanted: Wanted) -> Result<Groups, Unread> {
        let hierarchy = self.context.hierarchy;
        let walked = wanted.cgroup.and_then(|place| self.context.cgroups.get(place).copied());
        let lines = match (process.by_thread(main, PinnedProcess::cgroups), walked) {
            (Ok(lines), _) => Some(lines),
            (Err(NotRead::Failed(_, Errno::ENAMETOOLONG)), _) => None,
            // Then it is where it was found.
            (Err(NotRead::Fleeting), Some(walked)) => {
                let devices_v1 = hierarchy.devices.as_ref().map(|_| devices_v1::unknown());
                return Ok(Groups { own: walked.clone(), devices_v1 });
            }
            (Err(why), _) => return Err(why.into()),
        };
        let devices_v1 = hierarchy.devices.as_ref().and_then(|mount| match &lines {
            Some(lines) => lines.devices().map(|line| match may_be_cut(line) {
                true => devices_v1::unknown(),
                false => devices_v1::group(mount, line),
            }),
            None => Some(devices_v1::unknown()),
        });
        let line = lines.as_ref().and_then(|lines| hierarchy.line(lines));
        if lines.is_none() || line.is_some_and(may_be_cut) {
            let whole = |walked: &Text| hierarchy.mount.whole(walked.as_bytes());
            let walked = walked.filter(|walked| can_be(&whole(walked), line));
            let own = walked.cloned().ok_or_else(|| Unread::LongPath(line.map(Text::from)))?;
            return Ok(Groups { own, devices_v1 });
        }
        // A path that this mount cannot show is taken from the walk.
        let own = match (line, line.and_then(|line| hierarchy.mount.inside(line)), walked) {
            (_, Some(inside), _) => inside.into(),
            (_, None, Some(walked)) => walked.clone(),
            // The form in which the kernel writes paths outside of a namespace.
            (Some(line), None, None) if self.context.anywhere => [b"/..", line].concat().into(),
            (Some(line), None, None) => return Err(Unread::Outside(line.into())),
            (None, None, None) => return Err(Unread::NoCgroup),
        };
        Ok(Groups { own, devices_v1 })
    }
}

/// The sockets of a step's daemon.
fn sockets(process: &PinnedProcess) -> Result<Vec<Text>, NotRead> {
    match step_daemon::sockets(process.dir()) {
        // Its descriptors are refused in the same way, and that is reported.
        Err(Errno::EACCES | Errno::EPERM) => Ok(Vec::new()),
        Err(errno) if is_end(errno) && process.is_ending()? => Ok(Vec::new()),
        sockets => sockets.map_err(|errno| process.failed("/net/unix", errno)),
    }
}

/// Whether a process is where a job that is called by its SLUID has its
/// daemon, and its title does not tell the job's number.
fn serves_unnumbered_job(cgroup: &Text, title: &Text) -> bool {
    cgroup.as_bytes().ends_with(b"/slurm")
        && owner::job_of_title(title.as_bytes()).is_none()
        && owner::may_serve_sluid(cgroup.as_bytes())
}

/// Why a process could not be pinned: one that exists is hidden by the mount option
/// hidepid, or this is another pid namespace's `/proc`.
fn absent(pid: u32, why: NotRead) -> Unread {
    match why {
        NotRead::Gone | NotRead::Failed(_, Errno::EACCES | Errno::EPERM) if exists(pid) => Unread::Hidden,
        why => why.into(),
    }
}
