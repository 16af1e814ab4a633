//! Lists the processes that gpumap descends from.

use std::collections::BTreeSet;
use std::path::Path;

use nix::errno::Errno;

use crate::observe::pinned::{NotRead, PinnedProcess};

/// More levels than any shell or batch system nests.
const LEVELS: usize = 4096;

/// gpumap itself, its parent, and so on to the first process.
///
/// # Errors
///
/// A process of the chain cannot be read.
pub fn ancestors(proc: &Path) -> Result<BTreeSet<u32>, Errno> {
    let mut found = BTreeSet::new();
    let mut next = Some(std::process::id());
    while let Some(pid) = next.filter(|pid| *pid != 0 && found.len() < LEVELS) {
        if !found.insert(pid) {
            break;
        }
        next = match PinnedProcess::at(proc, pid).and_then(|process| process.stat()) {
            Ok(stat) => Some(stat.parent),
            Err(NotRead::Gone) => None,
            Err(NotRead::Failed(_, errno)) => return Err(errno),
            Err(NotRead::Fleeting) => return Err(Errno::EAGAIN),
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the chain begins here and goes up.
    #[test]
    fn chain() {
        let found = ancestors(Path::new("/proc")).unwrap();
        assert!(found.contains(&std::process::id()) && found.contains(&std::os::unix::process::parent_id()));
        assert_eq!(ancestors(Path::new("/nonexistent")), Err(Errno::ENOENT));
    }
}
