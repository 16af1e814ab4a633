//! Device numbers, as the kernel asks device programs about them.

use std::fmt;

use super::Request;

words! {
    /// Character or block device. The numbers are those of the kernel in
    /// `access_type` (`BPF_DEVCG_DEV_BLOCK`, `BPF_DEVCG_DEV_CHAR` in `linux/bpf.h`).
    pub enum DeviceType {
        /// A block device, 1.
        Block = 1,
        /// A character device, 2.
        #[default]
        Char = 2,
    }
}

words! {
    /// Which devices a rule is about.
    pub enum RuleType {
        /// Character and block devices.
        #[default]
        Any,
        /// Block devices.
        Block,
        /// Character devices.
        Char,
    }
}

impl From<Option<DeviceType>> for RuleType {
    fn from(kind: Option<DeviceType>) -> Self {
        match kind {
            None => Self::Any,
            Some(DeviceType::Block) => Self::Block,
            Some(DeviceType::Char) => Self::Char,
        }
    }
}

/// Largest major number of the kernel's 12-bit field.
pub const MAX_MAJOR: u32 = (1 << 12) - 1;
/// Largest minor number of the kernel's 20-bit field.
pub const MAX_MINOR: u32 = (1 << 20) - 1;

/// One device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// Character or block.
    pub kind: DeviceType,
    /// 0 to [`MAX_MAJOR`].
    pub major: u32,
    /// 0 to [`MAX_MINOR`].
    pub minor: u32,
}

impl DeviceType {
    /// `c` or `b`.
    pub fn letter(self) -> char {
        match self {
            Self::Block => 'b',
            Self::Char => 'c',
        }
    }
}

impl Device {
    /// Whether the kernel does not ask the programs about `request` on this
    /// device, so that it is allowed: a character device 0:0 is a whiteout of
    /// overlayfs (`inode_permission` and `vfs_mknod`, `fs/namei.c`). Making one
    /// was asked about before Linux 5.8, which `asks_all` says may be the case.
    pub fn is_never_asked(self, request: Request, asks_all: bool) -> bool {
        let is_whiteout = (self.kind, self.major, self.minor) == (DeviceType::Char, 0, 0);
        is_whiteout && !(asks_all && request == Request::Mknod)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:{}", self.kind.letter(), self.major, self.minor)
    }
}
