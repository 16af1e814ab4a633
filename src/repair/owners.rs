//! Limits that are somebody's: what to do about a program that is not systemd's, whose
//! owner writes it again or keeps its rules elsewhere; and limits that were set on
//! purpose after the source said what should be allowed.
//!
//! systemd makes its program anew at each reload, so that the program's age says
//! nothing. The files of a running unit are written when somebody sets its device list
//! and at no other time: runc and crun do so before they load their programs.

use jiff::SignedDuration;

use super::slurm;
use crate::analyse::ProgramInForce;
use crate::model::{IntentionSource, Owner, OwnerKind, Time, Writer};
use crate::observation::Unit;
use crate::report::Intention;

/// What the owner of a program can do, a sentence.
pub(super) fn advice(program: &ProgramInForce, owner: Option<&Owner>) -> String {
    let id = program.place.id;
    let at = &program.place.attached_at;
    let kind = owner.map(|owner| &owner.kind);
    let name = owner.and_then(|owner| owner.name.as_deref()).unwrap_or("NAME");
    match (&program.writer, kind) {
        (Some(Writer::Libvirt), _) | (_, Some(OwnerKind::Libvirt)) => format!(
            "program {id} at {at} limits a machine of libvirt, which keeps what it allows in a map of its \
             own: give the device to the machine with virsh attach-device, or in cgroup_device_acl of \
             qemu.conf"
        ),
        (Some(Writer::Lxc), _) | (_, Some(OwnerKind::Lxc)) => format!(
            "program {id} at {at} limits a container of LXC: lxc-cgroup -n {name} devices.allow 'c \
             MAJOR:MINOR rw' changes LXC's program, and lxc.cgroup2.devices.allow in its configuration lasts"
        ),
        _ if slurm::is_slurms(program) => format!(
            "program {id} at {at} is Slurm's, which gives a step its devices when it starts: correct \
             gres.conf or the allocation, and start a new step"
        ),
        (Some(Writer::Htcondor | Writer::Crane | Writer::Oar), _) => recorded(program),
        (_, Some(kind)) if kind.has_recorded_limits() => recorded(program),
        _ if has_schedulers_name(program) => format!(
            "program {id} at {at} has the name of a limit of a scheduler that writes such programs by its \
             own records: change the scheduler's configuration"
        ),
        (Some(Writer::Crun | Writer::OldCrun), _) => format!(
            "program {id} at {at} is crun's: crun update -r FILE CONTAINER changes it, where FILE holds the \
             whole devices list of the container and the device"
        ),
        (Some(Writer::Systemd), _) => {
            format!("program {id} at {at} is systemd's, of a unit that others share")
        }
        (_, Some(OwnerKind::Slurm)) => format!(
            "program {id} at {at} is not known to be Slurm's: whoever attached it can take it away, and a \
             new step gets programs of Slurm's own"
        ),
        (None, Some(kind)) if kind.is_container() => format!(
            "gpumap does not know who wrote program {id} at {at}: if the container was started with it, make \
             the container again with the device (CDI, --device); else whoever attached it can take it away"
        ),
        (None, _) => format!(
            "gpumap does not know who wrote program {id} at {at}: whoever attached it can change it or take \
             it away"
        ),
        _ => format!(
            "program {id} at {at} is the limit that the container was started with, and no command of its \
             runtime changes it: make the container again with the device (CDI, --device)"
        ),
    }
}

fn recorded(program: &ProgramInForce) -> String {
    format!(
        "program {} at {} is a limit of a scheduler that writes such programs by its own records: change the \
         scheduler's configuration",
        program.place.id, program.place.attached_at
    )
}

/// Whether the program is called as CraneSched's and OAR's are, whatever its shape.
pub(super) fn has_schedulers_name(program: &ProgramInForce) -> bool {
    matches!(program.name.as_str(), "craned_device_a" | "oarcgdev")
}

/// What times of programs are wrong by: the kernel counts from the boot, and they are
/// told in whole seconds.
const ERROR: SignedDuration = SignedDuration::from_secs(2);

/// Refuses to take back a limit of the unit that is younger than the source.
///
/// # Errors
///
/// Both times, and what to do if the limit was not meant, a sentence.
pub(super) fn refuse_later_limit(unit: &Unit, intention: &Intention) -> Result<(), String> {
    let is_of_now = matches!(
        intention.source,
        IntentionSource::Asked | IntentionSource::InForce | IntentionSource::UnitFiles
    );
    let times = unit.devices_changed_at.as_ref().zip(intention.as_of.as_ref());
    match times.filter(|(changed, as_of)| !is_of_now && is_later(changed, as_of)) {
        None => Ok(()),
        Some((changed, as_of)) => Err(format!(
            "the device list of {} was changed at {changed}, and what should be allowed is as of {as_of}: \
             that is a limit which somebody set since; if the devices should be open all the same, name them \
             with --allow",
            unit.name.lossy()
        )),
    }
}

fn is_later(one: &Time, other: &Time) -> bool {
    one.since(other).is_some_and(|later| later > ERROR)
}
