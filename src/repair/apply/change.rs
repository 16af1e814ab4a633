//! Replaces one program by another, proves the result, and puts the old program back
//! where the proof fails.

use std::os::fd::{AsFd as _, OwnedFd};

use super::error::ApplyError;
use super::place::{HeldCgroup, ProgramLists, faster, program};
use super::prove::{self, AskedFromInside, count, decoded};
use super::store::{SCHEMA, Store, journal_path, kept, pin_path};
use super::undo::detach;
use super::{state, syslog};
use crate::observation::Observation;
use crate::observe::{self, Options};
use crate::repair::{self, PlannedSwap, Swapped};
use crate::report::{Applied, RepairJournal};
use crate::sys::absence::OrAbsent as _;
use crate::sys::bpf;
use crate::sys::retry::again;

/// The name of gpumap's programs.
const NAME: &str = "gpumap_repair";

/// Carries out a change that was planned from `before`.
///
/// The old program stays loaded and a journal is written before anything changes.
/// The change itself is one system call. If the proof afterwards fails, the old
/// program goes back.
///
/// # Errors
///
/// Why nothing was changed, or why it was taken back.
pub fn apply(options: &Options, before: &Observation, change: &PlannedSwap) -> Result<Applied, ApplyError> {
    let store = Store::open()?;
    state::tidy(options, &store);
    let boot = boot(options)?;
    let planned = &change.replacement;
    let place = HeldCgroup::open(options, &change.level, planned)?;
    let revision = unchanged(&place, change)?;
    let old = program(planned.program, &planned.tag)?;
    let new = load(options, change)?;
    let journal = journal(boot, change, &new, revision);
    store.keep(&journal, old.as_fd())?;
    let at = &planned.attached_at;
    syslog::tell(&format!(
        "program {} at {at} is about to be replaced by {}: {} (journal {})",
        planned.program,
        new.id,
        change.why,
        journal_path(new.id)
    ));
    if let Err(error) = place.swap(old.as_fd(), new.fd.as_fd(), revision) {
        store.forget(new.id);
        let error = faster(&place, planned.program, error);
        syslog::tell(&error.to_string());
        return Err(error);
    }
    syslog::tell(&format!("program {} at {at} was replaced by {}", planned.program, new.id));
    match proved(options, before, change, new.id) {
        Ok((compared, asked)) => {
            syslog::tell(&format!(
                "{compared} cgroups at and below {at} are as planned; {} answers of the kernel agree",
                asked.agreed
            ));
            let journal = journal_path(new.id);
            Ok(Applied {
                program: new.id,
                undo: format!("gpumap repair --undo {journal}"),
                journal,
                compared,
                asked: asked.agreed,
                not_asked: asked.not_asked,
            })
        }
        Err(wrong) => {
            let new = (&new.fd, new.id);
            Err(put_back(options, &store, &place, change, new, &old, &wrong))
        }
    }
}

/// A program of gpumap's own.
struct New {
    fd: OwnedFd,
    id: u32,
    tag: String,
}

/// The boot that this is. A journal without it is of no boot: the change could not be undone.
fn boot(options: &Options) -> Result<String, ApplyError> {
    match observe::this_boot(options) {
        Ok(boot) if boot.is_empty() => Err(ApplyError::refused("the kernel does not say which boot this is")),
        Ok(boot) => Ok(boot),
        Err((path, errno)) => Err(ApplyError::file(&path.to_string_lossy(), errno)),
    }
}

/// Makes sure that the kernel lists what the plan rests on; the revision of the list.
fn unchanged(place: &HeldCgroup<'_>, change: &PlannedSwap) -> Result<u64, ApplyError> {
    let planned = &change.replacement;
    let ProgramLists { own, effective } = place.lists()?;
    if own.ids != planned.own || effective != change.effective || !place.has_flags(&own) {
        return Err(ApplyError::refused(format!(
            "the programs of {} changed since the plan was made: they were {:?} and are {:?}; ask again",
            planned.attached_at, planned.own, own.ids
        )));
    }
    Ok(own.revision)
}

/// Loads the new program, reads it back, and makes sure that it decides what was
/// planned.
fn load(options: &Options, change: &PlannedSwap) -> Result<New, ApplyError> {
    let fd = bpf::load_device(NAME, &change.code);
    let fd = fd.map_err(|error| ApplyError::bpf("the new program", error))?;
    let info = bpf::program_info(fd.as_fd());
    let id = info.map_err(|error| ApplyError::bpf("the new program", error))?.id;
    let seen = observe::program(options, id)?;
    let (mut decoder, found) = decoded(&seen, id)?;
    if !decoder.is_known(found) || decoder.id(found) != change.replacement.after {
        return Err(ApplyError::refused(
            "the new program, read back from the kernel, does not decide what was planned",
        ));
    }
    let tag = seen.programs.iter().find(|program| program.id == id).map(|program| program.tag.clone());
    Ok(New { fd, id, tag: tag.unwrap_or_default() })
}

fn journal(boot_id: String, change: &PlannedSwap, new: &New, revision: u64) -> RepairJournal {
    RepairJournal {
        schema: SCHEMA.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: observe::now(),
        boot_id,
        cgroup: change.cgroup.lossy().into_owned(),
        cgroup_hex: change.cgroup.hex(),
        cgroup_id: change.cgroup_id,
        who: who(),
        why: change.why.clone(),
        replacement: change.replacement.clone(),
        program: new.id,
        tag: new.tag.clone(),
        revision,
        pin: pin_path(new.id),
        ..RepairJournal::default()
    }
}

/// Who runs gpumap: uid, the uid of the login (`/proc/self/loginuid`), pid.
fn who() -> String {
    let login = again(|| std::fs::read_to_string("/proc/self/loginuid")).or_absent();
    // -1 is no login; a kernel without audit has none.
    let login = match login.map(|text| text.map(|text| text.trim().parse::<u32>())) {
        Ok(Some(Ok(uid))) if uid != u32::MAX => format!(", logged in as uid {uid}"),
        Ok(Some(Ok(_)) | None) => String::new(),
        // The journal says so.
        Ok(Some(Err(_))) | Err(_) => ", logged in as nobody knows whom".to_owned(),
    };
    format!("uid {}{login}, pid {}", nix::unistd::getuid(), std::process::id())
}

/// Compares everything with the plan, and asks the kernel; how many cgroups were
/// compared, or what is wrong.
fn proved(
    options: &Options,
    before: &Observation,
    change: &PlannedSwap,
    new: u32,
) -> Result<(usize, AskedFromInside), Vec<String>> {
    let mut now = prove::look(options, &change.level).map_err(|error| vec![error.to_string()])?;
    let swapped = Swapped {
        level: &change.level,
        meant: Some(&change.meant),
        old: change.replacement.program,
        new: Some(new),
    };
    let wrong = repair::differences(before, &now, swapped);
    let wrong = wrong.into_iter().chain(prove::overlooked(options, before, &now, &change.level));
    let wrong: Vec<String> = wrong.collect();
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let asked = prove::ask(options, &mut now, &change.meant, &change.replacement.adds);
    if asked.contradictions.is_empty() {
        Ok((count(&now, &change.level), asked))
    } else {
        Err(asked.contradictions)
    }
}

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
