//! System calls that no crate wraps as gpumap needs them. The only unsafe
//! code of the crate lives here, one small function around each call.

#![allow(unsafe_code)]

pub mod absence;
pub mod access;
pub mod bpf;
pub mod caps;
pub mod clock;
pub mod dir;
pub mod fields;
pub mod file_handle;
pub mod freezer;
pub mod heap;
pub mod helper;
pub mod iter;
pub mod kernel;
#[cfg(feature = "libbpf")]
pub mod libbpf;
pub mod locked_memory;
pub mod mappings;
pub mod namespace;
pub mod notify;
pub mod pidfd;
pub mod probed;
pub mod program;
pub mod regular_file;
pub mod retry;
pub mod seccomp;
pub mod spawn;
pub mod stat;
pub mod test_hook;
pub mod window;
