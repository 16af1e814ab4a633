//! Limits that were set on purpose after the source said what should be allowed.
//!
//! systemd makes its program anew at each reload, so that the program's age says
//! nothing. The files of a running unit are written when somebody sets its device list
//! and at no other time: runc and crun do so before they load their programs.

use jiff::SignedDuration;

use crate::model::{IntentionSource, Time};
use crate::observation::Unit;
use crate::report::Intention;

/// What times of programs are wrong by: the kernel counts from the boot, and they are
/// told in whole seconds.
const ERROR: SignedDuration = SignedDuration::from_secs(2);

/// Refuses to take back a limit of the unit that is younger than the source.
///
/// # Errors
///
/// Both times, and what to do if the limit was not meant, a sentence.
pub(super) fn refuse(unit: &Unit, intention: &Intention) -> Result<(), String> {
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
