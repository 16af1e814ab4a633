//! Finds running programs that matter for GPUs by the names of their processes.

use std::collections::BTreeSet;
use std::path::Path;

use crate::observation::Answer;
use crate::sys::absence::OrAbsent as _;
use crate::sys::dir::Dir;

/// Names as the kernel keeps them, cut to 15 bytes (`TASK_COMM_LEN` with its NUL).
const KNOWN: [&str; 7] = [
    "nvidia-persiste",
    "nv-fabricmanage",
    "nvidia-cuda-mps",
    "slurmd",
    "system-probe",
    "container-hotpl",
    "dcgm-exporter",
];
/// Bytes of `comm`.
const LIMIT: usize = 64;

/// Which of the known programs run. A user can give a process such a name: it is a
/// hint, and no verdict rests on it.
pub(super) fn running(proc: &Path) -> Answer<Vec<String>> {
    let listed = Dir::open(proc).and_then(|dir| {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let (mut text, mut unread) = (Vec::new(), None);
        dir.numbers(c".", |name, _| {
            let read = dir.child(name).and_then(|process| process.read_into(c"comm", &mut text, LIMIT));
            match read.or_absent() {
                Ok(Some(())) => {
                    let comm = text.trim_ascii_end();
                    found.extend(KNOWN.iter().filter(|known| known.as_bytes() == comm));
                }
                Ok(None) => {}
                Err(errno) => unread = Some(errno),
            }
            true
        })?;
        unread.map_or(Ok(found), Err)
    });
    match listed {
        Ok(found) => Answer::Known(found.into_iter().map(|name| (*name).to_owned()).collect()),
        Err(errno) => Answer::Missing(format!("{}: {}", proc.display(), errno.desc())),
    }
}
