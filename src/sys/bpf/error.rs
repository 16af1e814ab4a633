//! Why bpf(2) failed.

use nix::errno::Errno;
use thiserror::Error;

/// `ENOTSUPP`, the kernel's internal "not supported" (`include/linux/errno.h`),
/// which bpf(2) lets out.
const ENOTSUPP: i32 = 524;

/// A bpf(2) command that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("bpf {command}: {}", describe(*.errno))]
pub struct BpfError {
    /// The command, as `linux/bpf.h` names it.
    pub command: &'static str,
    /// The error number.
    pub errno: i32,
}

impl BpfError {
    /// The object does not exist (any more): `ENOENT`, or `ENODEV` for a cgroup
    /// that is being removed.
    pub fn is_gone(&self) -> bool {
        matches!(self.errno, libc::ENOENT | libc::ENODEV)
    }

    /// A capability is missing, or a security module said no.
    pub fn is_refused(&self) -> bool {
        matches!(self.errno, libc::EPERM | libc::EACCES)
    }

    /// This kernel does not know the command for this object.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.errno, libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | ENOTSUPP)
    }
}

fn describe(errno: i32) -> String {
    match errno {
        ENOTSUPP => "ENOTSUPP: not supported".to_owned(),
        _ => Errno::from_raw(errno).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the kernel's internal number has a name.
    #[test]
    fn not_supported() {
        let error = BpfError { command: "x", errno: ENOTSUPP };
        assert!(error.is_unsupported() && error.to_string().contains("ENOTSUPP"));
    }
}
