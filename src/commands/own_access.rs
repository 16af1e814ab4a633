//! `check --self`: what the kernel says gpumap itself may open.
//!
//! access(2) on a device node runs the device programs without opening the
//! device. They answer EPERM; file permissions answer EACCES. Creating a node
//! cannot be asked this way.

use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags};
use nix::unistd::{AccessFlags, faccessat};

use crate::policy::device::{Request, Verdict};

/// The kernel's answer and, unless it is a plain yes, what was in the way.
pub(super) fn ask(path: &Path, request: Request) -> (Verdict, Option<&'static str>) {
    let Some(flags) = flags(request) else {
        return (Verdict::Unknown, Some("access(2) cannot ask for mknod"));
    };
    match faccessat(AT_FDCWD, path, flags, AtFlags::AT_EACCESS) {
        Ok(()) => (Verdict::Allow, None),
        Err(Errno::EPERM) => (Verdict::Deny, Some("refused by the device cgroup (EPERM)")),
        Err(Errno::EACCES) => {
            (Verdict::Deny, Some("refused by file permissions, or by a program's own error (EACCES)"))
        }
        Err(Errno::ENOENT) => (Verdict::Unknown, Some("there is no such node")),
        Err(error) => (Verdict::Unknown, Some(error.desc())),
    }
}

fn flags(request: Request) -> Option<AccessFlags> {
    match request {
        Request::Exists => Some(AccessFlags::F_OK),
        Request::Mknod => None,
        Request::Read => Some(AccessFlags::R_OK),
        Request::Write => Some(AccessFlags::W_OK),
        Request::ReadWrite => Some(AccessFlags::R_OK | AccessFlags::W_OK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the two ends of the scale are told apart.
    #[test]
    fn null_and_nothing() {
        assert_eq!(ask(Path::new("/dev/null"), Request::ReadWrite), (Verdict::Allow, None));
        assert_eq!(ask(Path::new("/dev/null"), Request::Mknod).0, Verdict::Unknown);
        assert_eq!(ask(Path::new("/dev/no-such-node"), Request::Read).0, Verdict::Unknown);
    }
}
