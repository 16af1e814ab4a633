//! Which process is to be read, by its pid or by what its environment says, and why it was
//! not.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::credentials;
use super::environment::at_exec;
use super::helpers::Depth;
use super::refusals::{Counts, Refusals};
use crate::observation::{Answer, Environment, Process, Text};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::procfile::Stat;

/// A process to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) pid: u32,
    /// The cgroup that listed it, by its place in `ReadContext::cgroups`; `None` if it
    /// was found by its pid.
    pub(super) cgroup: Option<usize>,
}

/// Why a process was not read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Unread {
    /// It has ended.
    Gone,
    /// It exists, but this `/proc` does not show it.
    Hidden,
    /// Its cgroup lies outside the namespace or mount.
    Outside(Text),
    NoCgroup,
    /// The path of its cgroup is longer than the kernel shows. With what it shows.
    LongPath(Option<Text>),
    /// It kept its reader waiting.
    Silent,
    /// A file of it could not be read, in one clause.
    Failed(String),
    /// It is none of those that are looked for.
    Other,
    /// It may be one of those that are looked for.
    Unsure(Doubt),
}

/// Why it is not certain whether a process is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Doubt {
    /// Why its environment is not known, in one clause.
    pub(super) why: String,
    /// Whether the kernel refused it.
    pub(super) refused: bool,
    /// Whether it is older than what is looked for, and so none of it.
    pub(super) older: bool,
    pub(super) comm: Text,
}

impl From<NotRead> for Unread {
    fn from(why: NotRead) -> Self {
        match why {
            NotRead::Gone => Self::Gone,
            why => Self::Failed(why.to_string()),
        }
    }
}

/// What reading one process gave.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) found: Result<Process, Unread>,
    /// Its effective uid, where it was seen alive.
    pub(super) uid: Option<u32>,
    /// Whether it had ended, or was ending: what it held others may hold now.
    pub(super) ended: bool,
    pub(super) refusals: Counts,
}

impl Outcome {
    /// Of a process that kept its reader waiting.
    pub(super) fn silent() -> Self {
        Self { found: Err(Unread::Silent), uid: None, ended: false, refusals: Counts::new() }
    }
}

/// The processes that are looked for. A field that is `None` does not filter.
pub(in crate::observe) struct Sieve<'a> {
    /// The user.
    pub(in crate::observe) uid: Option<u32>,
    /// The earliest start, in clock ticks since boot: an older process whose environment
    /// is not known is not one of them.
    pub(in crate::observe) since: Option<u64>,
    /// Whether gpumap itself may be one of them.
    pub(in crate::observe) itself: bool,
    /// Whether an environment at exec is that of one of them.
    pub(in crate::observe) matters: &'a (dyn Fn(&Environment) -> bool + Sync),
}

impl fmt::Debug for Sieve<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sieve").field("uid", &self.uid).field("since", &self.since).finish_non_exhaustive()
    }
}

/// Sifts one process after another.
#[derive(Debug, Default)]
pub(super) struct Sifter {
    refusals: Refusals,
    buffer: Vec<u8>,
    /// gpumap's user namespace, once it was asked for.
    own: Option<Option<u64>>,
}

impl Sifter {
    /// Whether a process is looked for, and the doubt if that is not known. `stat` is that of
    /// its main thread, `uid` the effective one.
    pub(super) fn sift(
        &mut self,
        sieve: &Sieve<'_>,
        process: &PinnedProcess,
        (uid, stat): (u32, &Stat),
        depth: Depth,
    ) -> Result<Option<Doubt>, Unread> {
        let own = *self.own.get_or_insert_with(credentials::own_namespace);
        // Its effective uid is known; the others take calls.
        let may_be_of = |user| user == uid || credentials::may_be_of(process.dir(), user, own);
        if stat.is_kernel_thread() || !sieve.uid.is_none_or(may_be_of) {
            return Err(Unread::Other);
        }
        let (buffer, refusals) = (&mut self.buffer, &self.refusals);
        let asked = process.by_thread(stat, |thread| at_exec::of(thread, depth, buffer, refusals));
        let environment = match asked {
            Ok((_, environment)) => environment,
            Err(why @ NotRead::Fleeting) => Answer::Missing(why.to_string()),
            Err(why) => return Err(why.into()),
        };
        let refused = !self.refusals.take().is_empty();
        let older = sieve.since.is_some_and(|since| stat.start_time < since);
        let doubt = |why: &str| Doubt { why: why.to_owned(), refused, older, comm: stat.comm.clone() };
        match &environment {
            Answer::Known(environment) if (sieve.matters)(environment) => Ok(None),
            Answer::Known(Environment { cut: None, .. }) => Err(Unread::Other),
            Answer::Known(Environment { cut: Some(why), .. }) | Answer::Missing(why) => Ok(Some(doubt(why))),
        }
    }
}

/// What a doubtful process is after all: none of those that are looked for if it holds
/// nothing or is too old; one of which the facts are worth a judgement if it is known what
/// it holds.
pub(super) fn settle(doubt: Doubt, process: Process) -> Result<Process, Unread> {
    let detail = process.detail.as_ref();
    match detail.and_then(|detail| Some((detail.devices.known()?, &detail.devices_cut))) {
        Some((devices, None)) if doubt.older || devices.is_empty() => Err(Unread::Other),
        Some((devices, _)) if !doubt.older && !devices.is_empty() => Ok(process),
        Some(_) | None => Err(Unread::Unsure(doubt)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DeviceType;
    use crate::observation::{Detail, HeldDevice, Text};

    fn holder(devices: Answer<Vec<HeldDevice>>, cut: Option<&str>) -> Process {
        fn missing<T>() -> Answer<T> {
            Answer::Missing(String::new())
        }
        let detail = Detail {
            title: Text::default(),
            exe: missing(),
            stepd_sockets: Vec::new(),
            at_exec: missing(),
            live: missing(),
            devices,
            devices_cut: cut.map(str::to_owned),
            vgpu: None,
        };
        Process { detail: Some(detail), ..Process::default() }
    }

    /// Make sure that only what surely holds nothing, or is too old, is left out.
    #[test]
    fn doubts() {
        let device = HeldDevice { kind: DeviceType::Char, major: 195, minor: 0, fds: 1, mapped: false };
        let (none, one) = (|| Answer::Known(Vec::new()), || Answer::Known(vec![device]));
        let young = Doubt::default;
        let old = || Doubt { older: true, ..Doubt::default() };
        assert_eq!(settle(young(), holder(none(), None)).unwrap_err(), Unread::Other);
        assert!(
            settle(young(), holder(one(), None)).is_ok() && settle(young(), holder(one(), Some("x"))).is_ok()
        );
        assert_eq!(settle(young(), holder(none(), Some("x"))).unwrap_err(), Unread::Unsure(young()));
        let unread = || holder(Answer::Missing(String::new()), None);
        assert_eq!(settle(young(), unread()).unwrap_err(), Unread::Unsure(young()));
        assert_eq!(settle(old(), holder(one(), None)).unwrap_err(), Unread::Other);
        assert_eq!(settle(old(), unread()).unwrap_err(), Unread::Unsure(old()));
    }
}
