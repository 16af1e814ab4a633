//! All processes of the node, looked at just enough to tell which ones matter.

use std::path::Path;

use nix::errno::Errno;

use super::super::log::Log;
use super::at_exec;
use super::refusals::Refusals;
use crate::observation::Environment;
use crate::sys::dir::Dir;

/// A process that may matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Candidate {
    /// Its pid.
    pub(in super::super) pid: u32,
    /// Its environment at the last execve, as far as that can be read.
    pub(in super::super) at_exec: Environment,
}

/// The processes of one user, or of all, whose environment at exec is one that
/// matters. Of other users' processes nothing is read but the owner. What is
/// found may have ended, and its pid be another's, before it is read with
/// [`asked`](super::asked()): look at the environment again then.
///
/// Environments that may not be read are told in `log`, as a count.
///
/// # Errors
///
/// Those of listing the proc file system.
pub(in super::super) fn scan(
    proc: &Path,
    uid: Option<u32>,
    log: &mut Log,
    mut matters: impl FnMut(&Environment) -> bool,
) -> Result<Vec<Candidate>, Errno> {
    let refusals = Refusals::default();
    let (mut found, mut buffer) = (Vec::new(), Vec::new());
    let root = Dir::open(proc)?;
    root.numbers(c".", |name, pid| {
        let dir = root.child(name).ok().filter(|dir| {
            let owner = |uid| dir.stat().is_ok_and(|stat| stat.uid == uid);
            uid.is_none_or(owner)
        });
        let at_exec = dir.map(|dir| at_exec::read(&dir, &mut buffer, &refusals));
        if let Some(at_exec) = at_exec.as_ref().and_then(|answer| answer.known()).filter(|one| matters(one)) {
            found.push(Candidate { pid, at_exec: at_exec.clone() });
        }
        !log.out_of_time("looking for processes")
    })?;
    refusals.report(log);
    Ok(found)
}
