//! Reassembles the documents of one writer from pieces that may end anywhere: finds where a
//! JSON object ends, however its bytes arrive.

use memchr::memchr2;

use super::line;

/// The longest document.
pub const LONGEST_DOCUMENT: usize = 64 << 20;

/// What takes documents out of a stream.
pub trait Sink {
    /// Takes bytes that may be one whole document. Returns `false`, and takes nothing,
    /// if they are not.
    fn try_document(&mut self, place: InputPosition<'_>, bytes: &[u8]) -> bool;
    /// Takes bytes that begin and end as a document does, or that ended too early.
    fn document(&mut self, place: InputPosition<'_>, bytes: &[u8]);
    /// Learns of bytes that are no document.
    fn other(&mut self, place: InputPosition<'_>, why: Other<'_>);
}

/// Where in an input something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputPosition<'a> {
    /// The label of its lines.
    pub label: Option<&'a str>,
    /// The line on which it begins, from 1.
    pub line: u64,
}

/// Why bytes are no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other<'a> {
    /// They do not begin as one.
    Text(&'a [u8]),
    /// It is longer than [`LONGEST_DOCUMENT`].
    TooLong,
    /// It was cut off because too many others were begun at the same time.
    TooMany,
}

/// The document that is being put together.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    scan: Scan,
    line: u64,
    /// Whether the rest of a document is thrown away, until the next one begins.
    is_skipping: bool,
}

impl Pieces {
    /// Bytes that are kept.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether a document has begun.
    pub(super) fn is_open(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether the next line belongs to the document only if it is broken: no line
    /// ends inside a string.
    pub(super) fn is_in_string(&self) -> bool {
        self.is_open() && self.scan.is_in_string()
    }

    /// Adds bytes. `is_whole` says that they are a whole line, or what a label stands
    /// before, so that they may be a whole document.
    pub(super) fn add(
        &mut self,
        place: InputPosition<'_>,
        bytes: &[u8],
        is_whole: bool,
        sink: &mut dyn Sink,
    ) {
        if self.is_open() {
            self.bytes.extend_from_slice(bytes);
            return self.follow(place, sink);
        }
        let bytes = line::without_mark(bytes);
        let text = bytes.trim_ascii();
        match text.first() {
            None => {}
            Some(b'{') => {
                self.is_skipping = false;
                if is_whole && text.last() == Some(&b'}') && sink.try_document(place, text) {
                    return;
                }
                self.line = place.line;
                // Blanks at the end may be inside of a string.
                self.bytes.extend_from_slice(bytes.trim_ascii_start());
                self.follow(place, sink);
            }
            Some(_) if self.is_skipping => {}
            Some(_) => sink.other(place, Other::Text(text)),
        }
    }

    /// Gives what is open away as it is: nothing more comes.
    pub(super) fn finish(&mut self, label: Option<&str>, sink: &mut dyn Sink) {
        if self.is_open() {
            let bytes = self.take();
            sink.document(InputPosition { label, line: self.line }, &bytes);
        }
    }

    /// Throws away what is open and what still comes of it.
    pub(super) fn skip(&mut self, label: Option<&str>, why: Other<'_>, sink: &mut dyn Sink) {
        sink.other(InputPosition { label, line: self.line }, why);
        self.take();
        self.is_skipping = true;
    }

    /// Gives every document away that has ended.
    fn follow(&mut self, place: InputPosition<'_>, sink: &mut dyn Sink) {
        let all = std::mem::take(&mut self.bytes);
        let mut start = 0;
        while let Some(end) = all.get(start..).and_then(|rest| self.scan.end(rest)) {
            let (whole, rest) = all.get(start..).unwrap_or_default().split_at(end);
            let from = InputPosition { line: self.line, ..place };
            match whole.len() > LONGEST_DOCUMENT {
                true => sink.other(from, Other::TooLong),
                false => sink.document(from, whole),
            }
            (self.scan, self.line) = (Scan::default(), place.line);
            let next = rest.trim_ascii_start();
            if !next.starts_with(b"{") {
                if !next.is_empty() {
                    sink.other(place, Other::Text(next.trim_ascii_end()));
                }
                return;
            }
            start = all.len() - next.len();
        }
        self.bytes = all;
        self.bytes.drain(..start);
        if self.bytes.len() > LONGEST_DOCUMENT {
            self.skip(place.label, Other::TooLong, sink);
        }
    }

    fn take(&mut self) -> Vec<u8> {
        self.scan = Scan::default();
        std::mem::take(&mut self.bytes)
    }
}

/// How far an object was followed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Bytes that were looked at.
    at: usize,
    /// Braces and brackets that are open.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Scan {
    /// Follows the object that begins at the first byte of `bytes`, from where the
    /// last call stopped. Returns the end of the object if it is there. Each byte is
    /// looked at once, over all calls.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(rest) = bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            if self.in_string {
                self.string(rest);
            } else if self.outside(rest) {
                return Some(self.at);
            }
        }
        None
    }

    /// Whether the last byte was inside a string, where no line can end.
    pub(super) fn is_in_string(&self) -> bool {
        self.in_string
    }

    fn string(&mut self, rest: &[u8]) {
        if self.is_escaped {
            self.is_escaped = false;
            self.at += 1;
            return;
        }
        let Some(found) = memchr2(b'"', b'\\', rest) else {
            self.at += rest.len();
            return;
        };
        self.at += found + 1;
        self.is_escaped = rest.get(found) == Some(&b'\\');
        self.in_string = self.is_escaped;
    }

    /// Follows what is outside of strings; whether the object ends.
    fn outside(&mut self, rest: &[u8]) -> bool {
        for (index, byte) in rest.iter().enumerate() {
            match byte {
                b'"' => {
                    self.in_string = true;
                    self.at += index + 1;
                    return false;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        self.at += index + 1;
                        return true;
                    }
                }
                _ => {}
            }
        }
        self.at += rest.len();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that the end is found wherever the bytes are cut.
    #[test]
    fn ends() {
        let text = br#"{"a\"}":[{"b":"]\\"},1],"c":{}}"#;
        let all = [text.as_slice(), b" {}"].concat();
        for cut in 0..all.len() {
            let mut scan = Scan::default();
            let first = scan.end(&all[..cut]);
            assert_eq!(first, (cut >= text.len()).then_some(text.len()), "{cut}");
            assert_eq!(first.or_else(|| scan.end(&all)), Some(text.len()));
        }
        assert_eq!(Scan::default().end(b"{\"a"), None);
    }
}
