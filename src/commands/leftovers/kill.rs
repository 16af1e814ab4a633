//! `leftovers --kill`: opens a pidfd of each process, observes all of them a second
//! time, and sends the signal to those that both observations call the job's.
//!
//! If both observations see the same start time at a pid, then the pidfd that was
//! opened in between refers to this very process: a pid that was given to another
//! process meanwhile would show another start time.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use crate::cli::KillSignal;
use crate::commands::invocation::{Failure, Invocation};
use crate::model::ProblemCode;
use crate::observe;
use crate::report::{Leftover, LeftoversAnswer};
use crate::sys::pidfd::Pidfd;

/// Of a process that the second observation does not have among the leftovers.
pub(super) const GONE: &str = "it has ended, or is no longer a leftover";

/// Refuses options that observe other processes than those that run here now.
pub(super) fn refuse(invocation: &Invocation<'_>) -> Result<(), Failure> {
    if invocation.global.from.is_some() {
        let needs = "leave --from out: what is saved may have ended, and its pid be another's";
        return Err(Failure::new(ProblemCode::Usage, "--kill", "ends processes of this node only", needs));
    }
    if invocation.global.proc != Path::new("/proc") {
        let needs = "leave --proc out: pids of another /proc may be other processes here";
        return Err(Failure::new(ProblemCode::Usage, "--kill", "ends processes of this node only", needs));
    }
    Ok(())
}

/// Ends the processes that may be ended, and returns what was done to each.
///
/// # Errors
///
/// The second observation failed; no process was ended.
pub(super) fn end<'a>(
    leftovers: impl Iterator<Item = &'a mut Leftover>,
    signal: KillSignal,
    again: &mut dyn FnMut() -> Result<LeftoversAnswer, Failure>,
) -> Result<(), Failure> {
    let proc = Path::new("/proc");
    let ancestors = observe::ancestors(proc).map_err(|errno| {
        let why = format!("cannot tell which processes gpumap descends from: {errno}");
        Failure::new(ProblemCode::Unreadable, "--kill", why, "a mounted proc file system")
    })?;
    let mut pinned = Vec::new();
    for leftover in leftovers {
        if leftover.spared.is_none() && ancestors.contains(&leftover.process.pid) {
            leftover.spared = Some("gpumap was started by it".to_owned());
        }
        leftover.killed = Some(false);
        if leftover.spared.is_none() {
            match Pidfd::open(leftover.process.pid) {
                Ok(pidfd) => pinned.push((leftover, pidfd)),
                Err(errno) => leftover.spared = Some(why(errno)),
            }
        }
    }
    if pinned.is_empty() {
        return Ok(());
    }
    let now = again()?.leftovers;
    for (leftover, pidfd) in pinned {
        match confirmed(leftover, &now).and_then(|()| pidfd.send(signal.into()).map_err(why)) {
            Ok(()) => leftover.killed = Some(true),
            Err(why) => leftover.spared = Some(why),
        }
    }
    Ok(())
}

/// Whether the second look says the same of the same process.
fn confirmed(leftover: &Leftover, now: &[Leftover]) -> Result<(), String> {
    let key = |it: &Leftover| (it.process.pid, it.process.start_time, it.process.uid);
    let same = now.iter().find(|other| key(other) == key(leftover));
    match same.map(|same| &same.spared) {
        None => Err(GONE.to_owned()),
        Some(None) => Ok(()),
        Some(Some(why)) => Err(why.clone()),
    }
}

fn why(errno: Errno) -> String {
    match errno {
        Errno::ESRCH => GONE.to_owned(),
        Errno::EPERM => "gpumap may not: this needs CAP_KILL in the user namespace of the process".to_owned(),
        Errno::ENOSYS => "the kernel cannot pin it: this needs Linux 5.3".to_owned(),
        errno => errno.desc().to_owned(),
    }
}

impl From<KillSignal> for Signal {
    fn from(signal: KillSignal) -> Self {
        match signal {
            KillSignal::Kill => Self::SIGKILL,
            KillSignal::Term => Self::SIGTERM,
            KillSignal::Int => Self::SIGINT,
            KillSignal::Hup => Self::SIGHUP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Process;
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    fn leftover(pid: u32, start_time: u64) -> Leftover {
        Leftover { process: Process { pid, start_time, ..Process::default() }, ..Leftover::default() }
    }

    fn run(mut before: Leftover, after: Vec<Leftover>) -> Leftover {
        let mut again = || Ok(LeftoversAnswer { leftovers: after.clone(), ..LeftoversAnswer::default() });
        end(std::iter::once(&mut before), KillSignal::Kill, &mut again).unwrap();
        before
    }

    /// Make sure that only a process that both looks agree on is ended: not a
    /// pid with another start time, nor one that is spared at the second look.
    #[test]
    fn two_looks() {
        let mut child = sleeper();
        let pid = child.id();
        let other = run(leftover(pid, 1), vec![leftover(pid, 2)]);
        assert_eq!((other.killed, other.spared.as_deref()), (Some(false), Some(GONE)));
        let spared = Leftover { spared: Some("x".to_owned()), ..leftover(pid, 1) };
        assert_eq!(run(leftover(pid, 1), vec![spared.clone()]).spared, spared.spared);
        assert_eq!(run(spared, vec![leftover(pid, 1)]).killed, Some(false));
        assert_eq!(child.try_wait().unwrap(), None);
        assert_eq!(run(leftover(pid, 1), vec![leftover(pid, 1)]).killed, Some(true));
        assert!(!child.wait().unwrap().success());
    }

    /// Make sure that gpumap does not end what started it.
    #[test]
    fn ancestors() {
        let parent = leftover(std::os::unix::process::parent_id(), 1);
        let spared = run(parent.clone(), vec![parent]);
        assert_eq!(
            (spared.killed, spared.spared.as_deref()),
            (Some(false), Some("gpumap was started by it"))
        );
    }
}
