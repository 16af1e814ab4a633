//! Which processes are looked for by what their environment says.

use std::fmt;

use super::credentials;
use super::environment::at_exec;
use super::helpers::Depth;
use super::refusals::Refusals;
use super::wanted::{Doubt, Unread};
use crate::observation::{Answer, Environment, Process};
use crate::observe::pinned::PinnedProcess;
use crate::observe::procfile::Stat;

/// The processes that are looked for. A field that is `None` does not filter.
pub(in crate::observe) struct Sieve<'a> {
    /// The user.
    pub(in crate::observe) uid: Option<u32>,
    /// The earliest start, in clock ticks since boot: an older process whose environment
    /// is not known is not one of them.
    pub(in crate::observe) since: Option<u64>,
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
    /// Whether a process is looked for, and the doubt if that is not known. `thread` is one
    /// that lives.
    pub(super) fn sift(
        &mut self,
        sieve: &Sieve<'_>,
        process: &PinnedProcess,
        thread: &PinnedProcess,
        stat: &Stat,
        depth: Depth,
    ) -> Result<Option<Doubt>, Unread> {
        let own = *self.own.get_or_insert_with(credentials::own_namespace);
        if stat.is_kernel_thread()
            || sieve.uid.is_some_and(|uid| !credentials::may_be_of(process.dir(), uid, own))
        {
            return Err(Unread::Other);
        }
        let (_, environment) = at_exec::of(thread, depth, &mut self.buffer, &self.refusals)?;
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
