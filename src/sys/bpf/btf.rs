//! Reads type information by id.

use std::os::fd::AsRawFd;

use super::call::{BpfCommand, fd_by_id, info};
use super::error::BpfError;

/// Most bytes of types that are read; the kernel takes 16 MiB (`BTF_MAX_SIZE`),
/// and those of a program are some kilobytes.
const MAX_BYTES: u32 = 1 << 20;

/// `struct bpf_btf_info`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct RawInfo {
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
    let mut raw = RawInfo::default();
    // SAFETY: `RawInfo` is `bpf_btf_info`; both lengths are 0.
    unsafe { info(fd.as_raw_fd(), &mut raw)? };
    if raw.size > MAX_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0_u8; raw.size as usize];
    let mut raw = RawInfo { btf: bytes.as_mut_ptr() as u64, size: raw.size, ..RawInfo::default() };
    // SAFETY: `bytes` has room for `size` bytes.
    unsafe { info(fd.as_raw_fd(), &mut raw)? };
    bytes.truncate(raw.size as usize);
    Ok(Some(bytes))
}
