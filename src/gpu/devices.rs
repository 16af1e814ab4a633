//! `/proc/devices`: which driver registered which major number on this boot.

use crate::model::DeviceType;
use crate::observation::{GpuFacts, RegisteredDriver};

/// Major of the NVIDIA GPUs, fixed (`nv-chardev-numbers.h`, `devices.txt`).
pub(super) const NVIDIA: u32 = 195;
/// Last minor of [`NVIDIA`] that is a GPU (`nv-chardev-numbers.h`).
pub(super) const NVIDIA_LAST_GPU: u32 = 247;
/// Minor of `/dev/nvidia-modeset`.
pub(super) const NVIDIA_MODESET: u32 = 254;
/// Minor of `/dev/nvidiactl`.
pub(super) const NVIDIA_CTL: u32 = 255;
/// Major of the DRM class, fixed (`include/drm/drm_drv.h`, `devices.txt`).
pub(super) const DRM: u32 = 226;
/// First minor of [`DRM`] that is a render node.
pub(super) const DRM_FIRST_RENDER: u32 = 128;
/// Major of the accel class, fixed (`include/drm/drm_accel.h`).
pub(super) const ACCEL: u32 = 261;

/// The character major that a driver registered on this boot.
pub fn char_major(facts: &GpuFacts, driver: &str) -> Option<u32> {
    Majors::new(facts).char_major(driver)
}

/// The registrations of one boot, in the file's order.
pub(super) struct Majors(Vec<RegisteredDriver>);

impl Majors {
    /// Those of the facts; none if the file is not there.
    pub(super) fn new(facts: &GpuFacts) -> Self {
        Self(facts.drivers().unwrap_or_default())
    }

    /// The names registered for a major; several drivers can share one.
    pub(super) fn names(&self, kind: DeviceType, major: u32) -> impl Iterator<Item = &str> {
        let matches = self.0.iter().filter(move |driver| (driver.kind, driver.major) == (kind, major));
        matches.map(|driver| driver.name.as_str())
    }

    /// The first character major registered under a name.
    pub(super) fn char_major(&self, name: &str) -> Option<u32> {
        let driver = self.0.iter().find(|driver| driver.kind == DeviceType::Char && driver.name == name);
        driver.map(|driver| driver.major)
    }

    /// Whether nothing is known: the file was not there.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(devices: &str) -> GpuFacts {
        let files = [("/proc/devices".to_owned(), devices.to_owned())].into();
        GpuFacts { files, ..GpuFacts::default() }
    }

    #[test]
    fn sections_and_shared_majors() {
        let text = "Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n510 nvidia-uvm\n\nBlock devices:\n  1 x\n";
        let facts = facts(text);
        let majors = Majors::new(&facts);
        assert_eq!(majors.names(DeviceType::Char, 195).collect::<Vec<_>>(), ["nvidia", "nvidiactl"]);
        assert_eq!(majors.names(DeviceType::Block, 1).collect::<Vec<_>>(), ["x"]);
        assert_eq!(majors.char_major("nvidia-uvm"), Some(510));
        assert_eq!(majors.char_major("x"), None);
    }

    #[test]
    fn text_outside_sections_is_ignored() {
        let facts = facts("195 nvidia\nCharacter devices:\nx y\n 7\n-1 z\n");
        assert!(Majors::new(&facts).is_empty());
    }
}
