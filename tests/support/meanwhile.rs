//! Work that goes on in another thread while a test looks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs `look` while another thread does `again` over and over, and returns what both
/// returned. The other thread ends with `look`, also where `look` panics: its failure is
/// reported, and no test waits for a thread that nobody ends.
pub fn meanwhile<W: Send, L>(again: impl FnOnce(&Going) -> W + Send, look: impl FnOnce() -> L) -> (W, L) {
    let going = Going(AtomicBool::new(true));
    thread::scope(|scope| {
        let other = scope.spawn(|| again(&going));
        let seen = {
            let _end = EndOnDrop(&going);
            look()
        };
        (other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), seen)
    })
}

/// Whether the other thread is to go on.
pub struct Going(AtomicBool);

impl Going {
    pub fn is_on(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct EndOnDrop<'a>(&'a Going);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Relaxed);
    }
}
