//! Messages between a helper and its parent: bytes with their length in front.

use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

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
