//! Lists the processes that gpumap descends from.

use std::collections::BTreeSet;
use std::path::Path;

use crate::observe::procfile::STAT_LIMIT;
use crate::sys::dir::Dir;

/// More levels than any shell or batch system nests.
const LEVELS: usize = 4096;

/// gpumap itself, its parent, and so on to the first process.
pub fn ancestors(proc: &Path) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = Some(std::process::id());
    while let Some(pid) = next.filter(|pid| *pid != 0 && found.len() < LEVELS) {
        if !found.insert(pid) {
            break;
        }
        next = parent(proc, pid);
    }
    found
}

/// Field 4 of `stat`: the second after the name, which may hold anything.
fn parent(proc: &Path, pid: u32) -> Option<u32> {
    let mut text = Vec::new();
    Dir::open(&proc.join(pid.to_string())).ok()?.read_into(c"stat", &mut text, STAT_LIMIT).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the chain begins here and goes up.
    #[test]
    fn chain() {
        let found = ancestors(Path::new("/proc"));
        assert!(found.contains(&std::process::id()) && found.contains(&std::os::unix::process::parent_id()));
        assert!(ancestors(Path::new("/nonexistent")).len() == 1);
    }
}
