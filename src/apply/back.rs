//! Puts the old program back after a change whose proof failed.

use std::os::fd::{AsFd as _, OwnedFd};

use super::away::detach;
use super::error::ApplyError;
use super::place::HeldCgroup;
use super::store::{Store, kept};
use super::syslog;
use crate::observe::{self, Options};
use crate::repair::PlannedSwap;

/// After a change whose proof failed: the old program goes back, or gpumap's goes
/// away where another list was made meanwhile. The error says what came of it, and
/// who was faster.
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
            match place.swap(new.as_fd(), old.as_fd(), now.own.revision) {
                Ok(()) => Ok(ApplyError::PutBack(wrong.clone())),
                // Once more looked, and never once more tried.
                Err(error) => replaced(options, place, id, &wrong, &error.to_string()),
            }
        }
        Ok(now) if now.own.ids.contains(&id) => take_away(options, store, place, change, id, &wrong),
        Ok(_) => replaced(options, place, id, &wrong, "the list changes all the time"),
        Err(error) => Err(error.to_string()),
    };
    let error = match outcome {
        Ok(error) => {
            store.forget(id);
            error
        }
        Err(why) => ApplyError::Left(format!("{wrong}; {why}; {}", kept(id))),
    };
    syslog::tell(&error.to_string());
    error
}

/// Somebody else's program is in the place of gpumap's: nothing is left to take back.
/// Where gpumap's is there, it could not be taken back: `else_why`.
fn replaced(
    options: &Options,
    place: &HeldCgroup<'_>,
    ours: u32,
    wrong: &str,
    else_why: &str,
) -> Result<ApplyError, String> {
    let now = place.lists().map_err(|error| format!("{else_why}; {error}"))?;
    if now.own.ids.contains(&ours) {
        return Err(else_why.to_owned());
    }
    let others = strangers(options, place, ours, &now.own.ids);
    Ok(ApplyError::Replaced(format!("the list has {others} and not gpumap's {ours}; {wrong}")))
}

/// Others attached a program beside gpumap's.
fn take_away(
    options: &Options,
    store: &Store,
    place: &HeldCgroup<'_>,
    change: &PlannedSwap,
    ours: u32,
    wrong: &str,
) -> Result<ApplyError, String> {
    let now = place.lists().map_err(|error| error.to_string())?;
    let others = strangers(options, place, ours, &now.own.ids);
    match store.read(ours).and_then(|journal| detach(options, &change.level, &journal)) {
        Ok(Ok(_)) => Ok(ApplyError::TakenAway(format!("meanwhile the list has {others}; {wrong}"))),
        Ok(Err(why)) => {
            Err(format!("meanwhile the list has {others}; gpumap's program stays, because {why}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// The programs of a list that are neither planned nor gpumap's, with who loaded them.
fn strangers(options: &Options, place: &HeldCgroup<'_>, ours: u32, now: &[u32]) -> String {
    let known = place.with(ours);
    let strange = now.iter().filter(|id| !known.contains(id));
    let strange: Vec<String> = strange.map(|id| described(options, *id)).collect();
    if strange.is_empty() { format!("the programs {now:?}") } else { strange.join(" and ") }
}

/// A program with its name, its loader and its time.
fn described(options: &Options, id: u32) -> String {
    let seen = match observe::program(options, id) {
        Ok(seen) => seen,
        Err(error) => return format!("program {id} (of which nothing is known: {error})"),
    };
    let found = seen.programs.iter().find(|program| program.id == id);
    let Some(program) = found else { return format!("program {id}") };
    let name = program.name.lossy();
    let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
    format!("program {id}{name}, loaded by uid {} at {}", program.uid, program.loaded_at)
}
