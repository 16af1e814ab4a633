//! The libraries of drivers, which read the variables.

use crate::model::EventCause;

/// A library that reads the variables once, when it is initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// `cuInit` of CUDA.
    Cuda,
    /// `hipInit` of HIP.
    Hip,
    /// `hsa_init` of ROCr.
    Hsa,
}

impl Driver {
    /// The function that initialises it.
    pub fn function(self) -> EventCause {
        match self {
            Self::Cuda => EventCause::CuInit,
            Self::Hip => EventCause::HipInit,
            Self::Hsa => EventCause::HsaInit,
        }
    }
}

/// Some of the drivers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drivers(u8);

impl Drivers {
    /// These.
    pub fn of(drivers: &[Driver]) -> Self {
        drivers.iter().fold(Self::default(), |all, driver| all.and(*driver))
    }

    /// With one more.
    pub fn and(self, driver: Driver) -> Self {
        Self(self.0 | 1 << driver as u8)
    }

    /// Those that are in both.
    pub fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in the other.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Whose library this is, by its name.
pub fn driver(name: &[u8]) -> Option<Driver> {
    const KNOWN: [(&[u8], Driver); 3] = [
        (b"libcuda.so", Driver::Cuda),
        (b"libamdhip64.so", Driver::Hip),
        (b"libhsa-runtime64.so", Driver::Hsa),
    ];
    KNOWN.into_iter().find(|(known, _)| name.starts_with(known)).map(|(_, driver)| driver)
}

/// Whether a file is the library of a driver, by its name.
pub fn is_driver(name: &[u8]) -> bool {
    driver(name).is_some()
}

/// Whether a file is a library that stands before a driver, by its name: HAMi's or
/// SoftMig's.
pub fn is_interceptor(name: &[u8]) -> bool {
    name.starts_with(b"libvgpu.so") || name.starts_with(b"libsoftmig.so")
}
