//! Whether the memory limit of a device is in force for a registered process, and how much
//! memory a GPU has, by the name of its model: the driver tells the number to NVML alone.

use bytesize::ByteSize;

use super::order::{First, Order};
use super::registered::{Case, Registered, UsedEntry, verdict};
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

/// Models whose names do not say it and that have one size (of a GeForce RTX 4090
/// there are some with twice the memory), with GiB as NVIDIA's
/// data sheets have it.
const MODELS: [(&str, u64); 21] = [
    ("A10", 24),
    ("A10G", 24),
    ("A16", 16),
    ("A2", 16),
    ("A30", 24),
    ("A40", 48),
    ("H200", 141),
    ("H200 NVL", 141),
    ("H100 NVL", 94),
    ("H100 PCIe", 80),
    ("L4", 24),
    ("L20", 48),
    ("L40", 48),
    ("L40S", 48),
    ("RTX A5000", 24),
    ("RTX A6000", 48),
    ("T4", 16),
    ("GeForce RTX 3090", 24),
    ("P40", 24),
    ("B200", 192),
    ("RTX PRO 6000 Blackwell Server Edition", 96),
];

/// Bytes of memory that no GPU of this model exceeds; `None` for models that are
/// not known. Programs can have up to a tenth less.
pub fn memory_of(model: &str) -> Option<u64> {
    let name = model.strip_prefix("NVIDIA ").unwrap_or(model);
    let name = name.strip_prefix("Tesla ").unwrap_or(name).trim();
    let listed = MODELS.iter().find(|(known, _)| *known == name).map(|(_, gib)| *gib);
    // Of a Grace Hopper the name says how much memory the processor has.
    let says_its_own = !name.starts_with("GH") && !name.starts_with("GB");
    listed.or_else(|| said(name).filter(|_| says_its_own)).and_then(|gib| gib.checked_mul(1 << 30))
}

/// `A100-SXM4-80GB`, `H100 80GB HBM3`.
fn said(name: &str) -> Option<u64> {
    let mut words = name.split([' ', '-']);
    words.find_map(|word| word.strip_suffix("GB")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that names which say it and names which do not are known, and
    /// that others are not guessed.
    #[test]
    fn models() {
        assert_eq!(memory_of("NVIDIA A100-SXM4-80GB"), Some(80 << 30));
        assert_eq!(memory_of("NVIDIA H100 80GB HBM3"), Some(80 << 30));
        assert_eq!(memory_of("Tesla V100-SXM2-16GB"), Some(16 << 30));
        assert_eq!(memory_of("Tesla T4"), Some(16 << 30));
        assert_eq!(memory_of("NVIDIA L40S"), Some(48 << 30));
        for other in ["NVIDIA Future 9000", "", "GB", "NVIDIA GB200", "NVIDIA GH200 480GB"] {
            assert_eq!(memory_of(other), None, "{other}");
        }
    }
}
