//! Takes a change back: with the same proof, and only while it is right.
//!
//! As long as the list of programs is the one that the change made, the old program
//! goes back into its place. Once it is another, it is never put back: systemd, for
//! one, has made its program anew by then and would never remove the old one. Then
//! gpumap's program is taken out of the list if no verdict in any cgroup depends on
//! it, and stays otherwise.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use super::error::ApplyError;
use super::place::{HeldCgroup, faster, is_it, program};
use super::prove::{self, count, decoded};
use super::state::{self, cgroup_of, level_of};
use super::store::{Store, kept, program_of};
use super::syslog;
use crate::model::{JournalState, ReplaceMode};
use crate::observation::{Observation, Text};
use crate::observe::{self, Options};
use crate::repair::{self, Swapped};
use crate::report::RepairJournal;

/// What an undo did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The old program is back in its place; cgroups that were compared.
    Back(usize),
    /// gpumap's program was taken away, which changed no verdict; cgroups that were
    /// compared.
    TakenAway(usize),
    /// There was nothing to undo, a sentence why.
    Nothing(String),
}

/// Undoes what the journal of this name tells of.
///
/// # Errors
///
/// Why it is not right (any more), or why the proof failed.
pub fn undo(options: &Options, name: &Path) -> Result<(RepairJournal, Undone), ApplyError> {
    let program = program_of(name).ok_or_else(|| ApplyError::Refused {
        why: format!("{} is no name of a journal", name.display()),
        needs: "gpumap repair --list names them",
    })?;
    let store = Store::open()?;
    let journal = store.read(program)?;
    let (state, because) = state::of(options, &journal);
    syslog::tell(&format!("undo of {} is asked for", journal.path));
    let undone = match state {
        JournalState::InForce => back(options, &store, &journal)?,
        JournalState::Overtaken => take_away(options, &store, &journal)?,
        JournalState::Gone | JournalState::NotInForce => Undone::Nothing(because),
        JournalState::Unknown => return Err(ApplyError::refused(because)),
    };
    store.forget(program);
    syslog::tell(&format!("undo of {}: {}", journal.path, said(&undone)));
    Ok((journal, undone))
}

fn said(undone: &Undone) -> String {
    match undone {
        Undone::Back(count) => format!("the old program is back; {count} cgroups are as planned"),
        Undone::TakenAway(count) => {
            format!("gpumap's program is taken away; {count} cgroups decide as before")
        }
        Undone::Nothing(why) => why.clone(),
    }
}

/// The old program goes back into its place.
fn back(options: &Options, store: &Store, journal: &RepairJournal) -> Result<Undone, ApplyError> {
    let (level, planned) = (level_of(journal), &journal.replacement);
    let place = HeldCgroup::open(options, &level, planned)?;
    let now = place.lists()?.own;
    let ours = program(journal.program, &journal.tag)?;
    let old = store.old(journal)?;
    is_it(&old, planned.program, &planned.tag)?;
    only_narrows(options, journal)?;
    let before = prove::look(options, &level)?;
    place
        .swap(ours.as_fd(), old.as_fd(), now.revision)
        .map_err(|error| faster(&place, journal.program, error))?;
    let after = prove::look(options, &level)?;
    let swapped =
        Swapped { level: &level, meant: Some(&level), old: journal.program, new: Some(planned.program) };
    let wrong = repair::differences(&before, &after, swapped);
    let wrong = wrong.into_iter().chain(prove::overlooked(options, &before, &after, &level));
    let wrong: Vec<String> = wrong.collect();
    if wrong.is_empty() {
        return Ok(Undone::Back(count(&after, &level)));
    }
    redo(options, &place, journal, (old.as_fd(), ours.as_fd()), &wrong.join("; "))
}

/// After an undo whose proof failed: gpumap's program goes back. Where another has
/// replaced the old program meanwhile, the undo is over, and nothing of gpumap's is left.
fn redo(
    options: &Options,
    place: &HeldCgroup<'_>,
    journal: &RepairJournal,
    (old, ours): (BorrowedFd<'_>, BorrowedFd<'_>),
    wrong: &str,
) -> Result<Undone, ApplyError> {
    let unproved = |why: &str| ApplyError::Unproved(format!("{wrong}; {why}; {}", kept(journal.program)));
    let lists = || place.lists().map_err(|error| unproved(&error.to_string()));
    let Err(error) = place.swap(old, ours, lists()?.own.revision) else {
        return Err(ApplyError::NotUndone(wrong.to_owned()));
    };
    if lists()?.own.ids.contains(&journal.replacement.program) {
        return Err(unproved(&error.to_string()));
    }
    match state::of(options, journal) {
        (state, because) if state::is_over(state) => {
            Ok(Undone::Nothing(format!("the old program was back, and another replaced it: {because}")))
        }
        (_, because) => Err(unproved(&because)),
    }
}

/// Makes sure that the old program is what the journal says, and allows nothing that
/// gpumap's denies: whatever a journal says, an undo gives nobody anything.
fn only_narrows(options: &Options, journal: &RepairJournal) -> Result<(), ApplyError> {
    let (old, ours) = (journal.replacement.program, journal.program);
    let seen = [observe::program(options, old)?, observe::program(options, ours)?];
    let both = Observation {
        programs: seen.iter().flat_map(|seen| seen.programs.clone()).collect(),
        maps: seen.iter().flat_map(|seen| seen.maps.clone()).collect(),
        host: seen[0].host.clone(),
        ..Observation::default()
    };
    let (mut decoder, old_policy) = decoded(&both, old)?;
    let context = crate::policy::Context {
        maps: &both.maps,
        cgroups: &[],
        cgroup_id: None,
        combination: crate::policy::Combination::of_host(&both.host),
    };
    let found = both.programs.iter().find(|program| program.id == ours);
    let ours_policy = found.and_then(|program| decoder.policy_anywhere(program, &context));
    let is_right = ours_policy.is_some_and(|ours_policy| {
        decoder.is_known(old_policy)
            && decoder.is_known(ours_policy)
            && decoder.id(old_policy) == journal.replacement.before
            && decoder.id(ours_policy) == journal.replacement.after
            && decoder.allows_no_more(old_policy, ours_policy)
    });
    if is_right {
        Ok(())
    } else {
        Err(ApplyError::refused(format!(
            "programs {old} and {ours} do not decide what {} says of them",
            journal.path
        )))
    }
}

/// gpumap's program goes out of the list, if that changes nothing.
fn take_away(options: &Options, store: &Store, journal: &RepairJournal) -> Result<Undone, ApplyError> {
    let level = level_of(journal);
    let _held = store;
    match detach(options, &level, journal)? {
        Ok(count) => Ok(Undone::TakenAway(count)),
        Err(why) => Err(ApplyError::refused(format!(
            "the programs of {} are not those that the repair left, so that the old one is not put back; and \
             gpumap's program stays, because {why}. What the owner writes at a new start of {} ends it",
            journal.replacement.attached_at,
            cgroup_of(journal).lossy()
        ))),
    }
}

/// Takes gpumap's program out of a list where no verdict depends on it. The inner
/// error says why it does not; then nothing was changed.
pub(super) fn detach(
    options: &Options,
    level: &Text,
    journal: &RepairJournal,
) -> Result<Result<usize, String>, ApplyError> {
    let planned = &journal.replacement;
    if planned.mode != ReplaceMode::Listed {
        return Ok(Err("it is not one of a list that it could be taken out of".to_owned()));
    }
    let place = HeldCgroup::open(options, level, planned)?;
    let revision = place.lists()?.own.revision;
    let before = prove::look(options, level)?;
    let swapped = Swapped { level, meant: None, old: journal.program, new: None };
    let changed = repair::changes(&before, swapped);
    if let Some(first) = changed.first() {
        return Ok(Err(format!("without it {first}")));
    }
    let ours = program(journal.program, &journal.tag)?;
    place.detach(ours.as_fd(), revision).map_err(|error| ApplyError::bpf("gpumap's program", error))?;
    let after = prove::look(options, level)?;
    let wrong = repair::differences(&before, &after, swapped);
    if wrong.is_empty() {
        Ok(Ok(count(&after, level)))
    } else {
        let wrong = wrong.join("; ");
        Err(ApplyError::Unproved(format!(
            "gpumap's program is taken away, and meanwhile others changed something: {wrong}"
        )))
    }
}
