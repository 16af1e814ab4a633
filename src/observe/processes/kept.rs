//! Bounds the memory for environments, so that nobody fills gpumap's memory with values
//! or leaves no room for those of others.

use std::path::Path;

use super::credentials::{Account, account, own_namespace};
use crate::observation::{Answer, Detail, Environment};
use crate::observe::pinned::PinnedProcess;
use crate::quota::{Full, Quota};
use crate::sys::dir::Dir;

/// Bytes of variables that are kept of the processes of one user, and of all processes
/// together. No node comes near that unless somebody tries to.
const OF_USER: usize = 16 << 20;
const OF_ALL: usize = 128 << 20;
/// From so many bytes on it is asked whose a process is. An ordinary process has some
/// three hundred, which count for all users together alone.
const LARGE: usize = 4 << 10;

/// The bytes of variables that were kept so far.
#[derive(Debug)]
pub(super) struct Kept {
    proc: Option<Dir>,
    /// The inode number of gpumap's user namespace.
    own: Option<u64>,
    users: Quota<Option<Account>>,
}

impl Kept {
    pub(super) fn new(proc: &Path) -> Self {
        // Without it all processes count as one user's, of whom less is kept; that is told.
        Self { proc: Dir::open(proc).ok(), own: own_namespace(), users: Quota::new(OF_USER, OF_ALL) }
    }

    /// Drops those environments of a process that are too large together with what was
    /// kept before, of its user's processes or of all.
    pub(super) fn limit(&mut self, pid: u32, detail: &mut Detail) {
        let is_large = bytes(&detail.at_exec) + bytes(&detail.live) >= LARGE;
        let user = is_large.then(|| self.user(pid));
        for answer in [&mut detail.at_exec, &mut detail.live] {
            if let Some(why) = self.keep(user, bytes(answer)) {
                *answer = Answer::Missing(why);
            }
        }
    }

    /// Counts bytes. Why they cannot be kept; then they count as none.
    fn keep(&mut self, user: Option<Option<Account>>, bytes: usize) -> Option<String> {
        let kept = match user {
            Some(user) => self.users.take(user, bytes),
            None => self.users.take_shared(bytes),
        };
        let (whose, most) = match kept {
            Ok(()) => return None,
            Err(Full::Own) => ("its user's", OF_USER),
            Err(Full::All) => ("all", OF_ALL),
        };
        Some(format!("environments of {whose} processes are over {} MiB", most >> 20))
    }

    /// Who answers for a process; `None` if it is gone.
    fn user(&self, pid: u32) -> Option<Account> {
        // One that nobody answers for counts with all others like it.
        let process = PinnedProcess::open(self.proc.as_ref()?, pid).ok()?;
        account(process.dir(), self.own)
    }
}

/// Bytes of the values of an environment, if it is known.
fn bytes(answer: &Answer<Environment>) -> usize {
    let variables = answer.known().map(|environment| environment.variables.as_slice());
    variables.unwrap_or_default().iter().map(|one| one.value.as_bytes().len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that what one user fills leaves room for others, and that ordinary
    /// processes find room as long as anybody does.
    #[test]
    fn apart() {
        let mut kept = Kept::new("/proc".as_ref());
        let of = |uid| Some(Some(Account::User(uid)));
        let part = OF_USER / 4;
        assert!((0..4).all(|_| kept.keep(of(7), part).is_none()));
        assert!(kept.keep(of(7), 1).is_some() && kept.keep(of(8), part).is_none());
        assert!(kept.keep(None, 300).is_none());
        let filled = (100..).take_while(|uid| kept.keep(of(*uid), OF_USER).is_none()).count();
        assert!(filled < OF_ALL / OF_USER && kept.users.used().1 <= OF_ALL);
        assert!(kept.keep(None, OF_USER).is_some() && kept.keep(None, 0).is_none());
    }
}
