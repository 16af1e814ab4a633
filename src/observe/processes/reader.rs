//! Reads processes one after another, each through one handle of its `/proc`
//! directory, so that a reused pid cannot mix two processes.

use std::ffi::CStr;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use super::detail::{DetailReader, Parts, ProcessToRead};
use super::helpers::depth::Depth;
use super::title::STEP_DAEMON;
use super::wanted::{ReadContext, Unread, Wanted};
use crate::observation::{Process, Text};
use crate::observe::cgroups::devices_v1;
use crate::observe::living_thread::living_thread;
use crate::observe::processes::step_daemon;
use crate::observe::procfile::{STAT_LIMIT, STATUS_LIMIT, can_be, cgroup_line, may_be_cut, parse_stat};
use crate::owner;
use crate::sys::dir::Dir;

/// Bytes read of `cgroup`, some fifteen lines.
const CGROUP_LIMIT: usize = 256 << 10;

/// Reads processes, and reuses the buffers for the next one.
pub(super) struct Reader<'a> {
    context: &'a ReadContext<'a>,
    detail_reader: DetailReader<'a>,
    buffer: Vec<u8>,
}

/// The cgroups of a process.
struct Groups {
    own: Text,
    devices_v1: Option<Text>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(context: &'a ReadContext<'a>) -> Self {
        Self {
            context,
            detail_reader: DetailReader::new(&context.refusals, context.is_own),
            buffer: Vec::new(),
        }
    }

    pub(super) fn read(&mut self, wanted: &Wanted<'_>, depth: Depth) -> Result<Process, Unread> {
        let pid = wanted.pid;
        let dir = self
            .context
            .proc
            .child(format!("{pid}/.").as_str())
            .map_err(|_| if exists(pid) { Unread::Hidden } else { Unread::Gone })?;
        if wanted.cgroup.is_none() && !self.is_process(&dir, pid)? {
            return Err(Unread::Gone);
        }
        // The directory itself always belongs to the effective uid, whether
        // the process is dumpable or not (`task_dump_owner` in fs/proc/base.c).
        let uid = dir.stat().map_err(|_| Unread::Gone)?.uid;
        let stat = parse_stat(self.file(&dir, c"stat", STAT_LIMIT)?).ok_or(Unread::Gone)?;
        let (comm, start_time) = (Text::from(stat.comm), stat.start_time);
        let (mut state, threads) = (Some(char::from(stat.state)), Some(stat.threads));
        let (kernel_thread, ended, several) = (stat.is_kernel_thread(), stat.has_ended(), stat.threads > 1);
        let mut detail = None;
        if self.context.detail && !kernel_thread {
            // Root's daemon of a step has its title, which others need not.
            let titled = uid == 0 && comm == Text::from(STEP_DAEMON);
            let parts = Parts::All;
            let subject = ProcessToRead { pid, dir: &dir, titled, ended, several, depth, parts };
            let look = self.detail_reader.read(&subject).map_err(|_| Unread::Gone)?;
            // A process of which nothing could be read may have ended.
            if look.at_exec.known().is_none() && look.live.known().is_none() {
                let stat = parse_stat(self.file(&dir, c"stat", STAT_LIMIT)?).ok_or(Unread::Gone)?;
                state = Some(char::from(stat.state));
            }
            detail = Some(look);
        }
        let living = if ended { living_thread(&dir, |stat| !stat.has_ended()) } else { None };
        let living = living.as_ref().map_or(&dir, |(_, thread)| thread);
        let Groups { own, devices_v1 } = self.groups(living, wanted)?;
        if let Some(detail) = &mut detail
            && uid == 0
            && serves_unnumbered_job(&own, &detail.title)
        {
            detail.stepd_sockets = step_daemon::sockets(&dir);
        }
        Ok(Process {
            pid,
            start_time,
            uid,
            state,
            threads,
            comm,
            cgroup: own,
            devices_v1,
            kernel_thread,
            detail,
        })
    }

    fn groups(&mut self, dir: &Dir, wanted: &Wanted<'_>) -> Result<Groups, Unread> {
        let hierarchy = self.context.hierarchy;
        let text = match dir.read_piece(c"cgroup", &mut self.buffer, CGROUP_LIMIT) {
            Ok(()) => Some(self.buffer.as_slice()),
            Err(Errno::ENAMETOOLONG) => None,
            Err(_) => return Err(Unread::Gone),
        };
        let devices_v1 = hierarchy.devices.as_ref().and_then(|mount| match text {
            Some(text) => cgroup_line(text, Some(b"devices")).map(|line| match may_be_cut(line) {
                true => devices_v1::unknown(),
                false => devices_v1::group(mount, line),
            }),
            None => Some(devices_v1::unknown()),
        });
        let controller = if hierarchy.is_legacy() { Some(b"devices".as_slice()) } else { None };
        let line = text.and_then(|text| cgroup_line(text, controller));
        if text.is_none() || line.is_some_and(may_be_cut) {
            let whole = |walked: &Text| hierarchy.mount.whole(walked.as_bytes());
            let walked = wanted.cgroup.filter(|walked| can_be(&whole(walked), line));
            return walked.map(|own| Groups { own: own.clone(), devices_v1 }).ok_or(Unread::LongPath);
        }
        // A path that this mount cannot show is taken from the walk.
        let own = match (line, line.and_then(|line| hierarchy.mount.inside(line)), wanted.cgroup) {
            (_, Some(inside), _) => inside.into(),
            (_, None, Some(walked)) => walked.clone(),
            // The form in which the kernel writes paths outside of a namespace.
            (Some(line), None, None) if wanted.anywhere => [b"/..", line].concat().into(),
            (Some(line), None, None) => return Err(Unread::Outside(line.into())),
            (None, None, None) => return Err(Unread::NoCgroup),
        };
        Ok(Groups { own, devices_v1 })
    }

    /// Whether this is a process and not one of its other threads, which
    /// `/proc` shows too when asked by number.
    fn is_process(&mut self, dir: &Dir, pid: u32) -> Result<bool, Unread> {
        let text = self.file(dir, c"status", STATUS_LIMIT)?;
        let value = text.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"));
        let value = value.and_then(|value| std::str::from_utf8(value).ok()?.trim().parse().ok());
        Ok(value == Some(pid))
    }

    fn file(&mut self, dir: &Dir, name: &CStr, limit: usize) -> Result<&[u8], Unread> {
        dir.read_piece(name, &mut self.buffer, limit).map_err(|_| Unread::Gone)?;
        Ok(&self.buffer)
    }
}

/// Whether a process is where a job that is called by its SLUID has its
/// daemon, and its title does not tell the job's number.
fn serves_unnumbered_job(cgroup: &Text, title: &Text) -> bool {
    cgroup.as_bytes().ends_with(b"/slurm")
        && owner::job_of_title(title.as_bytes()).is_none()
        && owner::may_serve_sluid(cgroup.as_bytes())
}

/// Whether a process exists, seen or not (signal 0 sends nothing).
fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 0) else { return false };
    matches!(kill(Pid::from_raw(pid), None), Ok(()) | Err(Errno::EPERM))
}
