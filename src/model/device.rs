//! Device numbers, as the kernel asks device programs about them, one by one and in
//! ranges.

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
    /// overlayfs (`inode_permission` and `vfs_mknod`, `fs/namei.c`). `asks_to_make_one`
    /// says whether this kernel asks about making one, as Linux did before 5.8.
    pub fn is_never_asked(self, request: Request, asks_to_make_one: bool) -> bool {
        let is_whiteout = (self.kind, self.major, self.minor) == (DeviceType::Char, 0, 0);
        is_whiteout && !(asks_to_make_one && request == Request::Mknod)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:{}", self.kind.letter(), self.major, self.minor)
    }
}

/// Consecutive major or minor numbers: one, a range, or all there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first number.
    pub first: u32,
    /// The last one; not below the first.
    pub last: u32,
}

impl Span {
    /// One number.
    pub const fn one(number: u32) -> Self {
        Self { first: number, last: number }
    }

    /// All numbers up to this one.
    pub const fn up_to(last: u32) -> Self {
        Self { first: 0, last }
    }

    /// The number, if it is one.
    pub fn single(self) -> Option<u32> {
        (self.first == self.last).then_some(self.first)
    }

    /// The same numbers as blocks, each of them all numbers with the same high bits: the
    /// first number, and how many low bits differ in it.
    pub fn blocks(self) -> impl Iterator<Item = (u32, u32)> {
        let mut next = Some(self.first);
        std::iter::from_fn(move || {
            let first = next.filter(|first| *first <= self.last)?;
            let left = u64::from(self.last) - u64::from(first) + 1;
            let bits = first.trailing_zeros().min(left.ilog2());
            next = u32::try_from(u64::from(first) + (1 << bits)).ok();
            Some((first, bits))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that blocks are the numbers of the span, each once.
    #[test]
    fn blocks_are_the_span() {
        for span in [
            Span::one(0),
            Span::one(7),
            Span::up_to(4095),
            Span { first: 3, last: 12 },
            Span { first: 5, last: 6 },
        ] {
            let numbers: Vec<u32> =
                span.blocks().flat_map(|(first, bits)| first..first + (1 << bits)).collect();
            assert_eq!(numbers, (span.first..=span.last).collect::<Vec<_>>());
        }
        assert_eq!(Span::up_to(u32::MAX).blocks().collect::<Vec<_>>(), [(0, 32)]);
        assert_eq!(Span::up_to(1_048_575).blocks().collect::<Vec<_>>(), [(0, 20)]);
    }
}
