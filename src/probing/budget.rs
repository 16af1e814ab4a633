//! What each user may cost: files, descriptors, and time. One that uses up its
//! own leaves that of the others alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::quota::{Full, PerAccount, Quota, Recovering};

/// Files that are known at a time: of one user, and of all.
const FILES: usize = 1024;
const ALL_FILES: usize = 16_384;
/// Descriptors that attachments take, of all: at most this many, and at most
/// half of what this process may have. Of one user a quarter of that.
const DESCRIPTORS: usize = 16_384;
/// Time that looking at the files of one user may take: saved up to the first,
/// and nanoseconds that come back in a second, a tenth of it.
const TIME: Duration = Duration::from_secs(2);
const BACK: u64 = 100_000_000;

/// Who needs no budget of time: root, outside of every user namespace.
const ROOT: u32 = 0;

/// What was used so far.
#[derive(Debug)]
pub(super) struct Budgets {
    users: PerAccount<u32, User>,
    files: Quota<u32>,
    /// Descriptors in use; those that are being closed count.
    descriptors: Arc<AtomicUsize>,
    most: usize,
}

/// What one user uses besides files: descriptors, and nanoseconds.
#[derive(Debug, Default)]
struct User {
    descriptors: usize,
    time: Recovering,
}

impl Budgets {
    /// Nothing is used. As many descriptors as root allows are asked for.
    pub(super) fn new() -> Self {
        // With fewer descriptors fewer probes fit, and each that does not is told.
        let (mut soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        // With fewer descriptors fewer probes fit, and each that does not is told.
        if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
            soft = hard;
        }
        let half = usize::try_from(soft / 2).unwrap_or(usize::MAX);
        let (users, files) = (PerAccount::default(), Quota::new(FILES, ALL_FILES));
        Self { users, files, descriptors: Arc::default(), most: half.min(DESCRIPTORS) }
    }

    /// The number of descriptors, for who closes them.
    pub(super) fn descriptors(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.descriptors)
    }

    /// Whether one more file may be looked at for a user.
    ///
    /// # Errors
    ///
    /// Which budget is used up.
    pub(super) fn allows(&mut self, uid: u32, now: Instant) -> Result<(), String> {
        self.has_time(uid, now)?;
        let room = self.files.room(&uid, 1);
        if room == Err(Full::Own) {
            return Err(format!("{FILES} files of user {uid} are watched already, which is the limit"));
        }
        let (descriptors, most) = (self.users.of(uid).descriptors, self.most / 4);
        if descriptors >= most {
            return Err(format!("the files of user {uid} take {descriptors} probes, of {most} for one user"));
        }
        // That of all: its own was looked at above.
        if room.is_err() || self.descriptors.load(Ordering::Relaxed) >= self.most {
            return Err("more files are watched already than gpumap can".to_owned());
        }
        Ok(())
    }

    /// Whether there is time left for a user. Root has as much as it takes: on a busy
    /// machine looks take long through nobody's fault, and most files are root's.
    ///
    /// # Errors
    ///
    /// That it is used up.
    pub(super) fn has_time(&mut self, uid: u32, now: Instant) -> Result<(), String> {
        if uid == ROOT {
            return Ok(());
        }
        let used = self.users.of(uid).time.used(now, BACK);
        let over = "the time for looking at the files of user";
        if Duration::from_nanos(used) < TIME {
            Ok(())
        } else {
            Err(format!("{over} {uid} is used up (a tenth of all time)"))
        }
    }

    /// Time was spent for a user.
    pub(super) fn spend(&mut self, uid: u32, time: Duration, now: Instant) {
        let user = self.users.of(uid);
        user.time.used(now, BACK);
        user.time.spend(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// A file is known for a user, or is so no longer.
    pub(super) fn file(&mut self, uid: u32, more: bool) {
        if more {
            self.files.add(uid, 1);
        } else {
            self.files.give_back(uid, 1);
        }
    }

    /// Descriptors were opened for a user.
    pub(super) fn opened(&mut self, uid: u32, count: usize) {
        self.users.of(uid).descriptors += count;
        self.descriptors.fetch_add(count, Ordering::Relaxed);
    }

    /// Descriptors of a user were given away to be closed.
    pub(super) fn closed(&mut self, uid: u32, count: usize) {
        let user = self.users.of(uid);
        user.descriptors = user.descriptors.saturating_sub(count);
    }

    /// Forgets users who use nothing.
    pub(super) fn tidy(&mut self, now: Instant) {
        self.users.retain(|_, user| user.descriptors > 0 || user.time.used(now, BACK) > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that one user's use ends that user's, and that time comes back.
    #[test]
    fn apart() {
        let (mut budgets, now) = (Budgets::new(), Instant::now());
        for _ in 0..FILES {
            budgets.allows(7, now).unwrap();
            budgets.file(7, true);
        }
        assert!(budgets.allows(7, now).unwrap_err().contains("user 7"));
        budgets.allows(8, now).unwrap();
        budgets.file(7, false);
        budgets.allows(7, now).unwrap();
        budgets.spend(8, TIME, now);
        budgets.spend(ROOT, TIME * 2, now);
        assert!(budgets.allows(8, now).unwrap_err().contains("time"));
        budgets.allows(ROOT, now).unwrap();
        assert!(budgets.allows(8, now + Duration::from_secs(1)).is_ok());
        budgets.opened(9, budgets.most / 4);
        assert!(budgets.allows(9, now).unwrap_err().contains("probes"));
        budgets.closed(9, budgets.most / 4);
        let later = now + TIME * 20;
        budgets.tidy(later);
        assert!(budgets.users.len() <= 2, "nobody is kept but who uses something");
    }
}
