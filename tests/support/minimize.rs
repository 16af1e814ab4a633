//! Makes a failing program smaller: instructions become jumps to the next one
//! as long as the failure stays, and are left out of the report.

use std::time::{Duration, Instant};

use gpumap::bytecode::Insn;

use super::source::Source;

/// How long one failure is worked on.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The smallest program found for which `fails` still holds.
pub fn minimize(source: &Source, mut fails: impl FnMut(&Source) -> bool) -> Source {
    let mut best = source.clone();
    let nothing = Insn { code: 0x05, ..Insn::default() };
    let deadline = Instant::now() + MOST_TIME;
    loop {
        let before = best.insns.clone();
        for at in (0..best.insns.len()).rev() {
            if Instant::now() > deadline {
                return best;
            }
            let insn = best.insns[at];
            if insn == nothing || insn.code == 0 || insn.code == 0x18 {
                continue;
            }
            let mut smaller = best.clone();
            smaller.insns[at] = nothing;
            if fails(&smaller) {
                best = smaller;
            }
        }
        if best.insns == before {
            return best;
        }
    }
}
