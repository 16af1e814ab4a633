//! Finds the user who is responsible for a process: by its uids, and by who
//! created its user namespace.

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use crate::observe::procfile::STATUS_LIMIT;
use crate::sys::dir::Dir;
use crate::sys::namespace;
use crate::sys::stat::stat_at;

/// User namespaces inside of each other (the kernel allows 32).
const LEVELS: usize = 33;

/// Who answers for what a process costs, so that nobody can use up what is meant for
/// others by running under many uids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::observe) enum Account {
    /// A user of the node, by uid.
    User(u32),
    /// Whoever is in a user namespace that root made, by its inode number: root's
    /// daemons give thousands of uids to a container.
    Namespace(u64),
}

/// Who answers for a process: the [`responsible_user`], and for one in a user namespace
/// of root's that namespace. `own`: the inode number of gpumap's user namespace. It
/// never waits for the process.
///
/// `None` for a process that is gone.
pub(in crate::observe) fn account(process: &Dir, own: Option<u64>) -> Option<Account> {
    let namespace = process.child(c"ns").and_then(|ns| namespace::open(&ns, c"user")).ok();
    match namespace.and_then(|namespace| outermost(namespace, own)) {
        Some(Outermost { inode, maker: Some(0) | None }) => Some(Account::Namespace(inode)),
        Some(Outermost { maker: Some(uid), .. }) => Some(Account::User(uid)),
        None => users(process)?.first().copied().map(Account::User),
    }
}

/// The user who is responsible for a process, by uid: its real one (the owner of its
/// directory in `/proc` is the effective one: root in a set-user-ID program of root's).
/// For a process in a user namespace, the user who created the outermost namespace,
/// because inside it that user has many uids. `own`: the inode number of gpumap's user
/// namespace.
///
/// `None` for a process that is gone.
pub(crate) fn responsible_user(process: &Dir, own: Option<u64>) -> Option<u32> {
    let namespace = process.child(c"ns").and_then(|ns| namespace::open(&ns, c"user")).ok()?;
    if let Some(maker) = maker(namespace, own) {
        return Some(maker);
    }
    users(process)?.first().copied()
}

/// Whether a process may belong to a user: one of its uids (real, effective, saved,
/// of the file system) is the user's, as in a set-user-ID program, or it is in a
/// user namespace of the user's, where it has other uids. If that cannot be read, it
/// may.
pub(super) fn may_be_of(process: &Dir, user: u32, own: Option<u64>) -> bool {
    if users(process).is_none_or(|users| users.contains(&user)) {
        return true;
    }
    let namespace = process.child(c"ns").and_then(|ns| namespace::open(&ns, c"user"));
    match namespace {
        Ok(namespace) => maker(namespace, own).is_some_and(|maker| maker == user),
        Err(errno) => errno != Errno::ENOENT && errno != Errno::ESRCH,
    }
}

/// The inode number of gpumap's own user namespace.
pub(crate) fn own_namespace() -> Option<u64> {
    let dir = Dir::open("/proc/self/ns".as_ref());
    let stat = dir.and_then(|dir| namespace::open(&dir, c"user")).and_then(|user| stat_at(&user, c""));
    stat.ok().map(|stat| stat.inode)
}

/// The user who created the outermost namespace below gpumap's; `None` if the
/// process is in gpumap's own.
fn maker(namespace: OwnedFd, own: Option<u64>) -> Option<u32> {
    outermost(namespace, own)?.maker
}

/// The outermost of the namespaces around a process that are below gpumap's.
struct Outermost {
    inode: u64,
    /// Who made it; `None` if the kernel does not tell.
    maker: Option<u32>,
}

/// `None` if the process is in gpumap's own namespace.
fn outermost(mut namespace: OwnedFd, own: Option<u64>) -> Option<Outermost> {
    let mut found = None;
    for _ in 0..LEVELS {
        let inode = stat_at(&namespace, c"").ok().map(|stat| stat.inode);
        if inode == own {
            break;
        }
        found = inode.map(|inode| Outermost { inode, maker: namespace::maker(&namespace).ok() });
        let Ok(parent) = namespace::parent(&namespace) else { break };
        namespace = parent;
    }
    found
}

/// Its uids: real, effective, saved and of the file system. `None` for a process
/// that is gone.
fn users(process: &Dir) -> Option<[u32; 4]> {
    let mut status = Vec::new();
    process.read_into(c"status", &mut status, STATUS_LIMIT).ok()?;
    uids(&status)
}

/// The numbers of the line `Uid:`.
fn uids(status: &[u8]) -> Option<[u32; 4]> {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    let mut numbers = str::from_utf8(line).ok()?.split_ascii_whitespace().map_while(|one| one.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that this process belongs to the user who runs it, and to no other.
    #[test]
    fn own() {
        let process = Dir::open("/proc/self".as_ref()).unwrap();
        let (space, user) = (own_namespace(), nix::unistd::getuid().as_raw());
        assert_eq!(responsible_user(&process, space), Some(user));
        assert_eq!(account(&process, space), Some(Account::User(user)));
        assert!(may_be_of(&process, user, space) && !may_be_of(&process, user + 1, space));
        assert_eq!(uids(b"Name:\ta\nUid:\t7\t8\t9\t10\nGid:\t1\n"), Some([7, 8, 9, 10]));
        assert_eq!((uids(b"Name:\tUid:\n"), uids(b"Uid:\t7\n")), (None, None));
    }
}
