//! Keeps the refusals of the last hour, for an audit that asks later.

use std::collections::BTreeMap;

use super::places::TICK;
use super::record::{DenialKey, DenialSum};
use crate::model::{Device, Time};
use crate::observation::{Refusals, RefusedDevice};
use crate::quota::PerAccount;
use crate::watch::event::{Clock, now_ns};

/// How long a refusal is kept, in nanoseconds.
const HOUR: u64 = 3_600_000_000_000;
/// Accounts, and processes with their devices of one account, that have room.
const ACCOUNTS: usize = 64;
const OWN: usize = 128;

/// A process (pid and start), the id of its cgroup, and a device.
type Who = (u32, u64, u64, Device);

/// The refusals of the last hour, by account.
pub(super) struct Kept {
    sums: PerAccount<u32, BTreeMap<Who, DenialSum>>,
    since: u64,
    lost: u64,
    missed: u64,
    changed: bool,
}

impl Kept {
    /// Nothing was refused yet.
    pub(super) fn new() -> Self {
        Self { sums: PerAccount::default(), since: now_ns(), lost: 0, missed: 0, changed: true }
    }

    /// Adds a sum, whatever was asked for; where the account has no room its oldest one goes.
    pub(super) fn add(&mut self, key: &DenialKey, sum: &DenialSum) {
        self.changed = true;
        if self.sums.get(key.account).is_none() && self.sums.len() >= ACCOUNTS {
            self.lost += sum.count;
            return;
        }
        let own = self.sums.of(key.account);
        let who = (key.pid, key.start, key.cgroup, key.device);
        if let Some(known) = own.get_mut(&who) {
            known.count = known.count.saturating_add(sum.count);
            known.first = known.first.min(sum.first);
            known.last = known.last.max(sum.last);
            return;
        }
        let oldest = || own.iter().min_by_key(|(_, sum)| sum.last).map(|(who, _)| *who);
        if own.len() >= OWN
            && let Some(oldest) = oldest().and_then(|oldest| own.remove(&oldest))
        {
            self.lost += oldest.count;
        }
        own.insert(who, sum.clone());
    }

    /// Counts refusals that were lost before they came here.
    pub(super) fn lose(&mut self, count: u64) {
        self.lost += count;
        self.changed |= count > 0;
    }

    /// Counts checks of devices that nobody saw.
    pub(super) fn miss(&mut self, count: u64) {
        self.missed += count;
        self.changed |= count > 0;
    }

    /// Whether something came since the last call.
    pub(super) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The refusals of the last hour.
    pub(super) fn refusals(&mut self, clock: &mut Clock) -> Refusals {
        let begin = now_ns().saturating_sub(HOUR);
        self.sums.retain(|_, own| {
            own.retain(|_, sum| sum.last >= begin);
            !own.is_empty()
        });
        let mut time = |at| Time::from(clock.time(at));
        let refused = self.sums.values().flatten().map(|((pid, start, cgroup, device), sum)| RefusedDevice {
            pid: *pid,
            start_time: start / TICK,
            uid: sum.uid,
            comm: sum.comm.as_slice().into(),
            cgroup: *cgroup,
            kind: device.kind,
            major: device.major,
            minor: device.minor,
            count: sum.count,
            first: time(sum.first),
            last: time(sum.last),
        });
        let refused = refused.collect();
        Refusals {
            at: time(now_ns()),
            since: time(self.since),
            refused,
            lost: self.lost,
            missed: self.missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceType, Request};

    fn key(account: u32, minor: u32) -> DenialKey {
        let device = Device { kind: DeviceType::Char, major: 195, minor };
        let (start, request) = (5 * TICK, Request::ReadWrite);
        DenialKey { start, cgroup: 77, pid: 31, account, device, request, error: -1 }
    }

    /// Make sure that requests of one device are one sum, that a user with too many loses the
    /// oldest of his own and nobody else's, that it is counted, and that nothing new is nothing.
    #[test]
    fn bounded() {
        let (mut kept, mut clock) = (Kept::new(), Clock::now());
        assert_eq!((kept.refusals(&mut clock).refused, kept.has_changed()), (vec![], true));
        let begin = now_ns();
        let sum = |at| DenialSum { first: begin + at, last: begin + at, count: 2, uid: 7, comm: b"a".into() };
        kept.add(&key(7, 0), &sum(0));
        kept.add(&DenialKey { request: Request::Mknod, ..key(7, 0) }, &sum(5));
        let taken = kept.refusals(&mut clock);
        let [one] = taken.refused.as_slice() else { panic!("{taken:?}") };
        assert_eq!((one.count, one.cgroup, one.start_time, taken.lost), (4, 77, 5, 0));
        assert!(kept.has_changed() && !kept.has_changed());
        (0..200).for_each(|minor| kept.add(&key(8, minor), &sum(u64::from(minor))));
        let taken = kept.refusals(&mut clock);
        assert_eq!((taken.refused.len(), taken.lost), (1 + OWN, 2 * (200 - OWN as u64)));
        assert!(taken.refused.iter().all(|one| one.minor == 0 || one.minor >= 200 - OWN as u32));
    }
}
