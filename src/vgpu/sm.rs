//! Whether the SM limit of a device is in force for a registered process.
//!
//! Builds differ in what they go by. Those before April 2026 and SoftMig read the
//! region at each launch. Those of April and May 2026 note its switch and its limits
//! when CUDA is initialized, later ones note the switch ten times a second: what
//! they have noted stands in the library's own variables, and no file tells which
//! build it is.

use super::limits::SM_LIMITS;
use super::registered::{Case, Registered, verdict};
use crate::model::InForce::{No, Partly, Unknown, Yes};
use crate::model::{LimitCode, RegionLayout};
use crate::observation::LibraryVariables;
use crate::report::LimitVerdict;

/// The variable that overrules the switch in the region.
const POLICY: &str = "GPU_CORE_UTILIZATION_POLICY";

/// Whether the SM limit of one device holds; `meant` is `None` where it is not
/// known.
pub(super) fn judge(
    case: &Case<'_>,
    registered: &Registered<'_>,
    device: usize,
    meant: Option<u64>,
) -> LimitVerdict {
    let limit = limit(case, registered, device);
    if !SM_LIMITS.contains(&limit) {
        return without_limit(meant);
    }
    let meant = meant.filter(|meant| SM_LIMITS.contains(meant));
    if let Some(untested) = registered.untested() {
        return untested;
    }
    if let Some(off) = host_pid(case, registered).or_else(|| switch(case, registered)) {
        return off;
    }
    if let Some(alone) = first_alone(registered, device) {
        return alone;
    }
    if !registered.place.is_counted() {
        let why = "its entry in the region was moved: which utilization the library compares is not known";
        return verdict(Unknown, LimitCode::MovedEntry, why);
    }
    if u32::try_from(registered.entry.hostpid) != Ok(registered.outer_pid) {
        let why = format!(
            "the library takes process {} for it, and limits it by the utilization of that one",
            registered.entry.hostpid
        );
        return verdict(Partly, LimitCode::HostPidOfAnother, why);
    }
    match meant {
        Some(meant) if limit > meant => {
            let why = format!("it is held to {limit} %, {meant} % was meant");
            verdict(Partly, LimitCode::LimitHigher, why)
        }
        _ => verdict(Yes, LimitCode::Held, format!("it is held to {limit} %")),
    }
}

/// Before HAMi-core's commit 15ea423 (6 April 2026), and in SoftMig, launches on every device
/// are held back by the limit and the utilization of device 0 alone.
fn first_alone(registered: &Registered<'_>, device: usize) -> Option<LimitVerdict> {
    if device == 0 {
        return None;
    }
    match registered.region.layout {
        RegionLayout::V0a | RegionLayout::V0b | RegionLayout::V1_1 | RegionLayout::Softmig1_1 => {
            let why = "this build looks at the limit and the utilization of its device 0 alone";
            Some(verdict(No, LimitCode::FirstDeviceAlone, why))
        }
        RegionLayout::V1_1Post => {
            let why = "builds before 6 April 2026 look at the limit and the utilization of device 0 alone, \
                       and whether this is one of them does not show";
            Some(verdict(Unknown, LimitCode::FirstDeviceAlone, why))
        }
        _ => None,
    }
}

/// The verdict on a device for which neither region nor library has a limit.
fn without_limit(meant: Option<u64>) -> LimitVerdict {
    match meant {
        Some(meant) if SM_LIMITS.contains(&meant) => {
            let why = format!("its region has no SM limit, {meant} % was meant");
            verdict(No, LimitCode::LimitMissing, why)
        }
        Some(_) => verdict(No, LimitCode::NoLimit, "no SM limit is set"),
        None => {
            let why = "its region has no SM limit, and whether one was meant is not known";
            verdict(Unknown, LimitCode::EnvironmentUnknown, why)
        }
    }
}

/// What the library's own variables say, where they could be read.
fn noted<'a>(case: &Case<'a>) -> Option<&'a LibraryVariables> {
    case.traces.variables.known()
}

/// The limit that the library goes by: the one that it has noted, else the region's.
fn limit(case: &Case<'_>, registered: &Registered<'_>, device: usize) -> u64 {
    let noted = noted(case).and_then(|noted| noted.sm_limits.get(device)).filter(|limit| **limit != 0);
    let in_region = || registered.region.sm_limit.as_deref().unwrap_or_default().get(device).copied();
    match noted {
        Some(limit) => u64::try_from(*limit).unwrap_or(0),
        None => in_region().unwrap_or(0),
    }
}

/// The library does nothing for a process whose pid on the node it has not
/// found. It looks for it when the process makes a context.
fn host_pid(case: &Case<'_>, registered: &Registered<'_>) -> Option<LimitVerdict> {
    let found = noted(case).and_then(|noted| noted.host_pid_found);
    if registered.entry.hostpid != 0 && found != Some(0) {
        return None;
    }
    Some(match registered.entry.devices.is_empty() {
        true => verdict(
            Unknown,
            LimitCode::NoContext,
            "it has made no CUDA context yet, and the library looks for its pid on the node then",
        ),
        false => verdict(
            No,
            LimitCode::NoHostPid,
            "the library has not found its pid on the node, and limits no SM without it",
        ),
    })
}

/// Whether the limit is switched off, by the environment or in the region.
fn switch(case: &Case<'_>, registered: &Registered<'_>) -> Option<LimitVerdict> {
    let noted = noted(case);
    let policy = match noted.and_then(|noted| noted.policy) {
        Some(policy) => Policy::of_number(policy),
        None => match case.variable(POLICY) {
            Ok(text) => Policy::of_text(text),
            Err(unknown) if noted.is_none_or(|noted| noted.util_switch.is_none()) => return Some(unknown),
            Err(_) => Policy::AsRegion,
        },
    };
    match (noted.and_then(|noted| noted.util_switch), policy) {
        (Some(0), Policy::Off) | (None, Policy::Off) => {
            Some(verdict(No, LimitCode::PolicyDisabled, format!("{POLICY} switches SM limits off")))
        }
        (Some(0), _) => Some(verdict(
            No,
            LimitCode::SwitchedOff,
            "the library has noted that SM limits are switched off, and goes by that",
        )),
        (Some(_), _) | (None, Policy::On) => None,
        (None, Policy::AsRegion) => of_region(case, registered),
    }
}

/// The switch of the region, where the build goes by it.
fn of_region(case: &Case<'_>, registered: &Registered<'_>) -> Option<LimitVerdict> {
    let is_off = registered.region.utilization_switch == Some(0);
    let notes = matches!(registered.region.layout, RegionLayout::V1_1Post | RegionLayout::V1_2);
    if notes {
        let now = if is_off { "off" } else { "on" };
        let because = case.traces.variables.missing().unwrap_or("its library does not name its variables");
        let why = format!(
            "whether the limit is switched on is not known: the region says {now}, but builds since April 2026 go by \
             what they noted of that, and what this one noted cannot be read ({because})"
        );
        return Some(verdict(Unknown, LimitCode::SwitchUnknown, why));
    }
    is_off.then(|| verdict(No, LimitCode::SwitchedOff, "its region switches SM limits off"))
}

/// What decides beside the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    On,
    Off,
    AsRegion,
}

impl Policy {
    fn of_text(text: Option<&[u8]>) -> Self {
        match text {
            Some(b"FORCE" | b"force") => Self::On,
            Some(b"DISABLE" | b"disable") => Self::Off,
            _ => Self::AsRegion,
        }
    }

    /// `env_utilization_switch` in `multiprocess_memory_limit.c`.
    fn of_number(number: i32) -> Self {
        match number {
            1 => Self::On,
            2 => Self::Off,
            _ => Self::AsRegion,
        }
    }
}
