//! Reads programs by id: what they are, and their translated instructions.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::call::{BpfCommand, BpfError, fd_by_id, info};

/// `BPF_PROG_TYPE_CGROUP_DEVICE`.
pub const CGROUP_DEVICE_PROGRAM: u32 = 15;
/// `BPF_PROG_TYPE_EXT`: takes the place of a function of another program.
pub const EXTENSION_PROGRAM: u32 = 28;
/// The longest translated program that is read, in bytes. The verifier takes
/// up to a million instructions of 8 bytes; rewriting can lengthen them.
pub const MAX_PROGRAM_BYTES: usize = 64 << 20;

/// Room at first, enough for nearly all device programs in one call.
const FIRST_BYTES: usize = 4096;
const FIRST_MAPS: usize = 64;
/// `MAX_USED_MAPS` of the kernel's verifier is 64; later kernels may take more.
const MAX_MAPS: usize = 4096;

/// One loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Kernel-wide id.
    pub id: u32,
    /// `BPF_PROG_TYPE_*`.
    pub kind: u32,
    /// Hash of the instructions as loaded.
    pub tag: [u8; 8],
    /// Name without the padding (since Linux 4.15), often empty.
    pub name: Vec<u8>,
    /// Whether the licence is GPL compatible (since Linux 4.18; before: false).
    pub gpl_compatible: bool,
    /// Nanoseconds since boot, suspend included (since Linux 4.15).
    pub load_time: u64,
    /// Uid that loaded it (since Linux 4.15).
    pub uid: u32,
    /// Ids of its maps (since Linux 4.15); empty without `CAP_SYS_ADMIN` or
    /// `CAP_BPF`.
    pub map_ids: Vec<u32>,
    /// Whether it was loaded with types (BTF, since Linux 5.0).
    pub has_types: bool,
    /// Its translated instructions.
    pub xlated: Xlated,
}

/// The kernel's answer to a request for the translated instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Xlated {
    /// The bytes, 8 an instruction.
    Bytes(Vec<u8>),
    /// Length 0: the caller has neither `CAP_BPF` nor `CAP_SYS_ADMIN`.
    NoRight,
    /// The buffer's address came back as 0 and nothing was written: the program
    /// is blinded, and the caller may not see kernel addresses.
    Blinded,
    /// Longer than [`MAX_PROGRAM_BYTES`].
    TooLong(usize),
}

/// `struct bpf_prog_info` up to `btf_id`. Counts of further lists are 0, so that
/// the kernel writes to none of their addresses.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    jited_len: u32,
    xlated_len: u32,
    jited: u64,
    xlated: u64,
    load_time: u64,
    uid: u32,
    map_count: u32,
    map_ids: u64,
    name: [u8; 16],
    ifindex: u32,
    bits: u32,
    netns: [u64; 2],
    jited_counts: [u32; 2],
    jited_lists: [u64; 2],
    types: u32,
    function_size: u32,
}

/// Opens a program by id. Since Linux 4.13; needs `CAP_SYS_ADMIN`.
///
/// # Errors
///
/// `Gone` if no program has the id, `Refused` without the right.
pub fn program_by_id(id: u32) -> Result<OwnedFd, BpfError> {
    fd_by_id(BpfCommand::ProgramById, id, 0)
}

/// Reads a program's info, instructions and map ids. Since Linux 4.13.
///
/// # Errors
///
/// Those of bpf(2).
pub fn program_info(program: BorrowedFd<'_>) -> Result<ProgramInfo, BpfError> {
    let (raw, bytes, maps) = read(program, FIRST_BYTES, FIRST_MAPS)?;
    let (length, count) = (raw.xlated_len as usize, raw.map_count as usize);
    if length <= bytes.len() && count <= maps.len() || length > MAX_PROGRAM_BYTES {
        return Ok(build(&raw, bytes, maps));
    }
    let (raw, bytes, maps) = read(program, length, count.min(MAX_MAPS))?;
    Ok(build(&raw, bytes, maps))
}

fn read(
    program: BorrowedFd<'_>,
    bytes: usize,
    maps: usize,
) -> Result<(RawInfo, Vec<u8>, Vec<u32>), BpfError> {
    let (mut bytes, mut maps) = (vec![0; bytes], vec![0; maps]);
    let mut raw = RawInfo {
        xlated_len: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
        xlated: bytes.as_mut_ptr() as u64,
        map_count: u32::try_from(maps.len()).unwrap_or(u32::MAX),
        map_ids: maps.as_mut_ptr() as u64,
        ..RawInfo::default()
    };
    // SAFETY: `RawInfo` is a prefix of `bpf_prog_info`; both buffers are as
    // long as stated (at most `MAX_PROGRAM_BYTES`); no other address is set.
    unsafe { info(program.as_raw_fd(), &mut raw)? };
    Ok((raw, bytes, maps))
}

fn build(raw: &RawInfo, mut bytes: Vec<u8>, mut maps: Vec<u32>) -> ProgramInfo {
    let length = raw.xlated_len as usize;
    let xlated = match () {
        () if length == 0 => Xlated::NoRight,
        () if raw.xlated == 0 => Xlated::Blinded,
        () if length > bytes.len() => Xlated::TooLong(length),
        () => {
            bytes.truncate(length);
            Xlated::Bytes(bytes)
        }
    };
    maps.truncate(raw.map_count as usize);
    let name = raw.name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
    ProgramInfo {
        id: raw.id,
        kind: raw.kind,
        tag: raw.tag,
        name,
        gpl_compatible: raw.bits & 1 != 0,
        load_time: raw.load_time,
        uid: raw.uid,
        map_ids: maps,
        has_types: raw.types != 0,
        xlated,
    }
}

/// Most bytes of types that are read; the kernel takes 16 MiB (`BTF_MAX_SIZE`),
/// and those of a program are some kilobytes.
const MAX_BYTES: u32 = 1 << 20;

/// `struct bpf_btf_info`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawBtfInfo {
    btf: u64,
    size: u32,
    id: u32,
    name: u64,
    name_length: u32,
    is_kernel: u32,
}

/// The types with this id, raw; `None` if they are too many. Since Linux 4.18;
/// needs `CAP_SYS_ADMIN`.
///
/// # Errors
///
/// Those of bpf(2).
pub fn types_by_id(id: u32) -> Result<Option<Vec<u8>>, BpfError> {
    let fd = fd_by_id(BpfCommand::TypesById, id, 0)?;
    let mut raw = RawBtfInfo::default();
    // SAFETY: `RawBtfInfo` is `bpf_btf_info`; both lengths are 0.
    unsafe { info(fd.as_raw_fd(), &mut raw)? };
    if raw.size > MAX_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0_u8; raw.size as usize];
    let mut raw = RawBtfInfo { btf: bytes.as_mut_ptr() as u64, size: raw.size, ..RawBtfInfo::default() };
    // SAFETY: `bytes` has room for `size` bytes.
    unsafe { info(fd.as_raw_fd(), &mut raw)? };
    bytes.truncate(raw.size as usize);
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a buffer the kernel did not write is never taken for
    /// instructions.
    #[test]
    fn refused_dumps_are_told_apart() {
        let build = |xlated_len, xlated| {
            build(&RawInfo { xlated_len, xlated, ..RawInfo::default() }, vec![0; 16], Vec::new()).xlated
        };
        assert_eq!(build(0, 1), Xlated::NoRight);
        assert_eq!(build(16, 0), Xlated::Blinded);
        assert_eq!(build(24, 1), Xlated::TooLong(24));
        assert_eq!(build(8, 1), Xlated::Bytes(vec![0; 8]));
    }

    /// Make sure that the structure has the kernel's layout.
    #[test]
    fn layout() {
        assert_eq!(std::mem::offset_of!(RawInfo, load_time), 40);
        assert_eq!(std::mem::offset_of!(RawInfo, map_ids), 56);
        assert_eq!(std::mem::offset_of!(RawInfo, bits), 84);
        assert_eq!(std::mem::offset_of!(RawInfo, types), 128);
        assert_eq!(size_of::<RawInfo>(), 136);
    }
}
