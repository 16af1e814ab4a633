//! The only calls of [`super`] that change something. These here load and attach
//! programs that run at many functions of a file with one link (at their entries or
//! returns since Linux 6.6, at both since 6.13) and write into maps; the kernel removes
//! what they made when the descriptors are closed. Those of `device` replace device
//! programs of cgroups, which stays.

mod device;

use std::ffi::CStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use super::call::{Body, BpfCommand, BpfError, LinkHead, call, open, raw};
use super::map::{has_plain_values, map_info};

pub use device::{Swap, detach_device, load_device, pin, pinned, swap_device};

/// `BPF_PROG_TYPE_KPROBE`, the type of programs at functions.
const PROBE_PROGRAM: u32 = 2;
/// `BPF_TRACE_UPROBE_MULTI` and `BPF_TRACE_UPROBE_SESSION` of `enum bpf_attach_type`.
const UPROBE_MULTI: u32 = 48;
const UPROBE_SESSION: u32 = 57;
/// `BPF_F_UPROBE_MULTI_RETURN`.
const AT_RETURN: u32 = 1;

/// Instructions of programs that ask what the kernel can do: `call
/// bpf_get_attach_cookie`, `r0 = 0`, `exit`.
const GET_COOKIE: [u8; 8] = [0x85, 0, 0, 0, 174, 0, 0, 0];
const RETURN_0: [u8; 8] = [0xb7, 0, 0, 0, 0, 0, 0, 0];
const EXIT: [u8; 8] = [0x95, 0, 0, 0, 0, 0, 0, 0];

/// Where a program runs that has one link for many functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManyProbes {
    /// At their entries. Since Linux 6.6.
    Entries,
    /// At their returns. Since Linux 6.6.
    Returns,
    /// At both; at an entry the program says whether it wants the return. Since Linux
    /// 6.13.
    Sessions,
}

impl ManyProbes {
    fn attach_type(self) -> u32 {
        match self {
            Self::Entries | Self::Returns => UPROBE_MULTI,
            Self::Sessions => UPROBE_SESSION,
        }
    }
}

/// The beginning of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionEntry {
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// The number that the program gets for it (`bpf_get_attach_cookie`).
    pub cookie: u64,
}

/// Which type a function of a program has (`struct bpf_func_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FunctionType {
    /// Its first instruction, counted from the program's first.
    pub instruction: u32,
    /// The id of its type among the program's types.
    pub kind: u32,
}

/// The member of `BPF_BTF_LOAD`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct TypesBody {
    types: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    tail: u32,
}

// SAFETY: integers without padding, as in `linux/bpf.h`; 32 bytes.
unsafe impl Body for TypesBody {}

/// Loads the types of a program (BTF), for as long as the descriptor or a program that was
/// loaded with them is there. Since Linux 4.18.
///
/// # Errors
///
/// Refused without `CAP_BPF`, or for types that the kernel does not know.
pub fn load_types(types: &[u8]) -> Result<OwnedFd, BpfError> {
    let mut body = TypesBody {
        types: types.as_ptr() as u64,
        size: u32::try_from(types.len()).unwrap_or(u32::MAX),
        ..TypesBody::default()
    };
    // SAFETY: the kernel reads as many bytes as stated (it refuses `u32::MAX` unread); no
    // log is asked for.
    unsafe { open(BpfCommand::TypesLoad, &mut body) }
}

/// The member of `BPF_LINK_CREATE` with `uprobe_multi`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct LinkBody {
    head: LinkHead,
    path: u64,
    offsets: u64,
    reference_counters: u64,
    cookies: u64,
    count: u32,
    probe_flags: u32,
    pid: u32,
    tail: u32,
}

// SAFETY: integers without padding, as in `linux/bpf.h`; 64 bytes.
unsafe impl Body for LinkBody {}

/// Loads a program for many functions, under a name of at most 15 bytes (the rest is
/// cut). `instructions` are relocated, 8 bytes each. It is not sleepable: one
/// that waits for a user's page would make the kernel's RCU wait for that user
/// (synchronize_rcu_tasks_trace). Kernels may load what only newer ones attach.
/// `described` are the program's types and those of its functions: with them the verifier
/// looks at a global function once, in place of at each call.
///
/// # Errors
///
/// Refused without `CAP_BPF` and `CAP_PERFMON`, or by the verifier.
pub fn load_many(
    name: &str,
    probes: ManyProbes,
    license: &CStr,
    instructions: &[[u8; 8]],
    described: Option<(BorrowedFd<'_>, &[FunctionType])>,
) -> Result<OwnedFd, BpfError> {
    let (types, functions) = described.map_or((0, &[][..]), |(types, functions)| (raw(types), functions));
    let mut body = LoadBody {
        kind: PROBE_PROGRAM,
        instruction_count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        attach_type: probes.attach_type(),
        types,
        function_size: size_of::<FunctionType>() as u32,
        functions: functions.as_ptr() as u64,
        function_count: u32::try_from(functions.len()).unwrap_or(u32::MAX),
        ..LoadBody::default()
    };
    for (into, byte) in body.name.iter_mut().take(NAME_SIZE - 1).zip(name.bytes()) {
        *into = byte;
    }
    // SAFETY: the kernel reads as many instructions and functions as stated (it refuses
    // `u32::MAX` unread) and the licence to its end; no log is asked for.
    unsafe { open(BpfCommand::ProgramLoad, &mut body) }
}

/// Attaches a program to functions of a file: in every process that maps it, now and
/// later, or in one (with all its threads, over exec; before Linux 6.10 of some
/// programs with its first thread alone) and in no other. The link ends with its
/// descriptor.
///
/// # Errors
///
/// Unsupported on older kernels or if the file has no code there, `EBADF` if
/// it is no regular file, `ESRCH` if the process is gone.
pub fn attach_many(
    program: BorrowedFd<'_>,
    probes: ManyProbes,
    file: &CStr,
    entries: &[FunctionEntry],
    pid: Option<u32>,
) -> Result<OwnedFd, BpfError> {
    let offsets: Vec<u64> = entries.iter().map(|entry| entry.offset).collect();
    let cookies: Vec<u64> = entries.iter().map(|entry| entry.cookie).collect();
    let mut body = LinkBody {
        head: LinkHead::of(program, probes.attach_type()),
        probe_flags: if probes == ManyProbes::Returns { AT_RETURN } else { 0 },
        path: file.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        count: u32::try_from(entries.len()).unwrap_or(u32::MAX),
        pid: pid.unwrap_or(0),
        ..LinkBody::default()
    };
    // SAFETY: the kernel reads the path to its end, and as many offsets and
    // cookies as stated (it refuses `u32::MAX` unread).
    unsafe { open(BpfCommand::LinkCreate, &mut body) }
}

/// Whether this kernel attaches such programs, asked with one that does nothing: a kernel
/// that does says that a directory is no file, all others do not come so far.
pub fn has_many(probes: ManyProbes) -> bool {
    let nowhere = [FunctionEntry { offset: 1, cookie: 0 }];
    let attached = load_many("gpumap_asks", probes, c"GPL", &[RETURN_0, EXIT], None)
        .and_then(|program| attach_many(program.as_fd(), probes, c"/", &nowhere, None));
    matches!(attached, Err(BpfError { errno: libc::EBADF, .. }))
}

/// Whether this kernel refuses programs that ask for the cookie of their probe
/// (`bpf_get_attach_cookie`), as those before Linux 5.15 do. False where another thing
/// stands in the way, such as a missing right.
pub fn refuses_cookies() -> bool {
    let loaded = load_many("gpumap_asks", ManyProbes::Entries, c"GPL", &[GET_COOKIE, RETURN_0, EXIT], None);
    matches!(loaded, Err(BpfError { errno: libc::EINVAL, .. }))
}

/// The member of `BPF_MAP_UPDATE_ELEM`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct UpdateBody {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

// SAFETY: the layout of the element commands, the hole named.
unsafe impl Body for UpdateBody {}

/// Puts an entry into a map of gpumap's own, in place of the one that the key
/// has. Since Linux 3.18.
///
/// # Errors
///
/// `EINVAL` if key or value have another size than the map's, or if the map
/// is not one from keys to single values; else those of bpf(2), `E2BIG` if the map is full.
pub fn put(map: BorrowedFd<'_>, key: &[u8], value: &[u8]) -> Result<(), BpfError> {
    let info = map_info(map)?;
    let fits = key.len() == info.key_size as usize && value.len() == info.value_size as usize;
    if !fits || !has_plain_values(&info) {
        return Err(BpfError { command: BpfCommand::MapUpdate.name(), errno: libc::EINVAL });
    }
    let mut body = UpdateBody {
        map: raw(map),
        key: key.as_ptr() as u64,
        value: value.as_ptr() as u64,
        ..UpdateBody::default()
    };
    // SAFETY: key and value are as long as the kernel reads: the sizes of the
    // map, which never change, were compared.
    unsafe { call(BpfCommand::MapUpdate, &mut body) }.map(drop)
}

/// Takes an entry out of a map of gpumap's own; one that is not there is no
/// error. Since Linux 3.18.
///
/// # Errors
///
/// `EINVAL` if the key has another size than the map's, or if the map is not one
/// from keys to single values; else those of bpf(2).
pub fn remove(map: BorrowedFd<'_>, key: &[u8]) -> Result<(), BpfError> {
    let info = map_info(map)?;
    if key.len() != info.key_size as usize || !has_plain_values(&info) {
        return Err(BpfError { command: BpfCommand::MapDelete.name(), errno: libc::EINVAL });
    }
    let mut body = UpdateBody { map: raw(map), key: key.as_ptr() as u64, ..UpdateBody::default() };
    // SAFETY: the key is as long as the kernel reads: the size of the map's keys,
    // which never changes, was compared.
    match unsafe { call(BpfCommand::MapDelete, &mut body) } {
        Err(error) if error.is_gone() => Ok(()),
        result => result.map(drop),
    }
}

/// `BPF_OBJ_NAME_LEN`, with the end.
const NAME_SIZE: usize = 16;

/// The member of `BPF_PROG_LOAD` up to `line_info_rec_size`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct LoadBody {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_SIZE],
    ifindex: u32,
    attach_type: u32,
    types: u32,
    function_size: u32,
    functions: u64,
    function_count: u32,
    line_size: u32,
}

// SAFETY: integers without padding, as in `linux/bpf.h`; 96 bytes.
unsafe impl Body for LoadBody {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the structures have the kernel's layout.
    #[test]
    fn layout() {
        assert_eq!(std::mem::offset_of!(LoadBody, name), 48);
        assert_eq!(std::mem::offset_of!(LoadBody, attach_type), 68);
        assert_eq!(std::mem::offset_of!(LoadBody, functions), 80);
        assert_eq!(size_of::<LoadBody>(), 96);
        assert_eq!(std::mem::offset_of!(LinkBody, path), 16);
        assert_eq!(std::mem::offset_of!(LinkBody, pid), 56);
        assert_eq!(size_of::<LinkBody>(), 64);
    }
}
