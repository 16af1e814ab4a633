//! Finds the user who is responsible for a process: by its uids, and by who
//! created its user namespace.

use nix::errno::Errno;

use crate::observe::pinned::uids;
use crate::sys::absence::{OrAbsent as _, is_end};
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
/// `None` where that is not known: the process is gone, or cannot be read.
pub(in crate::observe) fn account(process: &Dir, own: Option<u64>) -> Option<Account> {
    match outermost(process, own) {
        Ok(Some(Outermost { inode, maker: Some(0) | None })) => Some(Account::Namespace(inode)),
        Ok(Some(Outermost { maker: Some(uid), .. })) => Some(Account::User(uid)),
        // Whom its time is put down to: the nearest user that is known.
        Ok(None) | Err(_) => real_uid(process).map(Account::User),
    }
}

/// The user who is responsible for a process, by uid: its real one (the owner of its
/// directory in `/proc` is the effective one: root in a set-user-ID program of root's).
/// For a process in a user namespace, the user who created the outermost namespace,
/// because inside it that user has many uids. `own`: the inode number of gpumap's user
/// namespace.
///
/// `None` where that is not known: the process is gone, or cannot be read.
pub(crate) fn responsible_user(process: &Dir, own: Option<u64>) -> Option<u32> {
    match outermost(process, own) {
        Ok(Some(Outermost { maker: Some(uid), .. })) => Some(uid),
        Ok(_) => real_uid(process),
        // It is not known, which is what `None` says.
        Err(_) => None,
    }
}

/// Whether a process may belong to a user: one of its uids (real, effective, saved,
/// of the file system) is the user's, as in a set-user-ID program, or it is in a
/// user namespace of the user's, where it has other uids. If that cannot be read, it
/// may.
pub(super) fn may_be_of(process: &Dir, user: u32, own: Option<u64>) -> bool {
    if uids(process).map_or(true, |uids| uids.contains(&user)) {
        return true;
    }
    match outermost(process, own) {
        Ok(found) => found.is_some_and(|found| found.maker.is_none_or(|maker| maker == user)),
        // If that cannot be read, it may.
        Err(_) => true,
    }
}

fn real_uid(process: &Dir) -> Option<u32> {
    // It is not known, which is what `None` says.
    uids(process).ok().map(|[real, ..]| real)
}

/// The inode number of gpumap's own user namespace.
pub(crate) fn own_namespace() -> Option<u64> {
    let dir = Dir::open("/proc/self/ns".as_ref());
    let stat = dir.and_then(|dir| namespace::open(&dir, c"user")).and_then(|user| stat_at(&user, c""));
    // Where it is not known, neither is who answers for a process in any namespace.
    stat.ok().map(|stat| stat.inode)
}

/// The outermost of the namespaces around a process that are below gpumap's.
struct Outermost {
    inode: u64,
    /// Who made it; `None` if the kernel does not tell.
    maker: Option<u32>,
}

/// `None` if the process is in gpumap's own namespace, has ended, or if the kernel has no
/// user namespaces.
fn outermost(process: &Dir, own: Option<u64>) -> Result<Option<Outermost>, Errno> {
    let namespace = process.child(c"ns").and_then(|ns| namespace::open(&ns, c"user")).or_ended()?;
    let Some(mut namespace) = namespace else {
        let is_there = own.is_some() && !matches!(stat_at(process, c"stat"), Err(errno) if is_end(errno));
        return if is_there { Err(Errno::ENOENT) } else { Ok(None) };
    };
    let own = own.ok_or(Errno::ENOENT)?;
    let mut found = None;
    for _ in 0..LEVELS {
        let inode = stat_at(&namespace, c"")?.inode;
        if inode == own {
            break;
        }
        found = Some(Outermost { inode, maker: untold(namespace::maker(&namespace))? });
        let Some(parent) = untold(namespace::parent(&namespace))? else { break };
        namespace = parent;
    }
    Ok(found)
}

/// What a namespace says of itself; `None` where the kernel does not tell: it is too old,
/// or what was asked about is outside of gpumap's own.
fn untold<T>(answer: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Errno::EPERM | Errno::ENOTTY | Errno::EINVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
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
        // Not to know it is not to say no.
        assert!(may_be_of(&Dir::open("/".as_ref()).unwrap(), user + 1, space));
    }
}
