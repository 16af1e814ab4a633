//! The cgroup that a program is attached to.

use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use super::error::ApplyError;
use crate::model::{AttachFlag, ReplaceMode};
use crate::observation::Text;
use crate::observe::{self, Options};
use crate::report::Replacement;
use crate::sys::bpf::{self, BpfError, ListKind, Query, Swap};
use crate::sys::dir::Dir;

/// `BPF_F_ALLOW_OVERRIDE` and `BPF_F_ALLOW_MULTI` (`linux/bpf.h`).
const OVERRIDE: u32 = 1;
const MULTI: u32 = 2;

/// A cgroup, held open, and how programs are replaced on it.
pub(super) struct HeldCgroup<'a> {
    dir: Dir,
    planned: &'a Replacement,
}

/// What is attached to the cgroup, and what is in force there.
pub(super) struct ProgramLists {
    pub(super) own: Query,
    pub(super) effective: Vec<u32>,
}

impl<'a> HeldCgroup<'a> {
    /// Opens the cgroup of a replacement, if it is still the same.
    pub(super) fn open(options: &Options, path: &Text, planned: &'a Replacement) -> Result<Self, ApplyError> {
        let dir = observe::open_cgroup(options, path, planned.attached_at_id)?;
        Ok(Self { dir, planned })
    }

    /// What the kernel lists now.
    pub(super) fn lists(&self) -> Result<ProgramLists, ApplyError> {
        let ask = |kind| {
            let answer = bpf::query(self.dir.as_fd(), kind);
            answer.map_err(|error| ApplyError::bpf(&self.planned.attached_at, error))
        };
        let effective = ask(ListKind::Effective)?.ids;
        // Last, so that its revision is that of what is compared.
        Ok(ProgramLists { own: ask(ListKind::Own)?, effective })
    }

    /// The list that the cgroup has while `program` is in the place of the old one.
    pub(super) fn with(&self, program: u32) -> Vec<u32> {
        let swap = |id: &u32| if *id == self.planned.program { program } else { *id };
        self.planned.own.iter().map(swap).collect()
    }

    /// Whether these are the flags that the plan rests on.
    pub(super) fn has_flags(&self, own: &Query) -> bool {
        let planned = |flag| self.planned.flags.contains(&flag);
        (own.attach_flags & MULTI != 0) == planned(AttachFlag::Multi)
            && (own.attach_flags & OVERRIDE != 0) == planned(AttachFlag::Override)
    }

    /// Puts one program in the place of the other, in one system call.
    pub(super) fn swap(
        &self,
        old: BorrowedFd<'_>,
        new: BorrowedFd<'_>,
        revision: u64,
    ) -> Result<(), SwapError> {
        let dir = self.dir.as_fd();
        match self.planned.mode {
            ReplaceMode::Listed => {
                let preorder = self.planned.preorder == Some(true);
                bpf::swap_device(dir, old, new, Swap::Listed { preorder, revision })?;
            }
            ReplaceMode::Sole => {
                let revision = NonZeroU64::new(revision).ok_or(SwapError::NothingToCompare)?;
                let may_override = self.planned.flags.contains(&AttachFlag::Override);
                bpf::swap_device(dir, old, new, Swap::Sole { may_override, revision })?;
            }
            ReplaceMode::Link => {
                let id = self.planned.link.unwrap_or_default();
                // The descriptor keeps the link alive: it is closed at once.
                let link = bpf::link_by_id(id)?;
                let info = bpf::link_info(link.as_fd())?;
                let is_it = info.is_some_and(|info| info.cgroup == self.planned.attached_at_id);
                if !is_it {
                    return Err(SwapError::OtherLink(id));
                }
                bpf::swap_device(dir, old, new, Swap::Link(link.as_fd()))?;
            }
        }
        Ok(())
    }

    /// Takes a program out of the list.
    pub(super) fn detach(&self, program: BorrowedFd<'_>, revision: u64) -> Result<(), BpfError> {
        bpf::detach_device(self.dir.as_fd(), program, revision)
    }
}

/// Why two programs were not swapped: nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SwapError {
    /// The kernel refused.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The kernel cannot be made to compare.
    #[error(
        "it is the cgroup's only program without BPF_F_ALLOW_MULTI, and this kernel cannot compare it while \
         it is replaced: another program that came meanwhile would be lost (Linux 6.17 compares, and 6.12 of \
         Debian 13)"
    )]
    NothingToCompare,
    /// The link is another's now.
    #[error("link {0} is on another cgroup")]
    OtherLink(u32),
}

/// Opens a program by id and makes sure that it is the one that was planned with.
pub(super) fn program(id: u32, tag: &str) -> Result<OwnedFd, ApplyError> {
    let what = format!("program {id}");
    let program = bpf::program_by_id(id).map_err(|error| ApplyError::bpf(&what, error))?;
    is_it(&program, id, tag)?;
    Ok(program)
}

/// Makes sure that a descriptor is that of a device program of this id and tag.
pub(super) fn is_it(program: &OwnedFd, id: u32, tag: &str) -> Result<(), ApplyError> {
    let info = bpf::program_info(program.as_fd());
    let info = info.map_err(|error| ApplyError::bpf(&format!("program {id}"), error))?;
    let found: String = info.tag.iter().map(|byte| format!("{byte:02x}")).collect();
    if info.kind == bpf::CGROUP_DEVICE_PROGRAM && info.id == id && found == tag {
        Ok(())
    } else {
        Err(ApplyError::refused(format!(
            "descriptor {} is not program {id} with the tag {tag}, but program {} with the tag {found}",
            program.as_raw_fd(),
            info.id
        )))
    }
}

/// Says who was faster, where the kernel refused because something else is there.
pub(super) fn faster(place: &HeldCgroup<'_>, program: u32, error: SwapError) -> ApplyError {
    let now = match place.lists() {
        Ok(now) if now.own.ids.contains(&program) => {
            format!("program {program} is still there, in the list {:?}", now.own.ids)
        }
        Ok(now) => {
            format!("another was faster: the list is {:?} now, without program {program}", now.own.ids)
        }
        Err(error) => format!("the list cannot be asked any more ({error})"),
    };
    let at = match error {
        SwapError::Bpf(error) => ApplyError::bpf(&format!("program {program}"), error),
        other => ApplyError::refused(format!("program {program}: {other}")),
    };
    match at {
        ApplyError::Refused { why, needs } => ApplyError::Refused { why: format!("{why}; {now}"), needs },
        other => other,
    }
}
