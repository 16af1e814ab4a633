//! The output of commands that run on: a thread writes it, so that a slow reader never
//! holds them up.
//!
//! Standard output may be a pipe that nobody reads or a terminal that is stopped,
//! and its open file description belongs to others as well: it cannot be made
//! non-blocking. So a thread writes, and may wait as long as it likes; it ends
//! with the process. What waits for it is bounded: when it is full nothing more is
//! taken from the kernel, whose ring fills and counts what it loses.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// Bytes that may wait to be written before nothing more is taken.
const LIMIT: usize = 1 << 20;
/// Bytes of one write: not more than a pipe takes as a whole (`PIPE_BUF` is 4096),
/// so that lines appear as they are taken.
const PIECE: usize = 4096;
/// How long the reader may take for the rest when the watch ends.
const GRACE: Duration = Duration::from_secs(1);

/// The state that the writing thread shares with the one that sends text.
#[derive(Debug)]
struct Shared {
    /// Bytes that were sent and are not written yet.
    waiting: AtomicUsize,
    /// Why nothing more can be written.
    error: Mutex<Option<io::Error>>,
    /// Counts up whenever something was written, or cannot be.
    progress: EventFd,
}

/// Standard output, written by a thread.
#[derive(Debug)]
pub(in crate::commands) struct Output {
    sender: Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

impl Output {
    /// Begins to write to this descriptor, which is not changed.
    ///
    /// # Errors
    ///
    /// No descriptor or thread is left.
    pub(in crate::commands) fn start(to: BorrowedFd<'_>) -> io::Result<Self> {
        let file = File::from(to.try_clone_to_owned()?);
        let progress = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let (waiting, error) = (AtomicUsize::new(0), Mutex::new(None));
        let shared = Arc::new(Shared { waiting, error, progress });
        let (sender, receiver) = channel();
        let its = shared.clone();
        thread::Builder::new().name("output".to_owned()).spawn(move || write(file, &receiver, &its))?;
        Ok(Self { sender, shared })
    }

    /// Sends text to be written, without waiting.
    ///
    /// # Errors
    ///
    /// An earlier write failed, for example because the reader closed its end.
    pub(in crate::commands) fn give(&self, text: Vec<u8>) -> io::Result<()> {
        self.check()?;
        self.shared.waiting.fetch_add(text.len(), Ordering::SeqCst);
        self.sender.send(text).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Waits until there is room for more. Whether there is: not if `stop` became
    /// readable before, or the time is up.
    pub(in crate::commands) fn has_room(&self, stop: BorrowedFd<'_>, end: Option<Instant>) -> bool {
        self.wait(LIMIT, Some(stop), end)
    }

    /// Waits until all is written, for a moment. Whether it is.
    ///
    /// # Errors
    ///
    /// As [`Self::give`].
    pub(in crate::commands) fn finish(&self) -> io::Result<bool> {
        let done = self.wait(0, None, Instant::now().checked_add(GRACE));
        self.check().map(|()| done)
    }

    fn check(&self) -> io::Result<()> {
        let error = self.shared.error.lock().unwrap_or_else(PoisonError::into_inner);
        // The error stays: texts can be sent until the writing thread has ended.
        error.as_ref().map_or(Ok(()), |error| Err(again(error)))
    }

    /// Waits until not more than this waits to be written.
    fn wait(&self, most: usize, stop: Option<BorrowedFd<'_>>, end: Option<Instant>) -> bool {
        loop {
            // This is read before the check below: a change after it makes the
            // descriptor readable again.
            let _progress = self.shared.progress.read();
            if self.shared.waiting.load(Ordering::SeqCst) <= most {
                return true;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            // Rounded up, not to spin through the last millisecond.
            let left = left.map(|left| PollTimeout::try_from(left.as_millis().saturating_add(1)));
            let timeout = left.map_or(PollTimeout::NONE, |left| left.unwrap_or(PollTimeout::MAX));
            let progress = PollFd::new(self.shared.progress.as_fd(), PollFlags::POLLIN);
            let stop = stop.map(|stop| PollFd::new(stop, PollFlags::POLLIN));
            let mut fds: Vec<PollFd<'_>> = std::iter::once(progress).chain(stop).collect();
            let _interrupted = poll(&mut fds, timeout);
            if fds.get(1).is_some_and(|stop| stop.any() == Some(true)) {
                return false;
            }
        }
    }
}

/// The same error once more.
fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// Writes texts until the sender is closed or writing fails.
fn write(mut file: File, receiver: &Receiver<Vec<u8>>, shared: &Shared) {
    while let Ok(text) = receiver.recv() {
        for piece in text.chunks(PIECE) {
            let written = file.write_all(piece);
            let failed = written.is_err();
            if let Err(error) = written {
                *shared.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                // Nothing waits any more.
                shared.waiting.store(0, Ordering::SeqCst);
            } else {
                shared.waiting.fetch_sub(piece.len(), Ordering::SeqCst);
            }
            let _counted = shared.progress.write(1);
            if failed {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Make sure that a reader that does not read delays the end by no more than the
    /// grace time, and that one that reads gets everything in order.
    #[test]
    fn slow_reader() {
        let (mut reader, writer) = io::pipe().unwrap();
        let never = EventFd::new().unwrap();
        let output = Output::start(writer.as_fd()).unwrap();
        drop(writer);
        let text: Vec<u8> = (0..(2 * LIMIT)).map(|at| u8::try_from(at % 251).unwrap()).collect();
        output.give(text.clone()).unwrap();
        let soon = || Instant::now().checked_add(Duration::from_millis(50));
        assert!(!output.has_room(never.as_fd(), soon()));
        never.write(1).unwrap();
        assert!(!output.has_room(never.as_fd(), None));
        let read = thread::spawn(move || {
            let mut read = vec![0; 2 * LIMIT];
            reader.read_exact(&mut read).unwrap();
            read
        });
        let calm = EventFd::new().unwrap();
        assert!(output.has_room(calm.as_fd(), None));
        assert!(read.join().unwrap() == text && output.finish().unwrap());
    }

    /// Make sure that a reader that went away is noticed.
    #[test]
    fn no_reader() {
        let (reader, writer) = io::pipe().unwrap();
        let output = Output::start(writer.as_fd()).unwrap();
        drop(reader);
        output.give(b"one".to_vec()).unwrap();
        assert_eq!(output.finish().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(output.give(b"two".to_vec()).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
