//! Plans the stop-gap: a program in the place of the one that denies, which allows exactly
//! the same and what is missing. gpumap carries it out with `--apply`.

use super::{owners, systemd};
use crate::analyse::{self, ProgramInForce};
use crate::model::{AttachFlag, CgroupPath, Owner, OwnerKind, ReplaceMode, Writer};
use crate::observation::{Attached, Observation, Text};
use crate::policy::{Decoder, Policy};
use crate::report::{ListedRule, Replacement};

/// What `--apply` carries out.
#[derive(Clone, Debug)]
pub struct PlannedSwap {
    /// The replacement as it was planned.
    pub replacement: Replacement,
    /// The cgroup that the old program is attached to.
    pub level: Text,
    /// The cgroup that is repaired.
    pub cgroup: Text,
    /// Its id.
    pub cgroup_id: u64,
    /// The cgroup whose processes, and those below, may gain: the repaired one or
    /// that of `--at`.
    pub meant: Text,
    /// The programs in force on the cgroup of the old program, in run order.
    pub effective: Vec<u32>,
    /// The new program's instructions.
    pub code: Vec<u8>,
    /// What says that it should be so, with its age.
    pub why: String,
}

/// What a replacement is made of.
pub(super) struct Wish<'a> {
    pub(super) observation: &'a Observation,
    /// The cgroup that is repaired.
    pub(super) cgroup: &'a Text,
    /// The cgroup that may gain.
    pub(super) meant: &'a Text,
    /// The program that denies.
    pub(super) program: &'a ProgramInForce,
    pub(super) owner: Option<&'a Owner>,
    /// Where the program is attached.
    pub(super) level: &'a Text,
    /// What is missing, as rules.
    pub(super) adds: Vec<ListedRule>,
    /// What the new program decides.
    pub(super) target: Policy,
    /// Words of the command line that say what should be allowed.
    pub(super) words: &'a [String],
    pub(super) why: String,
}

/// The change.
///
/// # Errors
///
/// Why gpumap will not put a program there, a sentence.
pub(super) fn change(wish: Wish<'_>, decoder: &mut Decoder) -> Result<PlannedSwap, String> {
    refuse_owner(wish.program, wish.owner)?;
    let id = wish.program.place.id;
    let observation = wish.observation;
    let cgroup = |path: &Text| observation.cgroups.iter().find(|cgroup| cgroup.path == *path);
    let level = cgroup(wish.level).ok_or_else(|| format!("{} was not seen", wish.level.lossy()))?;
    let own = level.own.known().ok_or_else(|| format!("the list of {} is not known", wish.level.lossy()))?;
    refuse_twice(observation, id, wish.level)?;
    let found = observation.programs.iter().find(|program| program.id == id);
    let found = found.ok_or_else(|| format!("program {id} was not seen"))?;
    if found.replaced_by.known().is_none_or(|by| !by.is_empty()) {
        return Err(format!("functions of program {id} may be replaced by others: it is not known exactly"));
    }
    let (mode, preorder) = mode(observation, wish.level, own, id)?;
    let program = analyse::compiled(decoder, wish.target).map_err(|error| error.to_string())?;
    let code = program.xlated.known().map(|code| code.0.clone()).unwrap_or_default();
    let flags = flags(mode, own, preorder);
    let (lasts, undone_by) = life(wish.program, wish.owner);
    let replacement = Replacement {
        attached_at: wish.level.lossy().into_owned(),
        attached_at_hex: wish.level.hex(),
        attached_at_id: level.id,
        program: id,
        tag: found.tag.clone(),
        mode,
        flags,
        link: own.links.get(&id).copied(),
        preorder,
        own: own.programs.clone(),
        before: decoder.id(wish.program.policy),
        after: decoder.id(wish.target),
        adds: wish.adds,
        insns: code.len() / 8,
        line: line(wish.cgroup, wish.words),
        lasts,
        undone_by,
    };
    Ok(PlannedSwap {
        replacement,
        level: wish.level.clone(),
        cgroup: wish.cgroup.clone(),
        cgroup_id: cgroup(wish.cgroup).map(|cgroup| cgroup.id).unwrap_or_default(),
        meant: wish.meant.clone(),
        effective: level.effective.known().cloned().unwrap_or_default(),
        code,
        why: wish.why,
    })
}

/// `BPF_F_ALLOW_OVERRIDE` and `BPF_F_ALLOW_MULTI` (`linux/bpf.h`).
const OVERRIDE: u32 = 1;

const MULTI: u32 = 2;

/// How the kernel replaces the program, and whether it is preorder.
fn mode(
    observation: &Observation,
    level: &Text,
    own: &Attached,
    id: u32,
) -> Result<(ReplaceMode, Option<bool>), String> {
    if !own.programs.contains(&id) {
        return Err(format!("program {id} is not in the list of {}", level.lossy()));
    }
    if let Some(why) = &own.links_unknown {
        return Err(format!("it is not known whether a link holds program {id}: {why}"));
    }
    if own.links.contains_key(&id) {
        return Ok((ReplaceMode::Link, analyse::is_preorder(observation, level, id)?));
    }
    if own.flags & MULTI != 0 {
        return Ok((ReplaceMode::Listed, analyse::is_preorder(observation, level, id)?));
    }
    match own.programs.as_slice() {
        [_] => Ok((ReplaceMode::Sole, Some(false))),
        _ => Err(format!("{} has several programs and no flag that allows them", level.lossy())),
    }
}

fn flags(mode: ReplaceMode, own: &Attached, preorder: Option<bool>) -> Vec<AttachFlag> {
    let mut flags = Vec::new();
    if own.flags & OVERRIDE != 0 {
        flags.push(AttachFlag::Override);
    }
    if own.flags & MULTI != 0 {
        flags.push(AttachFlag::Multi);
    }
    if preorder == Some(true) {
        flags.push(AttachFlag::Preorder);
    }
    if mode == ReplaceMode::Link {
        flags.push(AttachFlag::Link);
    }
    flags
}

/// Refuses programs that their owners keep track of: they write them by their own
/// maps and records, or fail where another one is in its place.
fn refuse_owner(program: &ProgramInForce, owner: Option<&Owner>) -> Result<(), String> {
    let by_writer = matches!(
        program.writer,
        Some(Writer::Libvirt | Writer::Lxc | Writer::Htcondor | Writer::Crane | Writer::Oar)
    ) || owners::has_schedulers_name(program);
    let kinds = std::iter::successors(owner, |owner| owner.outer.as_deref()).map(|owner| &owner.kind);
    let by_owner =
        |kind: &OwnerKind| matches!(kind, OwnerKind::Libvirt | OwnerKind::Lxc) || kind.has_recorded_limits();
    if by_writer || kinds.into_iter().any(by_owner) {
        return Err(owners::advice(program, owner));
    }
    Ok(())
}

/// Refuses a program that is attached in several places: the lists of programs in
/// force do not say which of them counts.
fn refuse_twice(observation: &Observation, id: u32, level: &Text) -> Result<(), String> {
    let other = observation.cgroups.iter().find(|cgroup| {
        cgroup.path != *level && cgroup.own.known().is_some_and(|own| own.programs.contains(&id))
    });
    match other {
        Some(other) => {
            Err(format!("program {id} is attached to {} and to {}", level.lossy(), other.path.lossy()))
        }
        None => Ok(()),
    }
}

/// How long it lasts, and what undoes it.
fn life(program: &ProgramInForce, owner: Option<&Owner>) -> (String, String) {
    let at = &program.place.attached_at;
    let (lasts, undone_by) = match (&program.writer, owner.map(|owner| &owner.kind)) {
        (Some(Writer::Systemd), _) => (
            "until systemd makes its program again: at the next daemon-reload, daemon-reexec or change of a \
             property of the unit",
            "the same, because systemd adds a program of its own beside this one, which denies again; gpumap \
             repair --list tells it then, and --undo takes this one away",
        ),
        (_, Some(OwnerKind::Slurm)) => (
            "until Slurm attaches its program again, as it does to the job's cgroup for each new step",
            "a new step, and the end of the step or job",
        ),
        (Some(Writer::Crun | Writer::OldCrun), _) => (
            "until crun writes its program again, as crun update does",
            "crun update, and a new start of the container",
        ),
        _ => ("as long as the cgroup", "a new start of the container, and whoever writes the program again"),
    };
    (lasts.to_owned(), format!("{undone_by} ({at})"))
}

/// The command line that carries it out.
fn line(cgroup: &Text, words: &[String]) -> Option<String> {
    let path = std::str::from_utf8(cgroup.as_bytes()).ok()?;
    if path.chars().any(char::is_control) {
        return None;
    }
    let start = ["gpumap", "repair", "--cgroup", path].map(str::to_owned);
    let end = ["--direct", "--apply"].map(str::to_owned);
    let all: Vec<String> = start.into_iter().chain(words.iter().cloned()).chain(end).collect();
    Some(systemd::shell_line(&all))
}

/// Whether a cgroup is the other or around it.
pub(super) fn is_around(outer: &Text, inner: &Text) -> bool {
    CgroupPath::new(inner).is_at_or_below(CgroupPath::new(outer))
}
