//! Reads the title of a process from the memory area that `/proc/PID/stat` names.
//! `/proc/PID/cmdline` shows the same, but reading it faults pages in, which can
//! block for ever.

use nix::errno::Errno;

use super::memory::{self, Memory};
use crate::observation::Text;
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::sys::absence::is_absence;

/// Bytes that are kept.
const LIMIT: u64 = 256;
/// The name of Slurm's daemon of a step, with which its title begins
/// (`slurmstepd: [4711.batch]`).
pub(super) const STEP_DAEMON: &[u8] = b"slurmstepd";

/// The title of a step's daemon, without trailing NULs; empty for all other
/// processes, whose arguments may be secrets.
pub(super) fn of_daemon(memory: &mut Memory, arguments: (u64, u64), last: u64) -> Text {
    let mut text = Vec::new();
    read(memory, arguments, last, &mut text);
    let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let title = text.get(..end).unwrap_or_default();
    if title.starts_with(STEP_DAEMON) { title.into() } else { Text::default() }
}

/// The title of a process; empty if it is no step's daemon, or a right to its memory is
/// missing.
///
/// # Errors
///
/// `stat` or its memory cannot be read.
pub(super) fn of_process(process: &PinnedProcess) -> Result<Text, NotRead> {
    let title = memory::of_one_program(process, |memory, stat| {
        Some(match memory {
            Ok(memory) => {
                let title = of_daemon(memory, stat.arguments, stat.environment.1);
                memory.failure().map_or(Ok(title), |errno| Err(NotRead::Failed("/mem", errno)))
            }
            Err(Errno::EACCES | Errno::EPERM | Errno::EOPNOTSUPP) => Ok(Text::default()),
            // It is exiting, and has no memory any more.
            Err(errno) if is_absence(*errno) => Ok(Text::default()),
            Err(errno) => Err(process.failed("/mem", *errno)),
        })
    });
    title?.unwrap_or_else(|| Ok(Text::default()))
}

/// As `get_mm_cmdline` of fs/proc/base.c: the arguments, or, where their last
/// byte was written over, one string that may go on to `last`, the end of the
/// environment.
fn read(memory: &mut Memory, (start, end): (u64, u64), last: u64, text: &mut Vec<u8>) {
    if end <= start {
        return;
    }
    // Whether a call failed the memory knows.
    let is_whole = memory.array::<1>(end - 1) == Ok([0]);
    let end = if is_whole { end } else { last.max(end) };
    // The part that can be read is enough.
    let _fault = memory.area((start, end.min(start.saturating_add(LIMIT))), text);
    if !is_whole {
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(length);
    }
}
