//! How often the kernel did not run a program that it should have run, as far as it counts
//! that. A kernel that does not count leaves the answer as it was: then it is not known.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::call::{BpfError, info};

/// What no kernel counts to.
const NOT_COUNTED: u64 = u64::MAX;

/// `struct bpf_prog_info` up to `recursion_misses`. Counts of lists are 0, so that the kernel
/// writes to none of their addresses.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawProgram {
    before: [u64; 26],
    recursion_misses: u64,
}

/// `struct bpf_link_info` up to `perf_event.kprobe.missed`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawProbe {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    event_type: u32,
    event_padding: u32,
    function_name: u64,
    name_length: u32,
    offset: u32,
    address: u64,
    missed: u64,
}

/// `BPF_LINK_TYPE_PERF_EVENT`.
const PERF_LINK: u32 = 7;
/// `BPF_PERF_EVENT_KPROBE` and `BPF_PERF_EVENT_KRETPROBE` of `enum bpf_perf_event_type`.
const KPROBES: [u32; 2] = [3, 4];

/// How often a program was not run because another one was at work on the processor: those
/// at trampolines since Linux 5.12, those at kprobes since 6.7. `None` before 5.12.
///
/// # Errors
///
/// Those of bpf(2).
pub fn program_misses(program: BorrowedFd<'_>) -> Result<Option<u64>, BpfError> {
    let mut raw = RawProgram { before: [0; 26], recursion_misses: NOT_COUNTED };
    // SAFETY: `RawProgram` is a prefix of `bpf_prog_info` without any address.
    counted(unsafe { info(program.as_raw_fd(), &mut raw) }, || raw.recursion_misses)
}

/// How often a kprobe or kretprobe was not hit, or its return found no room, by the link of
/// the program. `None` before Linux 6.7, and for links of other kinds.
///
/// # Errors
///
/// Those of bpf(2).
pub fn probe_misses(link: BorrowedFd<'_>) -> Result<Option<u64>, BpfError> {
    let mut raw = RawProbe {
        kind: 0,
        id: 0,
        program: 0,
        padding: 0,
        event_type: 0,
        event_padding: 0,
        function_name: 0,
        name_length: 0,
        offset: 0,
        address: 0,
        missed: NOT_COUNTED,
    };
    // SAFETY: `RawProbe` is a prefix of `bpf_link_info`; the address of a name is null and
    // its length 0. Of other kinds of links no member before `missed` is an address with a
    // length that is not 0 too.
    let done = unsafe { info(link.as_raw_fd(), &mut raw) };
    let found = counted(done, || raw.missed)?;
    Ok(found.filter(|_| raw.kind == PERF_LINK && KPROBES.contains(&raw.event_type)))
}

/// A count that the kernel has written. An older kernel refuses a larger structure that has
/// anything in its rest (`bpf_check_uarg_tail_zero`).
fn counted(done: Result<(), BpfError>, count: impl FnOnce() -> u64) -> Result<Option<u64>, BpfError> {
    match done {
        Ok(()) => Ok(Some(count()).filter(|count| *count != NOT_COUNTED)),
        Err(error) if error.errno == libc::E2BIG => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    /// Make sure that the counts are read from their places in `linux/bpf.h`.
    #[test]
    fn layout() {
        assert_eq!((offset_of!(RawProgram, recursion_misses), size_of::<RawProgram>()), (208, 216));
        assert_eq!((offset_of!(RawProbe, missed), size_of::<RawProbe>()), (48, 56));
    }

    /// Make sure that what no kernel wrote, and what an older one refuses, is not known.
    #[test]
    fn not_counted() {
        let failed = |errno| Err(BpfError { command: "BPF_OBJ_GET_INFO_BY_FD", errno });
        assert_eq!(counted(Ok(()), || 7), Ok(Some(7)));
        assert_eq!(counted(Ok(()), || NOT_COUNTED), Ok(None));
        assert_eq!(counted(failed(libc::E2BIG), || 7), Ok(None));
        assert!(counted(failed(libc::EPERM), || 7).is_err());
    }
}
