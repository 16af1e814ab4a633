//! The attribute that loads a program.

use crate::sys::bpf::call::Body;

/// `BPF_OBJ_NAME_LEN`, with the end.
pub(super) const NAME_SIZE: usize = 16;

/// The member of `BPF_PROG_LOAD` up to `line_info_rec_size`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct LoadBody {
    pub(super) kind: u32,
    pub(super) instruction_count: u32,
    pub(super) instructions: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log: u64,
    pub(super) kernel_version: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; NAME_SIZE],
    pub(super) ifindex: u32,
    pub(super) attach_type: u32,
    pub(super) types: u32,
    pub(super) function_size: u32,
    pub(super) functions: u64,
    pub(super) function_count: u32,
    pub(super) line_size: u32,
}

// SAFETY: integers without padding, as in `linux/bpf.h`; 96 bytes.
unsafe impl Body for LoadBody {}
