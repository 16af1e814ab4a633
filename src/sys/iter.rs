//! BPF iterators: programs that the kernel runs for each process, file or
//! cgroup while a descriptor is read. Written over bpf(2) because no crate
//! passes on where an iterator over cgroups begins.
//!
//! A link of this kind attaches its program to nothing but the descriptors
//! that are opened of it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::bpf::{Body, BpfCommand, BpfError, LinkHead, open, raw};

/// `BPF_TRACE_ITER` of `enum bpf_attach_type`.
const TRACE_ITER: u32 = 28;
/// `BPF_CGROUP_ITER_DESCENDANTS_PRE` of `enum bpf_cgroup_iter_order`.
const PARENTS_FIRST: u32 = 2;

/// A loaded program, ready to run over what its type says.
#[derive(Debug)]
pub struct Iterator(OwnedFd);

/// The member of `BPF_LINK_CREATE` up to the iterator's part.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct LinkBody {
    head: LinkHead,
    info: u64,
    info_len: u32,
    padding: u32,
}

// SAFETY: the layout of `bpf_attr.link_create`, its tail named.
unsafe impl Body for LinkBody {}

/// The cgroup member of `union bpf_iter_link_info`, which has this size.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct CgroupInfo {
    order: u32,
    fd: u32,
    id: u64,
}

/// The member of `BPF_ITER_CREATE`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct IterBody {
    link: u32,
    flags: u32,
}

// SAFETY: two u32, as in `linux/bpf.h`.
unsafe impl Body for IterBody {}

impl Iterator {
    /// One over all processes, threads or files, as the program's type says.
    /// Since Linux 5.8; needs `CAP_BPF` and `CAP_PERFMON`.
    ///
    /// # Errors
    ///
    /// Those of bpf(2).
    pub fn over_all(program: BorrowedFd<'_>) -> Result<Self, BpfError> {
        Self::create(LinkBody { head: LinkHead::of(program, TRACE_ITER), ..LinkBody::default() })
    }

    /// An iterator over a cgroup and everything below, parents first. Since Linux
    /// 6.1; needs `CAP_BPF` and `CAP_PERFMON`.
    ///
    /// # Errors
    ///
    /// bpf(2) failed; `EBADF` for a descriptor of anything but a cgroup2 directory
    /// (one opened with `O_PATH` will not do).
    pub fn over_cgroups(program: BorrowedFd<'_>, top: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let info = CgroupInfo { order: PARENTS_FIRST, fd: raw(top), id: 0 };
        Self::create(LinkBody {
            head: LinkHead::of(program, TRACE_ITER),
            info: std::ptr::from_ref(&info) as u64,
            info_len: size_of::<CgroupInfo>() as u32,
            ..LinkBody::default()
        })
    }

    fn create(mut body: LinkBody) -> Result<Self, BpfError> {
        // SAFETY: the address, if there is one, is that of a `CgroupInfo` that
        // outlives the call and is as long as stated; the kernel only reads it.
        unsafe { open(BpfCommand::LinkCreate, &mut body) }.map(Self)
    }

    /// A descriptor that runs the program over everything once, as it is read
    /// to its end.
    ///
    /// # Errors
    ///
    /// Those of bpf(2).
    pub fn open(&self) -> Result<File, BpfError> {
        let mut body = IterBody { link: raw(self.0.as_fd()), flags: 0 };
        // SAFETY: no addresses in the body.
        unsafe { open(BpfCommand::IterCreate, &mut body) }.map(File::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a descriptor of something else than a program is refused, with
    /// its name.
    #[test]
    fn refused() {
        let file = File::open("/dev/null").unwrap();
        let error = Iterator::over_all(file.as_fd()).unwrap_err();
        assert!(error.to_string().starts_with("bpf BPF_LINK_CREATE: E"), "{error}");
        assert!(Iterator::over_cgroups(file.as_fd(), file.as_fd()).is_err());
    }
}
