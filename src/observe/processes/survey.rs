//! Looks through all processes of the node for those whose environment matters.

use std::collections::{BTreeSet, HashSet};

use nix::errno::Errno;

use super::look::Look;
use super::sieve::Sieve;
use super::wanted::{Unread, Wanted};
use crate::observation::{Problem, Process, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::sys::dir::Dir;

/// The processes that were found.
#[derive(Debug, Default)]
pub(in crate::observe) struct Surveyed {
    /// Those whose environment matters, and those of which that is not known and which have
    /// devices open.
    pub(in crate::observe) processes: Vec<Process>,
    /// What is shown of the cgroups of others, whose path is too long to be shown.
    pub(in crate::observe) long_paths: Vec<Option<Text>>,
}

/// The processes that go through a sieve, wherever their cgroups are. Of other users'
/// processes only the owner is read.
///
/// Processes that may be among them and whose environment may not be read, or that
/// do not answer, are reported in `log`, each with its name; those that certainly
/// are not are reported in `remarks`. Those with a long path are not reported.
pub(in crate::observe) fn survey(
    options: &Options,
    hierarchy: &Hierarchy,
    sieve: &Sieve<'_>,
    log: &mut Log,
    remarks: &mut Vec<Problem>,
) -> Surveyed {
    let look = Look { options, hierarchy, cgroups: &[], anywhere: true, sieve: Some(sieve) };
    let mut list = |done: &mut HashSet<u32>, _: &[_], log: &mut Log| {
        unread(options, done).unwrap_or_else(|errno| {
            log.failed(options.proc.to_string_lossy(), errno);
            Vec::new()
        })
    };
    let first = list(&mut HashSet::new(), &[], log);
    let mut seen = look.read(first, &mut list, log);
    let mut long_paths = Vec::new();
    seen.unread.retain(|(_, why)| match why {
        Unread::LongPath(shown) => {
            long_paths.push(shown.clone());
            false
        }
        _ => true,
    });
    look.tell(&seen, log, remarks);
    Surveyed { processes: seen.read, long_paths }
}

/// The processes that are not among these; pids of those that have ended leave these, since
/// they may be used again.
fn unread(options: &Options, done: &mut HashSet<u32>) -> Result<Vec<Wanted>, Errno> {
    let mut listed = BTreeSet::new();
    Dir::open(&options.proc)?.numbers(c".", |_, pid| {
        listed.insert(pid);
        true
    })?;
    done.retain(|pid| listed.contains(pid));
    let new = listed.into_iter().filter(|pid| !done.contains(pid));
    Ok(new.map(|pid| Wanted { pid, cgroup: None }).collect())
}
