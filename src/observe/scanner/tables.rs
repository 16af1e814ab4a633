//! The tables of descriptors of one process. Nearly always there is one, and
//! `/proc/PID/fd` shows it. A thread can leave it (`unshare(CLONE_FILES)`), and
//! a main thread that has ended has none, whatever its threads hold.

use nix::errno::Errno;

use crate::observation::HeldDevice;
use crate::observe::process::devices::{Held, descriptors};
use crate::sys::dir::Dir;
use crate::sys::tables::share_files;

/// The devices in all tables. `thread` is the directory of the thread `first`:
/// of the main thread, or of one that goes on without it. With `several` the
/// other threads' tables are looked for too.
pub(super) fn devices(
    process: &Dir,
    thread: &Dir,
    first: u32,
    several: bool,
) -> Result<Vec<HeldDevice>, Errno> {
    let mut held = Held::default();
    descriptors(thread, &mut held)?;
    if several {
        others(process, first, &mut held)?;
    }
    Ok(held.all())
}

/// Adds the tables that are not that of `first`. Threads of which that cannot
/// be told, because they have ended or kcmp(2) is not there, are passed over.
fn others(process: &Dir, first: u32, held: &mut Held) -> Result<(), Errno> {
    let tasks = process.child(c"task")?;
    let mut seen = vec![first];
    tasks.numbers(c".", |name, tid| {
        let is_new = !seen.iter().any(|known| share_files(*known, tid).unwrap_or(true));
        if is_new {
            seen.push(tid);
            // It may end at any time.
            let _gone = tasks.child(name).and_then(|thread| descriptors(&thread, held));
        }
        true
    })
}
