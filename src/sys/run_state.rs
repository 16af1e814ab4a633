//! Whether a process or a thread is at work or waits: on a busy machine one that is ready to
//! run takes long through nobody's fault.

use std::sync::{Arc, OnceLock};

/// The letter of the state of what has this directory in `/proc`; `None` if that cannot be
/// read.
pub fn of(place: &str) -> Option<u8> {
    let text = std::fs::read(format!("/proc/{place}/stat")).ok()?;
    let end = text.iter().rposition(|byte| *byte == b')')?;
    text.get(end + 2).copied()
}

/// A thread of this process, known to others once it has called [`Self::begin`].
#[derive(Clone, Debug, Default)]
pub struct KnownThread(Arc<OnceLock<i32>>);

impl KnownThread {
    /// The calling thread is the one.
    pub fn begin(&self) {
        self.0.get_or_init(|| nix::unistd::gettid().as_raw());
    }

    /// Whether it is on a processor or ready for one, as one that has not begun yet is; false
    /// if it waits or has ended, or if that cannot be read.
    pub fn is_running(&self) -> bool {
        self.0.get().is_none_or(|tid| of(&format!("self/task/{tid}")) == Some(b'R'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a thread that waits is told from one that works.
    #[test]
    fn waits() {
        let (thread, (go, wait)) = (KnownThread::default(), std::sync::mpsc::channel::<()>());
        assert!(thread.is_running());
        thread.begin();
        assert!(thread.is_running());
        let other = KnownThread::default();
        let handle = std::thread::spawn({
            let other = other.clone();
            move || {
                other.begin();
                let _ended = wait.recv();
            }
        });
        while other.is_running() {
            std::thread::yield_now();
        }
        drop(go);
        handle.join().unwrap();
        assert!(!other.is_running());
    }
}
