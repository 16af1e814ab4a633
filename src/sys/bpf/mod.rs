//! A typed part of bpf(2): what is attached to a cgroup, what those programs
//! are, what their maps hold.
//!
//! Written over `libc::syscall` because no crate has these calls whole, and
//! because the size of the attribute matters: kernels 6.17 to 6.18.39 and 6.19
//! to 7.1.4 write 64 bytes whatever size the caller states (CVE-2026-74371),
//! so every call here passes at least [`MIN_ATTR_SIZE`] bytes.
//!
//! All of it reads but what is in `attach`: nothing else here loads, attaches,
//! detaches or changes anything; nor do the iterators of [`super::iter`], which use
//! the same call.

mod attach;
mod call;
mod link;
mod map;
mod misses;
mod program;
mod query;

pub use attach::{
    FunctionEntry, FunctionType, ManyProbes, Swap, attach_many, detach_device, has_many, load_device,
    load_many, load_types, pin, pinned, put, refuses_cookies, remove, swap_device,
};
pub(super) use call::{Body, BpfCommand, LinkHead, open, raw};
pub use call::{BpfError, MIN_ATTR_SIZE};
pub use link::{
    LinkInfo, TracingLink, lacks_links, link_by_id, link_info, link_of, next_link_id, tracing_link,
};
pub use map::{ContentLimits, Contents, MapInfo, contents, map_by_id, map_frozen, map_info, possible_cpus};
pub use misses::{probe_misses, program_misses};
pub use program::{
    CGROUP_DEVICE_PROGRAM, EXTENSION_PROGRAM, MAX_PROGRAM_BYTES, ProgramInfo, Xlated, program_by_id,
    program_info, types_by_id,
};
pub use query::{ListKind, MAX_QUERY_IDS, Query, query};
