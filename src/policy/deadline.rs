//! The time limit of decoding: the moment by which the decoders of a thread
//! must be done.
//!
//! A command sets it once with [`within`]; every decoder that works inside
//! looks at the clock from time to time. What is not decoded by then is
//! unknown for the reason [`WHY`]; what was decoded before stands. The limit
//! belongs to the thread and is no parameter, because the functions of
//! `analyse` and `audit` between a command and its decoders say what follows
//! from facts and have no notion of time.

use std::cell::Cell;
use std::time::Instant;

/// Why a policy that was not decoded in time is unknown.
pub const WHY: &str = "the time limit (--timeout) ran out before gpumap had decoded it";

thread_local! {
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    static MISSED: Cell<bool> = const { Cell::new(false) };
}

/// Does `work` with a time limit for all decoding in it; `None` is no limit.
pub fn within<T>(until: Option<Instant>, work: impl FnOnce() -> T) -> T {
    let before = Restore(UNTIL.replace(until), MISSED.replace(false));
    let done = work();
    drop(before);
    done
}

/// Whether some decoding of this thread was cut short by the limit in force.
pub fn was_missed() -> bool {
    MISSED.get()
}

/// Whether the time is over; remembers that somebody had to stop for it.
pub(super) fn is_over() -> bool {
    let over = UNTIL.get().is_some_and(|until| Instant::now() >= until);
    if over {
        MISSED.set(true);
    }
    over
}

/// Puts the limit around this one back, also where the work panics.
struct Restore(Option<Instant>, bool);

impl Drop for Restore {
    fn drop(&mut self) {
        UNTIL.set(self.0);
        MISSED.set(self.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a limit applies inside and ends afterwards.
    #[test]
    fn limits_nest() {
        assert!(!is_over());
        within(Some(Instant::now()), || {
            assert!(!was_missed() && is_over() && was_missed());
            within(None, || assert!(!is_over() && !was_missed()));
            assert!(is_over());
        });
        assert!(!is_over() && !was_missed());
    }
}
