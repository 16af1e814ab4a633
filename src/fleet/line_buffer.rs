//! The bytes of an input that were read and not used yet, with room to read more into.

use memchr::memchr;

/// Takes bytes as they are read, and gives them away a line at a time without copying
/// them. Memory grows with the longest line.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    bytes: Vec<u8>,
    /// Where the bytes begin that were not given away.
    begin: usize,
    /// Where they end, and the room begins.
    end: usize,
    /// How many of them are known to hold no line end.
    searched: usize,
}

impl LineBuffer {
    /// Room for `count` bytes. What stands there is of no use.
    pub(super) fn room(&mut self, count: usize) -> &mut [u8] {
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
        }
        let wanted = self.end + count;
        if self.bytes.len() < wanted {
            self.bytes.resize(wanted, 0);
        }
        self.bytes.get_mut(self.end..wanted).unwrap_or_default()
    }

    /// The first `count` bytes of the room were read.
    pub(super) fn filled(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// Gives the next line away, with its end; `None` if none has ended.
    pub(super) fn next_line(&mut self) -> Option<&[u8]> {
        let from = self.begin + self.searched;
        let Some(found) = memchr(b'\n', self.bytes.get(from..self.end)?) else {
            self.searched = self.end - self.begin;
            return None;
        };
        let line = self.begin..from + found + 1;
        (self.begin, self.searched) = (line.end, 0);
        self.bytes.get(line)
    }

    /// Gives all away that is there.
    pub(super) fn take_all(&mut self) -> &[u8] {
        let all = self.begin..self.end;
        (self.begin, self.end, self.searched) = (0, 0, 0);
        self.bytes.get(all).unwrap_or_default()
    }

    /// Bytes that were not given away.
    pub(super) fn len(&self) -> usize {
        self.end - self.begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that lines come whole and in order, in whatever pieces they are read.
    #[test]
    fn pieces() {
        let text = b"one\n\ntwo three\nfour\nlast";
        for size in 1..=text.len() {
            let (mut buffer, mut lines) = (LineBuffer::default(), Vec::new());
            for piece in text.chunks(size) {
                // Less may be read than there is room for.
                buffer.room(size + 3)[..piece.len()].copy_from_slice(piece);
                buffer.filled(piece.len());
                while let Some(line) = buffer.next_line() {
                    lines.push(line.to_vec());
                }
            }
            assert_eq!(lines, ["one\n", "\n", "two three\n", "four\n"].map(|line| line.as_bytes().to_vec()));
            assert_eq!((buffer.len(), buffer.take_all()), (4, b"last".as_slice()), "{size}");
            assert_eq!((buffer.len(), buffer.next_line()), (0, None));
            assert!(buffer.bytes.len() < 2 * text.len() + 4);
        }
    }
}
