//! In which order a process counts its devices, and which number the library
//! books the use of each under.
//!
//! The library looks a limit up by CUDA's number of the device. Since 1.1 it books
//! use under the same number if CUDA was initialized first. If NVML was, it books
//! use under the number that it reads in `CUDA_VISIBLE_DEVICES`, and so compares the
//! use of one device with the limit of another. It reads that variable with atoi(3):
//! a UUID is 0.

use super::layout::DEVICES;
use super::registered::Registered;
use crate::report::{Region, RegionDevice};

/// The order of a process's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// CUDA's numbers are NVML's.
    Same,
    /// Another one.
    Other(Vec<Listed>),
    /// The variable names devices in a way that cannot be followed.
    Unknown,
}

/// An entry of `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// NVML's number of the device.
    nvml: usize,
    /// The number that the library reads: NVML's, or 0 for a UUID.
    read: usize,
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
        let listed: Option<Vec<Listed>> = text.split(',').map(|entry| listed(entry.trim(), region)).collect();
        let is_same = |(device, one): (usize, &Listed)| one.nvml == device && one.read == device;
        match listed {
            Some(listed) if listed.iter().enumerate().all(is_same) => Self::Same,
            Some(listed) if listed.len() <= DEVICES => Self::Other(listed),
            _ => Self::Unknown,
        }
    }

    /// How many devices the process sees.
    pub(super) fn count(&self, region: &Region) -> usize {
        match self {
            Self::Other(listed) => listed.len(),
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
            Self::Other(listed) => listed.get(device).map(|one| one.nvml),
            Self::Unknown => None,
        }
    }

    /// The number under which use of one of CUDA's devices is booked if NVML was
    /// initialized first.
    pub(super) fn booked_nvml_first(&self, device: usize) -> Option<usize> {
        match self {
            Self::Same => Some(device),
            Self::Other(listed) => listed.get(device).map(|one| one.read),
            Self::Unknown => None,
        }
    }

    /// Whether use of any device is booked under this number if NVML was
    /// initialized first.
    pub(super) fn books_nvml_first(&self, number: usize) -> bool {
        matches!(self, Self::Other(listed) if listed.iter().any(|one| one.read == number))
    }

    /// What was initialized first, judged by where the entry has use.
    pub(super) fn first(&self, registered: &Registered<'_>) -> First {
        let Self::Other(listed) = self else { return First::Unknown };
        let used = registered.entry.devices.iter().filter(|device| is_booked(device));
        let used: Vec<usize> = used.map(|device| device.device).collect();
        let as_cuda = used.iter().all(|device| *device < listed.len());
        let as_nvml = used.iter().all(|device| self.books_nvml_first(*device));
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

/// A device that the variable names by NVML's number or by UUID.
fn listed(entry: &str, region: &Region) -> Option<Listed> {
    let count = usize::try_from(region.device_num.unwrap_or(0)).ok()?;
    if let Ok(number) = entry.parse::<usize>() {
        return (count == 0 || number < count).then_some(Listed { nvml: number, read: number });
    }
    if !entry.starts_with("GPU-") {
        return None;
    }
    let uuids = region.uuids.as_deref().unwrap_or_default().iter().enumerate();
    let mut named = uuids.filter(|(_, uuid)| uuid.starts_with(entry));
    match (named.next(), named.next()) {
        (Some((number, _)), None) => Some(Listed { nvml: number, read: 0 }),
        _ => None,
    }
}
