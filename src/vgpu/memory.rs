//! Whether the memory limit of a device is in force for a registered process.

use bytesize::ByteSize;

use super::case::{Case, Registered, UsedEntry, verdict};
use super::order::{First, Order};
use crate::model::InForce::{No, Partly, Unknown, Yes};
use crate::model::{LimitCode, RegionLayout};
use crate::report::LimitVerdict;

/// The largest limit that is below the memory of every GPU that today's drivers
/// take, and of every slice of one (MIG's smallest have 4.75 GiB).
const BELOW_ALL: u64 = 2 << 30;

/// One device of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneDevice<'a> {
    pub(super) order: &'a Result<Order, LimitVerdict>,
    pub(super) device: usize,
    /// The limit that was meant; `None` where it is not known.
    pub(super) meant: Option<u64>,
    /// Memory of the GPU.
    pub(super) total: Option<u64>,
}

/// Whether the memory limit of one device holds.
pub(super) fn judge(case: &Case<'_>, registered: &Registered<'_>, asked: OneDevice<'_>) -> LimitVerdict {
    let limit = registered.region.limit.as_deref().unwrap_or_default();
    let limit = limit.get(asked.device).copied().unwrap_or(0);
    if limit == 0 {
        return without_limit(asked.meant);
    }
    let meant = asked.meant.unwrap_or(0);
    match registered.place {
        UsedEntry::Counted => {}
        UsedEntry::Left => {
            let why = "its entry in the region was moved, and it goes on writing to the old place: its use is not \
                       counted";
            return verdict(No, LimitCode::MovedEntry, why);
        }
        UsedEntry::Unknown => {
            let why = "the region has a second entry with its pid that is not counted, and which of the two it \
                       writes to does not show";
            return verdict(Unknown, LimitCode::MovedEntry, why);
        }
    }
    if let Some(untested) = registered.untested() {
        return untested;
    }
    if let Some(exempt) = exempt(case, registered).or_else(|| reordered(registered, asked)) {
        return exempt;
    }
    match asked.total {
        Some(total) if limit >= total => {
            let why = format!("the limit of {} is not below the GPU's {}", size(limit), size(total));
            verdict(No, LimitCode::AboveTotal, why)
        }
        // The driver and error correction keep some of it.
        Some(total) if limit > total / 10 * 9 => {
            let why = format!(
                "the limit of {} may be above what programs have of the GPU's {}",
                size(limit),
                size(total)
            );
            verdict(Unknown, LimitCode::TotalUnknown, why)
        }
        None if limit > BELOW_ALL => {
            let why =
                format!("the limit is {}, and how much memory the GPU has is not known here", size(limit));
            verdict(Unknown, LimitCode::TotalUnknown, why)
        }
        _ if meant > 0 && limit > meant => {
            let overrides = case.meant.overrides.as_ref();
            let is_overridden = overrides.is_some_and(|all| all.memory.get(asked.device) == Some(&limit));
            let whose = if is_overridden { "that /overrideEnv names" } else { "in its region" };
            let why = format!("it is held to the {} {whose}, {} was meant", size(limit), size(meant));
            verdict(Partly, LimitCode::LimitHigher, why)
        }
        _ => verdict(Yes, LimitCode::Held, format!("it is held to {}", size(limit))),
    }
}

/// The verdict on a device for which the region has no limit.
fn without_limit(meant: Option<u64>) -> LimitVerdict {
    match meant {
        Some(0) => verdict(No, LimitCode::NoLimit, "no memory limit is set"),
        Some(meant) => {
            let why = format!("its region has no memory limit, {} was meant", size(meant));
            verdict(No, LimitCode::LimitMissing, why)
        }
        None => {
            let why = "its region has no memory limit, and whether one was meant is not known";
            verdict(Unknown, LimitCode::EnvironmentUnknown, why)
        }
    }
}

/// SoftMig lets root have all memory.
fn exempt(case: &Case<'_>, registered: &Registered<'_>) -> Option<LimitVerdict> {
    if !matches!(registered.region.layout, RegionLayout::Softmig1_1) {
        return None;
    }
    match (case.uid, case.traces.other_user_namespace) {
        (0, _) => Some(verdict(No, LimitCode::RootExempt, "SoftMig refuses no memory to root")),
        (_, Some(false)) => None,
        _ => {
            let why = "SoftMig refuses no memory to root, and whether it is root in its user namespace is not known";
            Some(verdict(Unknown, LimitCode::UserNamespace, why))
        }
    }
}

/// What the order of devices does to the limit; the builds of 2024 that have no
/// version do not mind.
fn reordered(registered: &Registered<'_>, asked: OneDevice<'_>) -> Option<LimitVerdict> {
    if registered.region.layout.has_no_version() {
        return None;
    }
    let order = match asked.order {
        Ok(order) => order,
        Err(unknown) => return Some(unknown.clone()),
    };
    match order {
        Order::Same => return None,
        Order::Unknown => {
            let why =
                "CUDA_VISIBLE_DEVICES names devices in a way that the library's numbers do not follow from";
            return Some(verdict(Unknown, LimitCode::OrderUnknown, why));
        }
        Order::Other(_) => {}
    }
    if order.booked_nvml_first(asked.device) == Some(asked.device) {
        return None;
    }
    match order.first(registered) {
        First::Cuda => None,
        First::Nvml if !order.books_nvml_first(asked.device) => {
            let why = "it initialized NVML before CUDA and CUDA_VISIBLE_DEVICES reorders its devices: its use is \
                       booked under another device than the limit";
            Some(verdict(No, LimitCode::NvmlFirst, why))
        }
        First::Nvml | First::Unknown => {
            let why = "CUDA_VISIBLE_DEVICES reorders its devices: whether the limit holds depends on whether it \
                       initialized CUDA or NVML first, which does not show";
            Some(verdict(Unknown, LimitCode::OrderUnknown, why))
        }
    }
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}
