//! In which order a process counts its devices, and which of the library's
//! numbers its use is booked under.
//!
//! Since 1.1 the library looks limits up by CUDA's number of a device. It books
//! use under the same number if CUDA was initialized first, and under NVML's
//! number if NVML was: then it compares the use of one device with the limit of
//! another.

use super::case::Registered;
use super::offsets::DEVICES;
use crate::report::{Region, RegionDevice};

/// The order of a process's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// CUDA's numbers are NVML's.
    Same,
    /// NVML's number of each of CUDA's devices.
    Other(Vec<usize>),
    /// The variable names devices in a way that cannot be followed.
    Unknown,
}

/// Which library was initialized first, as far as the entry shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    Cuda,
    Nvml,
    Unknown,
}

impl Order {
    /// The order that `CUDA_VISIBLE_DEVICES` gives to the devices of a region.
    pub(super) fn of(value: Option<&[u8]>, region: &Region) -> Self {
        let Some(value) = value else { return Self::Same };
        let Ok(text) = str::from_utf8(value) else { return Self::Unknown };
        if text.trim().is_empty() {
            return Self::Other(Vec::new());
        }
        let numbers: Option<Vec<usize>> = text.split(',').map(|entry| number(entry.trim(), region)).collect();
        match numbers {
            Some(numbers) if numbers.iter().enumerate().all(|(place, number)| place == *number) => Self::Same,
            Some(numbers) if numbers.len() <= DEVICES => Self::Other(numbers),
            _ => Self::Unknown,
        }
    }

    /// How many devices the process sees.
    pub(super) fn count(&self, region: &Region) -> usize {
        match self {
            Self::Other(numbers) => numbers.len(),
            Self::Same | Self::Unknown => {
                let count = usize::try_from(region.device_num.unwrap_or(0)).unwrap_or(DEVICES);
                count.clamp(1, DEVICES)
            }
        }
    }

    /// NVML's number of one of CUDA's devices.
    pub(super) fn nvml(&self, device: usize) -> Option<usize> {
        match self {
            Self::Same => Some(device),
            Self::Other(numbers) => numbers.get(device).copied(),
            Self::Unknown => None,
        }
    }

    /// What was initialized first, judged by where the entry has use.
    pub(super) fn first(&self, registered: &Registered<'_>) -> First {
        let Self::Other(numbers) = self else { return First::Unknown };
        let used = registered.entry.devices.iter().filter(|device| is_booked(device));
        let used: Vec<usize> = used.map(|device| device.device).collect();
        let as_cuda = used.iter().all(|device| *device < numbers.len());
        let as_nvml = used.iter().all(|device| numbers.contains(device));
        match (as_cuda, as_nvml) {
            (true, false) => First::Cuda,
            (false, true) => First::Nvml,
            _ => First::Unknown,
        }
    }
}

/// Whether the library has booked use of its own: `monitorused` is NVML's.
fn is_booked(device: &RegionDevice) -> bool {
    device.context_size | device.module_size | device.data_size | device.offset != 0
}

/// NVML's number of a device that the variable names by number or UUID.
fn number(entry: &str, region: &Region) -> Option<usize> {
    let count = usize::try_from(region.device_num.unwrap_or(0)).ok()?;
    if let Ok(number) = entry.parse::<usize>() {
        return (count == 0 || number < count).then_some(number);
    }
    if !entry.starts_with("GPU-") {
        return None;
    }
    let uuids = region.uuids.as_deref().unwrap_or_default().iter().enumerate();
    let mut named = uuids.filter(|(_, uuid)| uuid.starts_with(entry));
    match (named.next(), named.next()) {
        (Some((number, _)), None) => Some(number),
        _ => None,
    }
}
