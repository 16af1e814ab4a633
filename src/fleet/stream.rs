//! Splits the bytes of an input into documents: one or many, a line each or pretty
//! printed, one after the other, or in labelled lines as `srun --label`, clush and
//! pdsh write them.
//!
//! srun breaks lines after a thousand bytes and mixes those of its tasks. Pieces of
//! one label are put together again without the line ends, which are not part of
//! them. Memory has a limit whatever comes.

use std::collections::HashMap;

use memchr::memchr;

use super::line;
use super::pieces::{InputPosition, Other, Pieces, Sink};
use crate::model::InOrder as _;

/// A line that has not ended after so many bytes is followed without its end.
const LONG_LINE: usize = 8 << 20;

/// Bytes of all unfinished documents together.
const UNFINISHED: usize = 192 << 20;

/// Labels that are told apart.
const LABELS: usize = 1 << 17;

/// Splits one input.
#[derive(Debug, Default)]
pub struct Stream {
    /// The line whose end has not come.
    buffer: LineBuffer,
    /// Where the beginning of this line went already.
    begun: Begun,
    /// The number of this line, from 0.
    line: u64,
    plain: Pieces,
    labelled: HashMap<String, Pieces>,
    unfinished: usize,
    header: Header,
}

/// Where the beginning of a long line went.
#[derive(Debug, Default)]
enum Begun {
    /// Nowhere.
    #[default]
    No,
    /// To the document that no label stands before.
    Plain,
    /// To the document of this label.
    Labelled(String),
}

/// The header that `clush -b` and `dshbak` write: a rule, names, a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Header {
    #[default]
    No,
    Rule,
    Names,
}

impl Stream {
    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled(bytes.len(), sink);
    }

    /// Room to read the next `count` bytes into, so that nobody has to copy them.
    pub fn room(&mut self, count: usize) -> &mut [u8] {
        self.buffer.room(count)
    }

    /// Takes the first `count` bytes of the [`room`](Self::room).
    pub fn filled(&mut self, count: usize, sink: &mut dyn Sink) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.filled(count);
        while let Some(line) = buffer.next_line() {
            self.line(line, sink);
        }
        if buffer.len() > LONG_LINE {
            self.part(buffer.take_all(), sink);
        }
        self.buffer = buffer;
    }

    /// Nothing more comes.
    pub fn finish(&mut self, sink: &mut dyn Sink) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.line(buffer.take_all(), sink);
        self.plain.finish(None, sink);
        let mut labelled: Vec<_> = std::mem::take(&mut self.labelled).into_iter().collect();
        labelled.order_by(|(a, _), (b, _)| a.cmp(b));
        labelled.iter_mut().for_each(|(label, pieces)| pieces.finish(Some(label), sink));
    }

    /// A part of a line whose end has not come.
    fn part(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        let place = InputPosition { label: None, line: self.line + 1 };
        match std::mem::take(&mut self.begun) {
            Begun::Labelled(label) => {
                self.piece(&label, bytes, false, sink);
                self.begun = Begun::Labelled(label);
            }
            Begun::Plain => {
                self.plain.add(place, bytes, false, sink);
                self.begun = Begun::Plain;
            }
            Begun::No => match line::labelled(line::without_mark(bytes)) {
                Some((label, rest)) => {
                    self.cut_off(sink);
                    self.piece(label, rest, false, sink);
                    self.begun = Begun::Labelled(label.to_owned());
                }
                None => {
                    self.begin(bytes, sink);
                    self.plain.add(place, bytes, false, sink);
                    self.begun = Begun::Plain;
                }
            },
        }
    }

    /// A line, or the end of one.
    fn line(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        if !matches!(self.begun, Begun::No) {
            let end = if matches!(self.begun, Begun::Plain) { bytes } else { without_end(bytes) };
            self.part(end, sink);
            self.begun = Begun::No;
            self.line += 1;
            return;
        }
        self.line += 1;
        let bytes = line::without_mark(bytes);
        if self.is_header(bytes) {
            return;
        }
        if let Some((label, rest)) = line::labelled(without_end(bytes)) {
            self.cut_off(sink);
            return self.piece(label, rest, true, sink);
        }
        self.begin(bytes, sink);
        self.plain.add(InputPosition { label: None, line: self.line }, bytes, true, sink);
    }

    /// Whether a line is part of a header.
    fn is_header(&mut self, bytes: &[u8]) -> bool {
        let is_rule = line::is_rule(bytes) && !self.plain.is_open();
        self.header = match (self.header, is_rule) {
            (Header::No, true) => Header::Rule,
            (Header::Rule, false) if !bytes.contains(&b'{') => Header::Names,
            (Header::Names, true) => {
                self.header = Header::No;
                return true;
            }
            _ => Header::No,
        };
        self.header != Header::No
    }

    /// A new document begins where only a broken one could go on.
    fn begin(&mut self, bytes: &[u8], sink: &mut dyn Sink) {
        let is_new = bytes.starts_with(b"{\"schema\"") || bytes.trim_ascii_end() == b"{";
        if is_new || self.plain.is_in_string() {
            self.cut_off(sink);
        }
    }

    fn cut_off(&mut self, sink: &mut dyn Sink) {
        self.plain.finish(None, sink);
    }

    /// A line with a label.
    fn piece(&mut self, label: &str, bytes: &[u8], is_whole: bool, sink: &mut dyn Sink) {
        let place = InputPosition { label: Some(label), line: self.line };
        if !self.labelled.contains_key(label) {
            if self.labelled.len() >= LABELS {
                return sink.other(place, Other::TooMany);
            }
            self.labelled.insert(label.to_owned(), Pieces::default());
        }
        let Some(pieces) = self.labelled.get_mut(label) else { return };
        let before = pieces.len();
        pieces.add(place, bytes, is_whole, sink);
        self.unfinished = self.unfinished.saturating_sub(before) + pieces.len();
        if self.unfinished > UNFINISHED {
            self.drop_longest(sink);
        }
    }

    /// Throws the longest unfinished document away.
    fn drop_longest(&mut self, sink: &mut dyn Sink) {
        let longest = self.labelled.iter_mut().max_by(|(a, x), (b, y)| (x.len(), b).cmp(&(y.len(), a)));
        if let Some((label, pieces)) = longest {
            self.unfinished = self.unfinished.saturating_sub(pieces.len());
            pieces.skip(Some(label), Other::TooMany, sink);
        }
    }
}

/// A line without its end.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

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
