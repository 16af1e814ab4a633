//! `check --self`: asks the kernel what gpumap itself may open.
//!
//! An access probe on a device node runs the device programs without opening
//! the device. Creating a node cannot be asked this way.

use std::path::Path;

use crate::model::{Request, Verdict};
use crate::observe::own_access::{Access, AccessAnswer, probe};

/// The kernel's answer and, unless it allows, the reason.
pub(super) fn ask(path: &Path, request: Request) -> (Verdict, Option<String>) {
    let Some(access) = access(request) else {
        return (Verdict::Unknown, Some("access(2) cannot ask for mknod".to_owned()));
    };
    let (verdict, why) = match probe(path, access) {
        AccessAnswer::Allowed => return (Verdict::Allow, None),
        AccessAnswer::DevicePolicy => (Verdict::Deny, "refused by the device policy (EPERM)"),
        AccessAnswer::FilePermission => {
            (Verdict::Deny, "refused by file permissions, or by a program's own EACCES")
        }
        AccessAnswer::NoSuchFile => (Verdict::Unknown, "there is no such node"),
        AccessAnswer::NoDevice => (Verdict::Unknown, "there is no driver behind the node"),
        AccessAnswer::Unsupported => (Verdict::Unknown, "asking for an effective uid takes Linux 5.8"),
        AccessAnswer::Other(errno) => (Verdict::Unknown, errno.desc()),
    };
    (verdict, Some(why.to_owned()))
}

fn access(request: Request) -> Option<Access> {
    match request {
        Request::Exists => Some(Access::Exists),
        Request::Mknod => None,
        Request::Read => Some(Access::Read),
        Request::Write => Some(Access::Write),
        Request::ReadWrite => Some(Access::ReadWrite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that "allowed" and "no such node" are different answers.
    #[test]
    fn null_and_nothing() {
        assert_eq!(ask(Path::new("/dev/null"), Request::ReadWrite), (Verdict::Allow, None));
        assert_eq!(ask(Path::new("/dev/null"), Request::Mknod).0, Verdict::Unknown);
        assert_eq!(ask(Path::new("/dev/no-such-node"), Request::Read).0, Verdict::Unknown);
    }
}
