//! Reads the title of a process from the memory area that `/proc/PID/stat` names.
//! `/proc/PID/cmdline` shows the same, but reading it faults pages in, which can
//! block for ever.

use super::memory::Memory;
use crate::observation::Text;
use crate::observe::procfile::STAT_LIMIT;
use crate::observe::procfile::parse_stat;
use crate::sys::dir::Dir;

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

/// The title of the process with this directory.
pub(in crate::observe) fn of_process(dir: &Dir) -> Text {
    let mut text = Vec::new();
    // The order matters: the areas belong to this memory, or the memory is dead.
    let Ok(mut memory) = Memory::open(dir) else { return Text::default() };
    if dir.read_piece(c"stat", &mut text, STAT_LIMIT).is_err() {
        return Text::default();
    }
    let Some(stat) = parse_stat(&text) else { return Text::default() };
    let title = of_daemon(&mut memory, stat.arguments, stat.environment.1);
    if memory.is_alive() { title } else { Text::default() }
}

/// As `get_mm_cmdline` of fs/proc/base.c: the arguments, or, where their last
/// byte was written over, one string that may go on to `last`, the end of the
/// environment.
fn read(memory: &mut Memory, (start, end): (u64, u64), last: u64, text: &mut Vec<u8>) {
    if end <= start {
        return;
    }
    let is_whole = memory.array::<1>(end - 1) == Ok([0]);
    let end = if is_whole { end } else { last.max(end) };
    // The part that can be read is enough.
    let _fault = memory.area((start, end.min(start.saturating_add(LIMIT))), text);
    if !is_whole {
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(length);
    }
}
