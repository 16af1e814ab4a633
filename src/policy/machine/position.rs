//! The order in which a run goes through its basic blocks: a block waits until all
//! paths that lead to it have been run, except where the program jumps back.

use super::super::state::MachineState;

/// Place in the order of execution: the tail calls made, call sites from the outermost,
/// each with the round of a helper that calls back, then the slot. Later numbers run
/// later except where the program jumps back.
pub(super) type Position = [u64; 10];

/// The place of an instruction.
pub(super) fn position(state: &MachineState, pc: usize) -> Position {
    let mut position = [0; 10];
    position[0] = state.tail_calls.made;
    let mut depth = 1;
    for (resume, round) in state.resumes() {
        position[depth] = (resume as u64 * 2 + 1) << 32 | round;
        depth += 1;
    }
    position[depth] = (pc as u64 * 2 + 2) << 32;
    position
}

/// The instruction at a place.
pub(super) fn slot_of(position: &Position) -> usize {
    let last = position.iter().rposition(|place| *place != 0).unwrap_or(1);
    (position[last] >> 33).saturating_sub(1) as usize
}
