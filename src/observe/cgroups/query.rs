//! Queries the device programs of a cgroup: those that are in force there, and
//! those that are attached to it.

use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use super::hierarchy::Hierarchy;
use crate::model::ProblemCode;
use crate::observation::{Answer, Attached, Cgroup};
use crate::observe::problems::{Log, refusal};
use crate::observe::rights::{refused, unless_held};
use crate::sys::bpf::{BpfError, ListKind, query};
use crate::sys::caps::Capability::{Bpf, NetAdmin, SysAdmin};
use crate::sys::caps::{Capabilities, Capability};
use crate::sys::dir::Dir;
use crate::sys::kernel;

/// What gpumap may lack for `BPF_PROG_QUERY` on this kernel: the capabilities one of which
/// must be held, and the right to ask for in words.
pub(in crate::observe) fn right() -> (&'static [Capability], &'static str) {
    // Without an answer the first right is named: the refusal is told all the same.
    let may_ask = Capabilities::effective().is_some_and(|held| held.has(NetAdmin));
    right_on(kernel::release(), may_ask)
}

/// The same on a kernel of this release, for whom `may_ask` has CAP_NET_ADMIN or not. Since
/// Linux 6.9 CAP_SYS_ADMIN is enough; before 6.5 bpf(2) as a whole is refused without CAP_BPF
/// (or CAP_SYS_ADMIN) if kernel.unprivileged_bpf_disabled is set.
fn right_on(release: Option<(u32, u32)>, may_ask: bool) -> (&'static [Capability], &'static str) {
    match release {
        Some(release) if release >= (6, 9) => (&[NetAdmin, SysAdmin], "CAP_NET_ADMIN or CAP_SYS_ADMIN"),
        Some(release) if release >= (6, 5) => (&[NetAdmin], "CAP_NET_ADMIN"),
        Some(_) if may_ask => {
            (&[Bpf, SysAdmin], "CAP_BPF or CAP_SYS_ADMIN where kernel.unprivileged_bpf_disabled is set")
        }
        Some(_) => (
            &[NetAdmin],
            "CAP_NET_ADMIN, and CAP_BPF or CAP_SYS_ADMIN if kernel.unprivileged_bpf_disabled is set",
        ),
        None => (&[NetAdmin], "CAP_NET_ADMIN (CAP_SYS_ADMIN is enough since Linux 6.9)"),
    }
}

/// How often both lists of a cgroup are queried until they are of one moment. An agent that
/// replaces a program all the time comes between most pairs of queries.
const ROUNDS: u64 = 64;

const CHANGED: &str = "its programs changed each time they were read";

/// Why programs are not known where cgroup2 is in use and not mounted.
pub(in crate::observe) const UNMOUNTED: &str =
    "cgroup2 is in use on this node and not mounted here, so that nobody can ask for device programs";

/// The programs in force, and those that are attached directly.
pub(in crate::observe) type Lists = (Answer<Vec<u32>>, Answer<Attached>);

/// Whether all own programs are in force, as they always are.
fn is_one_moment(effective: &Answer<Vec<u32>>, own: &Answer<Attached>) -> bool {
    let (Some(effective), Some(own)) = (effective.known(), own.known()) else { return true };
    own.programs.iter().all(|id| effective.contains(id))
}

/// The cgroup was removed while it was queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::observe) struct Gone;

/// Queries cgroups, and stops once the kernel has refused.
#[derive(Clone, Debug)]
pub(in crate::observe) struct ListQuery {
    legacy: bool,
    refused: Option<String>,
}

impl ListQuery {
    /// Without cgroup2 there are no programs; where it is in use and not mounted, nobody
    /// can ask for them.
    pub(in crate::observe) fn new(hierarchy: &Hierarchy) -> Self {
        let refused = hierarchy.hides_cgroup2.then(|| UNMOUNTED.to_owned());
        Self { legacy: hierarchy.is_legacy(), refused }
    }

    /// Both lists. Own programs are always in force too: an empty effective list means
    /// that both are empty, and where a program of the own list is not in the effective
    /// one, it was replaced between the two queries, which are asked again. Who replaces and
    /// who asks may get the kernel's lock by turns, so that a replacement comes between the
    /// two each time: a pause that grows breaks that beat.
    pub(in crate::observe) fn lists(&mut self, dir: &Dir, log: &mut Log) -> Result<Lists, Gone> {
        for round in 0..ROUNDS {
            let effective = self.effective(dir, log)?;
            if round > 0 {
                sleep(Duration::from_micros(round));
            }
            let own = match &effective {
                Answer::Missing(why) => Answer::Missing(why.clone()),
                Answer::Known(ids) if ids.is_empty() => Answer::default(),
                Answer::Known(_) => self.own(dir, log)?,
            };
            if is_one_moment(&effective, &own) {
                return Ok((effective, own));
            }
        }
        log.once(ProblemCode::ChangedWhileRead, "device programs of a cgroup", CHANGED, "another try");
        Ok((Answer::Missing(CHANGED.to_owned()), Answer::Missing(CHANGED.to_owned())))
    }

    fn own(&mut self, dir: &Dir, log: &mut Log) -> Result<Answer<Attached>, Gone> {
        match query(dir.as_fd(), ListKind::Own) {
            Ok(own) => Ok(Answer::Known(Attached {
                programs: own.ids,
                flags: own.attach_flags,
                ..Attached::default()
            })),
            Err(error) => self.why(error, log).map(Answer::Missing),
        }
    }

    /// The effective list alone.
    pub(in crate::observe) fn effective(
        &mut self,
        dir: &Dir,
        log: &mut Log,
    ) -> Result<Answer<Vec<u32>>, Gone> {
        if let Some(why) = &self.refused {
            return Ok(Answer::Missing(why.clone()));
        }
        if self.legacy {
            return Ok(Answer::default());
        }
        match query(dir.as_fd(), ListKind::Effective) {
            Ok(effective) => Ok(Answer::Known(effective.ids)),
            Err(error) => self.why(error, log).map(Answer::Missing),
        }
    }

    fn why(&mut self, error: BpfError, log: &mut Log) -> Result<String, Gone> {
        if error.is_gone() {
            return Err(Gone);
        }
        if !error.is_refused() {
            log.once(ProblemCode::QueryFailed, "device programs of a cgroup", error.to_string(), "");
            return Ok(error.to_string());
        }
        let (lacked, needs) = right();
        log.no_right("device programs of cgroups", refusal(error, lacked), unless_held(lacked, needs));
        let why = refused(lacked, needs, "ask for the programs");
        self.refused = Some(why.clone());
        Ok(why)
    }
}

/// A cgroup that was visited, and whether it was asked for or is only an ancestor.
#[derive(Debug)]
pub(in crate::observe) struct VisitedCgroup {
    pub(in crate::observe) cgroup: Cgroup,
    pub(in crate::observe) requested: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a right which would not help is not named, nor one that is held already.
    #[test]
    fn rights_by_release() {
        let lacked = |release, may_ask| right_on(Some(release), may_ask).0;
        assert_eq!(lacked((5, 10), false), [NetAdmin]);
        assert_eq!(lacked((6, 4), true), [Bpf, SysAdmin]);
        assert_eq!(lacked((6, 5), true), [NetAdmin]);
        assert_eq!(lacked((6, 9), true), [NetAdmin, SysAdmin]);
    }
}
