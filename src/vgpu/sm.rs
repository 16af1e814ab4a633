//! Whether the SM limit of a device is in force for a registered process.

use super::case::{Case, Registered, verdict};
use super::meant::SM_LIMITS;
use crate::model::InForce::{No, Partly, Unknown, Yes};
use crate::model::{LimitCode, RegionLayout};
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
    let limit = registered.region.sm_limit.as_deref().unwrap_or_default();
    let limit = limit.get(device).copied().unwrap_or(0);
    let meant = meant.filter(|meant| SM_LIMITS.contains(meant));
    if !SM_LIMITS.contains(&limit) {
        return match meant {
            None => verdict(No, LimitCode::NoLimit, "no SM limit is set"),
            Some(meant) => {
                let why = format!("its region has no SM limit, {meant} % was meant");
                verdict(No, LimitCode::LimitMissing, why)
            }
        };
    }
    if let Some(off) = host_pid(registered).or_else(|| switch(case, registered)) {
        return off;
    }
    if registered.moved {
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
            let why = format!("it is held to the {limit} % in its region, {meant} % was meant");
            verdict(Partly, LimitCode::LimitHigher, why)
        }
        _ => verdict(Yes, LimitCode::Held, format!("it is held to {limit} %")),
    }
}

/// The library does nothing for a process whose pid on the node it has not
/// found. It looks for it when the process makes a context.
fn host_pid(registered: &Registered<'_>) -> Option<LimitVerdict> {
    if registered.entry.hostpid != 0 {
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
    match case.variable(POLICY) {
        Err(unknown) => return Some(unknown),
        Ok(Some(b"FORCE" | b"force")) => return None,
        Ok(Some(b"DISABLE" | b"disable")) => {
            return Some(verdict(No, LimitCode::PolicyDisabled, format!("{POLICY} switches SM limits off")));
        }
        Ok(_) => {}
    }
    if registered.region.utilization_switch != Some(0) {
        return None;
    }
    Some(match registered.region.layout {
        RegionLayout::V1_1Post | RegionLayout::V1_2 => verdict(
            Unknown,
            LimitCode::SwitchUnknown,
            "its region switches SM limits off, but builds of April and May 2026 go by what it said when they \
             began, and the file does not tell which build this is",
        ),
        _ => verdict(No, LimitCode::SwitchedOff, "its region switches SM limits off"),
    })
}
