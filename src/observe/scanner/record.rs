//! Records of the iterators, as `bpf/scan.h` lays them out.

use crate::observation::Text;
use crate::sys::stat::FileKind;

/// Nanoseconds of a clock tick of `/proc` (`USER_HZ` is 100 everywhere).
pub(super) const TICK: u64 = 10_000_000;
/// Sizes of `struct scan_task` and `struct scan_file`.
const TASK: usize = 72;
const COMM: usize = 16;
const FILE: usize = 32;
/// `SCAN_NO_PROCESS` of `enum scan_flag`.
const NO_PROCESS: u32 = 1;
/// Bits of a minor number in the kernel's `dev_t` (`linux/kdev_t.h`).
const MINOR_BITS: u32 = 20;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    pub(super) program: (u64, u64),
    /// Counts the programs that it has executed, as its first thread sees it.
    pub(super) executed: u64,
    pub(super) uid: u32,
    pub(super) comm: Text,
    pub(super) cgroup: u64,
    /// Whether it is neither a thread of the kernel nor has ended.
    pub(super) is_process: bool,
}

/// A device that a thread has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) pid: u32,
    pub(super) start_time: u64,
    /// Only for comparing.
    pub(super) table: u64,
    pub(super) thread: u32,
    pub(super) kind: FileKind,
    pub(super) rdev: (u32, u32),
}

/// The first record of a process and its length; `None` if it is not whole.
pub(super) fn task(bytes: &[u8]) -> Option<(Task, usize)> {
    let comm = bytes.get(TASK - COMM..TASK)?.split(|byte| *byte == 0).next()?;
    let (code, is_process) = (long(bytes, 16)?, word(bytes, 48)? & NO_PROCESS == 0);
    let task = Task {
        pid: word(bytes, 40)?,
        start_time: long(bytes, 0)? / TICK,
        program: (code, long(bytes, 24)?),
        executed: long(bytes, 32)?,
        uid: word(bytes, 44)?,
        comm: comm.into(),
        cgroup: long(bytes, 8)?,
        is_process,
    };
    Some((task, TASK))
}

/// The first record of a file and its length; `None` if it is not whole.
pub(super) fn open(bytes: &[u8]) -> Option<(Open, usize)> {
    let rdev = word(bytes, 20)?;
    let open = Open {
        pid: word(bytes, 16)?,
        start_time: long(bytes, 0)? / TICK,
        table: long(bytes, 8)?,
        thread: word(bytes, 28)?,
        kind: if word(bytes, 24)? == 0 { FileKind::Char } else { FileKind::Block },
        rdev: (rdev >> MINOR_BITS, rdev & ((1 << MINOR_BITS) - 1)),
    };
    Some((open, FILE))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(flags: u32) -> Vec<u8> {
        let mut record = Vec::new();
        for long in [77 * TICK + 1, 9, 10, 11, 3_u64] {
            record.extend(long.to_ne_bytes());
        }
        for word in [31, 1000, flags, 0] {
            record.extend(u32::to_ne_bytes(word));
        }
        record.extend(b"python3\0\0\0\0\0\0\0\0\0");
        assert_eq!(record.len(), TASK);
        record
    }

    /// Make sure that records of several processes are read in a row.
    #[test]
    fn processes() {
        let two = [record(0), record(NO_PROCESS)].concat();
        let (first, length) = task(&two).unwrap();
        let expected = Task {
            pid: 31,
            start_time: 77,
            program: (10, 11),
            executed: 3,
            uid: 1000,
            comm: "python3".into(),
            cgroup: 9,
            is_process: true,
        };
        assert_eq!((first, length), (expected, TASK));
        assert!(!task(&two[length..]).unwrap().0.is_process);
        assert!((0..TASK).all(|length| task(&two[..length]).is_none()));
    }

    /// Make sure that device numbers are taken apart as the kernel joins them.
    #[test]
    fn files() {
        let mut record = Vec::new();
        record.extend((77 * TICK).to_ne_bytes());
        record.extend(5_u64.to_ne_bytes());
        for word in [31, 195 << 20 | 255, 0, 32] {
            record.extend(u32::to_ne_bytes(word));
        }
        let expected =
            Open { pid: 31, start_time: 77, table: 5, thread: 32, kind: FileKind::Char, rdev: (195, 255) };
        assert_eq!(open(&record), Some((expected, FILE)));
        assert!((0..FILE).all(|length| open(&record[..length]).is_none()));
    }
}
