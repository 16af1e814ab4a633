//! What the kernel side of refusals writes, as `bpf/denials.h` lays it out.

use crate::model::{Device, DeviceType, Request};
use crate::sys::fields::Fields;

/// Bytes of a command's name (`DENIAL_COMM`), of `struct denial_key` and of `struct denial`.
const COMM: usize = 16;
const KEY: usize = 40;
const SUM: usize = 32 + COMM;

/// `struct denial_key`: who was refused what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DenialKey {
    /// Start of the process, in nanoseconds since boot.
    pub(super) start: u64,
    /// Id of its thread's cgroup.
    pub(super) cgroup: u64,
    pub(super) pid: u32,
    /// The user who answers for it, by `bpf/task.h`.
    pub(super) account: u32,
    pub(super) device: Device,
    pub(super) request: Request,
    /// The kernel's answer, a negative errno.
    pub(super) error: i32,
}

impl DenialKey {
    /// `None` for what is malformed, or no question that the kernel asks.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Fields(bytes.get(..KEY)?);
        let [start, cgroup] = from.longs()?;
        let [pid, account, major, minor] = from.words()?;
        let kind = match from.half()? {
            1 => DeviceType::Block,
            2 => DeviceType::Char,
            _ => return None,
        };
        let bits = u32::from(from.half()?);
        let request = Request::ALL.into_iter().find(|request| request.bits() == bits)?;
        let device = Device { kind, major, minor };
        Some(Self { start, cgroup, pid, account, device, request, error: from.word()?.cast_signed() })
    }
}

/// `struct denial`: how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DenialSum {
    /// When it was refused first and last, in nanoseconds since boot.
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) count: u64,
    /// Effective uid, and the name of its command, at the first.
    pub(super) uid: u32,
    pub(super) comm: Vec<u8>,
}

impl DenialSum {
    /// `None` for what is malformed.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut from = Fields(bytes.get(..SUM)?);
        let [first, last, count] = from.longs()?;
        let [uid, _] = from.words()?;
        let comm = from.text::<COMM>()?.to_vec();
        Some(Self { first, last, count, uid, comm })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: u16, access: u16) -> Vec<u8> {
        let mut bytes = [5_000_u64, 77].map(u64::to_ne_bytes).concat();
        bytes.extend([31_337_u32, 1000, 195, 3].map(u32::to_ne_bytes).concat());
        bytes.extend([kind, access].map(u16::to_ne_bytes).concat());
        bytes.extend((-1_i32).to_ne_bytes());
        bytes
    }

    /// Make sure that what the kernel side wrote is read, and that what it cannot have
    /// written is nothing.
    #[test]
    fn layout() {
        let read = DenialKey::read(&key(2, 6)).unwrap();
        assert_eq!((read.start, read.cgroup, read.pid, read.account), (5_000, 77, 31_337, 1000));
        assert_eq!(
            (read.device.to_string(), read.request, read.error),
            ("c 195:3".into(), Request::ReadWrite, -1)
        );
        assert_eq!(DenialKey::read(&key(1, 1)).unwrap().request, Request::Mknod);
        for malformed in [key(3, 6), key(2, 7), key(2, 6)[..KEY - 1].to_vec(), Vec::new()] {
            assert_eq!(DenialKey::read(&malformed), None);
        }
        let mut sum = [10_u64, 20, 214].map(u64::to_ne_bytes).concat();
        sum.extend([1000_u32, 0].map(u32::to_ne_bytes).concat());
        sum.extend(b"python3\0garbage!");
        let read = DenialSum::read(&sum).unwrap();
        assert_eq!((read.first, read.last, read.count, read.uid), (10, 20, 214, 1000));
        assert_eq!((read.comm, DenialSum::read(&sum[1..])), (b"python3".to_vec(), None));
    }
}
