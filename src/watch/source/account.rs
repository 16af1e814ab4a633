//! To whom a process's libraries are charged.

use std::os::fd::OwnedFd;

use crate::sys::dir::Dir;
use crate::sys::namespace;
use crate::sys::stat::stat_at;

/// Bytes of `/proc/PID/status`, and user namespaces inside of each other (the
/// kernel allows 32).
const LIMIT: usize = 64 << 10;
const LEVELS: usize = 33;

/// The user who answers for a process, by uid: its real one (that of its
/// directory in `/proc` is root's where it is not dumpable). Of a process in a
/// user namespace, the one who made the outermost, for there a user is many
/// uids. `own`: the inode number of gpumap's user namespace.
///
/// `None` for a process that is gone.
pub(super) fn of(process: &Dir, own: Option<u64>) -> Option<u32> {
    let namespace = process.child(c"ns").and_then(|ns| namespace::open(&ns, c"user")).ok()?;
    if let Some(maker) = maker(namespace, own) {
        return Some(maker);
    }
    let mut status = Vec::new();
    process.read_into(c"status", &mut status, LIMIT).ok()?;
    uid(&status)
}

/// Who made the outermost namespace below this process's; `None` if it is this
/// process's.
fn maker(mut namespace: OwnedFd, own: Option<u64>) -> Option<u32> {
    let mut found = None;
    for _ in 0..LEVELS {
        if stat_at(&namespace, c"").ok().map(|stat| stat.inode) == own {
            break;
        }
        found = namespace::maker(&namespace).ok();
        let Ok(parent) = namespace::parent(&namespace) else { break };
        namespace = parent;
    }
    found
}

/// The first number of the line `Uid:`.
fn uid(status: &[u8]) -> Option<u32> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that this process is charged to who runs it.
    #[test]
    fn own() {
        let process = Dir::open("/proc/self".as_ref()).unwrap();
        let user = super::super::ground::Grounds::new().user();
        assert_eq!(of(&process, user), Some(nix::unistd::getuid().as_raw()));
        assert_eq!(uid(b"Name:\ta\nUid:\t7\t8\t9\t10\nGid:\t1\n"), Some(7));
        assert_eq!(uid(b"Name:\tUid:\n"), None);
    }
}
