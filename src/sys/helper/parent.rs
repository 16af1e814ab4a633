//! The parent's side: starts a helper, sends it messages and receives its replies.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};

use super::abandoned::{self, Child};
use super::child::{self, Channel, Ended, fetch, framed, whole};
use crate::sys::retry::again;

/// A helper, seen from the process that started it. Dropping it kills it and
/// waits for nothing.
#[derive(Debug)]
pub struct Helper {
    channel: OwnedFd,
    inbox: Vec<u8>,
    /// Messages that the helper made since it was asked last, and before.
    made: EventFd,
    made_before: u64,
    child: Child,
}

impl Helper {
    /// Starts a process that runs `work` and ends. Of this process's descriptors
    /// it has those in `keep` and the channel, and `/dev/null` in place of the
    /// first three. It is killed with the thread that started it.
    ///
    /// The copy is made by fork(2) of the C library, which makes memory
    /// allocation safe in it. `work` must use no lock that another thread may
    /// hold at this moment, and nothing that it prints is seen.
    ///
    /// # Errors
    ///
    /// Those of socketpair(2) and fork(2).
    pub fn start(keep: &[BorrowedFd<'_>], work: impl FnOnce(&mut Channel)) -> Result<Self, Errno> {
        let pair = || socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC);
        let (own, other) = again(pair)?;
        let made = again(|| EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK))?;
        abandoned::sweep();
        let child = child::fork(&other, &made, keep, work)?;
        Ok(Self { channel: own, inbox: Vec::new(), made, made_before: 0, child })
    }

    /// Sends a message, which must be far smaller than a socket's buffer: this
    /// never waits.
    ///
    /// # Errors
    ///
    /// The helper has ended or takes no message.
    pub fn send(&mut self, message: &[u8]) -> Result<(), Ended> {
        let framed = framed(message);
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        match again(|| send(self.channel.as_raw_fd(), &framed, flags)) {
            Ok(count) if count == framed.len() => Ok(()),
            _ => Err(Ended),
        }
    }

    /// The next message that has arrived; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// The helper has ended, or has sent something that is no message.
    pub fn receive(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        loop {
            if let Some(message) = whole(&mut self.inbox)? {
                return Ok(Some(message));
            }
            match fetch(self.channel.as_raw_fd(), &mut self.inbox, MsgFlags::MSG_DONTWAIT) {
                Ok(0) => return Err(Ended),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(None),
                Err(_) => return Err(Ended),
            }
        }
    }

    /// How many messages the helper has made, including those that it did not send
    /// yet, and how many steps it has counted.
    pub fn made(&mut self) -> u64 {
        self.made_before = self.made_before.saturating_add(self.made.read().unwrap_or(0));
        self.made_before
    }

    /// Its process.
    pub(in crate::sys) fn child(&self) -> &Child {
        &self.child
    }

    /// Whether the helper is at work, as `/proc/PID/stat` has it: on a processor
    /// or ready for one, and not waiting for anything.
    pub fn is_running(&self) -> bool {
        self.child.state() == Some(b'R')
    }
}

/// Waits until one of these has something to say, for `limit` at most.
pub fn wait<'a>(helpers: impl Iterator<Item = &'a Helper>, limit: Duration) {
    let mut fds: Vec<_> =
        helpers.map(|helper| PollFd::new(helper.channel.as_fd(), PollFlags::POLLIN)).collect();
    // One millisecond more, so that the time is over when poll(2) says so.
    let limit = u16::try_from(limit.as_millis() + 1).unwrap_or(u16::MAX);
    // Interrupted or not: the caller looks at all of them.
    let _ready = poll(&mut fds, PollTimeout::from(limit));
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::sys::helper::left_behind;

    /// Waits for a message; `None` if the helper ends.
    fn next(helper: &mut Helper) -> Option<Vec<u8>> {
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end {
            match helper.receive() {
                Ok(Some(message)) => return Some(message),
                Ok(None) => wait(std::iter::once(&*helper), Duration::from_millis(100)),
                Err(Ended) => return None,
            }
        }
        None
    }

    /// Make sure that messages of all sizes arrive whole, and that the end is
    /// reported.
    #[test]
    fn messages() {
        let echo = |channel: &mut Channel| {
            while let Some(message) = channel.receive() {
                channel.send(&message.repeat(3));
            }
        };
        let mut helper = Helper::start(&[], echo).unwrap();
        for length in [0, 1, 5, 40_000] {
            helper.send(&vec![7; length]).unwrap();
            assert_eq!(next(&mut helper), Some(vec![7; length * 3]));
        }
        let mut short = Helper::start(&[], |_| {}).unwrap();
        assert_eq!(next(&mut short), None);
        let mut broken = Helper::start(&[], |_| panic!("a test")).unwrap();
        assert_eq!(next(&mut broken), None);
    }

    /// Make sure that a helper has none of this process's descriptors but those
    /// that it keeps.
    #[test]
    fn descriptors() {
        let kept = std::fs::File::open("/proc").unwrap();
        let _other = std::fs::File::open("/proc").unwrap();
        let list = |channel: &mut Channel| {
            let count = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
            channel.send(&[u8::try_from(count).unwrap_or(u8::MAX)]);
        };
        let mut helper = Helper::start(&[kept.as_fd()], list).unwrap();
        // Three of /dev/null, the channel and its counter, the kept descriptors, and
        // the listing itself.
        assert_eq!(next(&mut helper), Some(vec![7]));
    }

    /// Make sure that messages are counted before they are sent.
    #[test]
    fn counted() {
        let two = |channel: &mut Channel| {
            channel.queue(b"one");
            channel.queue(b"two");
            std::thread::sleep(Duration::from_secs(600));
        };
        let mut helper = Helper::start(&[], two).unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        while helper.made() < 2 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(helper.made(), 2);
    }

    /// Make sure that a helper that never answers costs nothing when it is dropped.
    #[test]
    fn stuck() {
        let started = Instant::now();
        let helper = Helper::start(&[], |_| std::thread::sleep(Duration::from_secs(600))).unwrap();
        drop(helper);
        assert!(started.elapsed() < Duration::from_secs(10));
        let end = Instant::now() + Duration::from_secs(20);
        while left_behind() > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(left_behind(), 0);
    }
}
