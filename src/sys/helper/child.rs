//! The helper's side: releases what belongs to its parent, and serves its end of
//! the channel.
//! Messages are bytes with their length in front.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use libc::{c_int, c_long, c_uint, c_ulong};
use nix::errno::Errno;
use nix::sys::eventfd::EventFd;
use nix::sys::socket::{MsgFlags, recv, send};

use super::abandoned::Child;
use crate::sys::retry::again;

/// The most bytes of one message.
pub const MESSAGE_LIMIT: usize = 8 << 20;

/// Bytes of the length in front of a message.
const LENGTH: usize = 4;

/// Bytes that are fetched at a time.
const ROOM: usize = 16 << 10;

/// The helper has ended, or does not take messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// A message with its length in front.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&length.to_ne_bytes(), message].concat()
}

/// Adds what has come to `inbox`, and returns how much that is: 0 at the end.
pub(super) fn fetch(channel: RawFd, inbox: &mut Vec<u8>, flags: MsgFlags) -> Result<usize, Errno> {
    let mut room = [0; ROOM];
    let count = recv(channel, &mut room, flags)?;
    inbox.extend_from_slice(room.get(..count).unwrap_or_default());
    Ok(count)
}

/// Takes the first message out of what has come, if it is whole.
pub(super) fn whole(inbox: &mut Vec<u8>) -> Result<Option<Vec<u8>>, Ended> {
    let Some(length) = inbox.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = usize::try_from(u32::from_ne_bytes(*length)).map_err(|_| Ended)?;
    if length > MESSAGE_LIMIT {
        return Err(Ended);
    }
    let Some(message) = inbox.get(LENGTH..LENGTH + length).map(<[u8]>::to_vec) else { return Ok(None) };
    inbox.drain(..LENGTH + length);
    Ok(Some(message))
}

/// Bytes of messages that wait to be sent together, and for how long.
const TOGETHER: usize = 64 << 10;

const WAIT: Duration = Duration::from_millis(5);

/// The helper's end of the channel.
#[derive(Debug)]
pub struct Channel {
    socket: RawFd,
    inbox: Vec<u8>,
    /// Messages that are not sent yet, and since when they wait.
    outbox: Vec<u8>,
    since: Instant,
    /// Counts messages, sent or not, and steps.
    made: RawFd,
}

impl Channel {
    /// Sends what waits and waits for the next message; `None` when there will
    /// be no more.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        if !self.flush() {
            return None;
        }
        loop {
            if let Some(message) = whole(&mut self.inbox).ok()? {
                return Some(message);
            }
            match fetch(self.socket, &mut self.inbox, MsgFlags::empty()) {
                Ok(0) => return None,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends a message, one over [`MESSAGE_LIMIT`] as an empty one. Returns
    /// whether anybody is there to read it.
    pub fn send(&mut self, message: &[u8]) -> bool {
        self.put(message) && self.flush()
    }

    /// Sends a message as [`send`](Self::send) does, but together with those that
    /// follow immediately: waking the reader costs more than most messages do.
    pub fn queue(&mut self, message: &[u8]) -> bool {
        let listens = self.put(message);
        let waits = self.outbox.len() < TOGETHER && self.since.elapsed() < WAIT;
        listens && (waits || self.flush())
    }

    fn put(&mut self, message: &[u8]) -> bool {
        let message = if message.len() > MESSAGE_LIMIT { &[] } else { message };
        if self.outbox.is_empty() {
            self.since = Instant::now();
        }
        self.outbox.extend_from_slice(&framed(message));
        self.step()
    }

    /// Counts a step of the work as a message is counted, and sends nothing:
    /// `Helper::made` shows how far the work is, and nobody is woken.
    pub fn step(&mut self) -> bool {
        // SAFETY: the descriptor stays open until this process ends.
        let made = unsafe { BorrowedFd::borrow_raw(self.made) };
        again(|| nix::unistd::write(made, &1_u64.to_ne_bytes())).is_ok()
    }

    /// Sends what waits.
    fn flush(&mut self) -> bool {
        let outbox = std::mem::take(&mut self.outbox);
        let mut rest = outbox.as_slice();
        while !rest.is_empty() {
            match send(self.socket, rest, MsgFlags::MSG_NOSIGNAL) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::EINTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Makes the copy. `channel` is its end of the channel; it counts its messages
/// in `made`.
pub(super) fn fork(
    channel: &OwnedFd,
    made: &EventFd,
    keep: &[BorrowedFd<'_>],
    work: impl FnOnce(&mut Channel),
) -> Result<Child, Errno> {
    let socket = channel.as_raw_fd();
    let made = made.as_raw_fd();
    let mut kept: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).chain([socket, made]).collect();
    kept.sort_unstable();
    let parent = std::process::id();
    // SAFETY: fork(2) of the C library, whose allocator works in the copy even
    // if other threads used it. The copy runs `work`, which takes no lock that
    // another thread can hold, and then ends without destructors.
    let pid = again(|| Errno::result(unsafe { libc::fork() }))?;
    if pid == 0 {
        let begun = catch_unwind(AssertUnwindSafe(|| {
            detach(parent, &kept);
            let mut channel =
                Channel { socket, inbox: Vec::new(), outbox: Vec::new(), since: Instant::now(), made };
            work(&mut channel);
            channel.flush();
        }));
        // SAFETY: ends this process, and runs nothing before.
        unsafe { libc::_exit(c_int::from(begun.is_err())) }
    }
    Ok(Child::new(pid))
}

/// Closes everything that belongs to the parent process, so that a helper that
/// cannot be ended does not hold it open.
fn detach(parent: u32, kept: &[RawFd]) {
    // SAFETY: numbers alone. The other process may have ended before it could be
    // tied to it.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as c_ulong);
        if libc::getppid().cast_unsigned() != parent {
            libc::_exit(0);
        }
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    // Neither a directory: its file system could not be unmounted.
    let _stays = nix::unistd::chdir(c"/");
    replace_stdio(kept);
    close_others(kept);
    unmap_shared();
}

fn replace_stdio(kept: &[RawFd]) {
    // SAFETY: the path is terminated; descriptors are numbers, and of those that
    // are replaced none is kept.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for standard in (0..3).filter(|standard| !kept.contains(standard)) {
            if null < 0 {
                libc::close(standard);
            } else if null != standard {
                libc::dup2(null, standard);
            }
        }
    }
}

/// Closes everything above the first three that is not kept (in order).
fn close_others(kept: &[RawFd]) {
    let mut first: c_uint = 3;
    for end in kept.iter().map(|fd| fd.cast_unsigned()).chain([c_uint::MAX]) {
        let last = if end == c_uint::MAX { end } else { end.saturating_sub(1) };
        if first <= last && end >= 3 {
            close_range(first, last);
        }
        first = first.max(end.saturating_add(1));
    }
}

/// close_range(2), since Linux 5.9; before that one by one.
fn close_range(first: c_uint, last: c_uint) {
    // SAFETY: closes descriptors of this process, which nothing uses: it has its
    // own table, and owners of these descriptors are never run again.
    unsafe {
        if libc::syscall(libc::SYS_close_range, c_long::from(first), c_long::from(last), c_long::default())
            == 0
        {
            return;
        }
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let most = c_uint::try_from(limit.rlim_cur).unwrap_or(c_uint::MAX).min(1 << 16);
        for fd in first..last.min(most) {
            libc::close(fd.cast_signed());
        }
    }
}

/// Unmaps memory that is shared with others, such as the rings of BPF programs:
/// it would keep them from being freed.
fn unmap_shared() {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    for line in maps.split(|byte| *byte == b'\n') {
        let Some((start, end)) = shared(line) else { continue };
        // SAFETY: nothing in this process uses the memory: what does so is never
        // run in a helper.
        unsafe {
            libc::munmap(start as *mut libc::c_void, end - start);
        }
    }
}

/// The addresses at which a shared mapping begins and ends, from its line in `maps`.
fn shared(line: &[u8]) -> Option<(usize, usize)> {
    let mut words = std::str::from_utf8(line.get(..80).unwrap_or(line)).ok()?.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    rights.ends_with('s').then_some((number(start)?, number(end)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only lines of shared memory are taken.
    #[test]
    fn mappings() {
        assert_eq!(shared(b"7f00-7f10 rw-s 00000000 00:0e 7 anon_inode:bpf-map"), Some((0x7f00, 0x7f10)));
        assert_eq!(shared(b"7f00-7f10 rw-p 00000000 00:00 0"), None);
        assert_eq!(shared(b""), None);
    }
}
