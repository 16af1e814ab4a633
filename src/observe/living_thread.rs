//! Finds a thread of a process that lives although the main thread has ended.
//!
//! The files of `/proc/PID` are those of the main thread. Once that has ended they show
//! no descriptors, and the cgroup in which it ended, whatever the others do since.

use crate::observe::procfile::{STAT_LIMIT, Stat, parse_stat};
use crate::sys::dir::Dir;

/// The number and directory of the first thread that `lives`; `None` if there is none,
/// or if the threads cannot be listed. `process`: its directory in `/proc`.
pub(in crate::observe) fn living_thread(
    process: &Dir,
    lives: impl Fn(&Stat<'_>) -> bool,
) -> Option<(u32, Dir)> {
    let tasks = process.child(c"task").ok()?;
    let (mut found, mut text) = (None, Vec::new());
    let visit = |name: &std::ffi::CStr, tid| {
        let thread = tasks.child(name).ok().filter(|thread| {
            let read = thread.read_piece(c"stat", &mut text, STAT_LIMIT);
            read.is_ok() && parse_stat(&text).is_some_and(|stat| lives(&stat))
        });
        found = thread.map(|thread| (tid, thread));
        found.is_none()
    };
    tasks.numbers(c".", visit).ok()?;
    found
}
