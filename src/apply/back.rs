//! After a change whose proof failed.

use std::os::fd::{AsFd as _, OwnedFd};

use super::away::detach;
use super::error::ApplyError;
use super::place::HeldCgroup;
use super::store::{Store, kept};
use super::syslog;
use crate::observe::Options;
use crate::repair::PlannedSwap;

/// After a change whose proof failed: the old program goes back, or gpumap's goes
/// away where another list was made meanwhile. The error says what came of it.
pub(super) fn put_back(
    options: &Options,
    store: &Store,
    place: &HeldCgroup<'_>,
    change: &PlannedSwap,
    (new, id): (&OwnedFd, u32),
    old: &OwnedFd,
    wrong: &[String],
) -> ApplyError {
    let wrong = wrong.join("; ");
    let outcome = match place.lists() {
        Ok(now) if now.own.ids == place.with(id) => {
            place.swap(new.as_fd(), old.as_fd(), now.own.revision).map_err(|error| error.to_string())
        }
        Ok(now) if !now.own.ids.contains(&id) => Ok(()),
        Ok(_) => match store.read(id).and_then(|journal| detach(options, &change.level, &journal)) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(why)) => Err(why),
            Err(error) => Err(error.to_string()),
        },
        Err(error) => Err(error.to_string()),
    };
    let error = match outcome {
        Ok(()) => {
            store.forget(id);
            ApplyError::PutBack(wrong)
        }
        Err(why) => ApplyError::Left(format!("{wrong}; {why}; {}", kept(id))),
    };
    syslog::tell(&error.to_string());
    error
}
