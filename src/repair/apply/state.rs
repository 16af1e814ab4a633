//! Finds the state of each change: its journal says what was done, the kernel what is in
//! force now.

use super::error::ApplyError;
use super::place::HeldCgroup;
use super::store::{Store, journal_path};
use super::syslog;
use crate::model::JournalState;
use crate::observation::Text;
use crate::observe::{self, ObserveError, Options};
use crate::report::RepairJournal;

/// All journals with what became of each, and what could not be read, a sentence
/// each. Journals of changes that are over are removed, with the programs that they
/// keep.
///
/// # Errors
///
/// The directories cannot be used.
pub fn list(options: &Options) -> Result<(Vec<RepairJournal>, Vec<String>), ApplyError> {
    let store = Store::open()?;
    store.sweep();
    let (mut journals, mut unread) = (Vec::new(), Vec::new());
    for program in store.journals()? {
        match store.read(program) {
            Ok(journal) => {
                let (state, because) = of(options, &journal);
                if is_over(state) {
                    store.forget(program);
                }
                let path = journal_path(program);
                journals.push(RepairJournal { state: Some(state), because: Some(because), path, ..journal });
            }
            Err(error) => unread.push(error.to_string()),
        }
    }
    Ok((journals, unread))
}

/// Removes journals of changes that are over, and old programs without a journal.
pub(super) fn tidy(options: &Options, store: &Store) {
    store.sweep();
    // What cannot be read stays, and `repair --list` tells it.
    let Ok(programs) = store.journals() else { return };
    for program in programs {
        // It stays, and `repair --list` tells it.
        let Ok(journal) = store.read(program) else { continue };
        let (state, because) = of(options, &journal);
        if is_over(state) {
            syslog::tell(&format!("{} is over: {because}", journal.path));
            store.forget(program);
        }
    }
}

/// Whether nothing of gpumap's is left to undo.
pub(super) fn is_over(state: JournalState) -> bool {
    matches!(state, JournalState::Gone | JournalState::NotInForce)
}

/// What became of a change, and a sentence why.
pub(super) fn of(options: &Options, journal: &RepairJournal) -> (JournalState, String) {
    let boot = match observe::this_boot(options) {
        Ok(boot) => boot,
        Err((path, errno)) => {
            let why = format!("which boot this is cannot be read: {}: {}", path.display(), errno.desc());
            return (JournalState::Unknown, why);
        }
    };
    if boot.is_empty() || journal.boot_id != boot {
        return (JournalState::Unknown, format!("{} is of another boot", journal.path));
    }
    let planned = &journal.replacement;
    let (level, at) = (level_of(journal), &planned.attached_at);
    let place = match observe::open_cgroup(options, &level, planned.attached_at_id) {
        Ok(_) => HeldCgroup::open(options, &level, planned),
        Err(ObserveError::NoSuchCgroup { .. }) => {
            return (JournalState::Gone, format!("the cgroup {at} is gone, and the programs with it"));
        }
        Err(error) => Err(ApplyError::from(error)),
    };
    let lists = place.and_then(|place| place.lists().map(|lists| (place.with(journal.program), lists)));
    let (left, now) = match lists {
        Ok((left, lists)) => (left, lists.own),
        Err(error) => return (JournalState::Unknown, error.to_string()),
    };
    if !now.ids.contains(&journal.program) {
        let why =
            format!("the programs of {at} are {:?}: gpumap's {} is not there", now.ids, journal.program);
        (JournalState::NotInForce, why)
    } else if now.ids == left {
        (JournalState::InForce, format!("program {} is in the place of {}", journal.program, planned.program))
    } else {
        let why = format!(
            "the programs of {at} were {left:?} after the repair and are {:?}: others changed them, as \
             systemd does at a reload",
            now.ids
        );
        (JournalState::Overtaken, why)
    }
}

/// The cgroup that the old program was attached to.
pub(super) fn level_of(journal: &RepairJournal) -> Text {
    text(&journal.replacement.attached_at, journal.replacement.attached_at_hex.as_deref())
}

/// The cgroup that was repaired.
pub(super) fn cgroup_of(journal: &RepairJournal) -> Text {
    text(&journal.cgroup, journal.cgroup_hex.as_deref())
}

/// A path from its text, or from its bytes where it is no text.
fn text(lossy: &str, hex: Option<&str>) -> Text {
    let Some(hex) = hex else { return lossy.into() };
    let digits: Vec<u32> = hex.chars().map_while(|digit| digit.to_digit(16)).collect();
    let byte = |pair: &[u32]| u8::try_from(pair.iter().fold(0, |sum, digit| sum << 4 | digit)).unwrap_or(0);
    Text::from(digits.chunks(2).map(byte).collect::<Vec<u8>>())
}
