//! Wraps sentences to the width of the output. Words, such as paths, are never
//! broken.

use std::io::{self, Write};

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::{Style, sanitize};

/// The most characters of a reason.
const WHY: usize = 300;

/// Prints text after `first`; further lines are indented by `indent` columns.
///
/// Escape sequences in `first` take no columns. Those in `text` are made visible.
pub(super) fn write(
    out: &mut dyn Write,
    first: &str,
    indent: usize,
    width: usize,
    text: &str,
) -> io::Result<()> {
    write_safe(out, first, indent, width, &single_spaced(text))
}

/// The same for text that was made safe already.
fn write_safe(out: &mut dyn Write, first: &str, indent: usize, width: usize, text: &str) -> io::Result<()> {
    let indent = " ".repeat(indent);
    let options = Options::new(width)
        .initial_indent(first)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// Prints what there is to know besides a table, below it; the text was made safe already.
pub(super) fn note(out: &mut dyn Write, style: Style, text: &str) -> io::Result<()> {
    write_safe(out, "  ", 4, usize::from(style.width), text)
}

/// Prints a note about several processes, of which the first is named.
pub(super) fn note_about(out: &mut dyn Write, style: Style, pids: &[u32], text: &str) -> io::Result<()> {
    match pids {
        [pid] => note(out, style, &format!("{pid}: {text}")),
        [pid, rest @ ..] => note(out, style, &format!("{pid} and {} more: {text}", rest.len())),
        [] => Ok(()),
    }
}

/// Prints why it is not known what processes hold; those alike share a line.
pub(super) fn notes_of_unknown<'a>(
    out: &mut dyn Write,
    style: Style,
    unknown: impl Iterator<Item = (u32, &'a str)>,
) -> io::Result<()> {
    let mut alike: Vec<(&str, Vec<u32>)> = Vec::new();
    for (pid, why) in unknown {
        match alike.iter_mut().find(|(known, _)| *known == why) {
            Some((_, pids)) => pids.push(pid),
            None => alike.push((why, vec![pid])),
        }
    }
    let line = |why: &str| format!("holds: {}", sanitize::short(why, WHY, "…"));
    alike.iter().try_for_each(|(why, pids)| note_about(out, style, pids, &line(why)))
}

/// Standard error as people read it: its lines are wrapped to the width of the terminal.
/// Where there is none, in a log or a pipe, a line stays a line, which programs rely on.
#[derive(Debug)]
pub struct Wrapping<W: Write> {
    to: W,
    width: Option<usize>,
    /// A line without its end.
    line: Vec<u8>,
}

impl<W: Write> Wrapping<W> {
    /// Lines on their way to `to`; no `width` leaves them as they are.
    pub fn new(to: W, width: Option<usize>) -> Self {
        Self { to, width, line: Vec::new() }
    }

    fn give(&mut self, width: usize) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        // Text that is no text, or has no end yet, goes its way unchanged.
        match std::str::from_utf8(&line).ok().and_then(|line| line.strip_suffix('\n')) {
            Some(line) => {
                let text = line.trim_start_matches(' ');
                let indent = line.len() - text.len();
                write_safe(&mut self.to, &" ".repeat(indent), indent + 2, width, text)
            }
            None => self.to.write_all(&line),
        }
    }
}

impl<W: Write> Write for Wrapping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(width) = self.width else { return self.to.write(bytes) };
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.give(width)?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(width) = self.width {
            self.give(width)?;
        }
        self.to.flush()
    }
}

impl<W: Write> Drop for Wrapping<W> {
    fn drop(&mut self) {
        // Nobody is left to be told that nobody reads it.
        let _nobody_left = self.flush();
    }
}

/// Text made safe, with one space between words.
fn single_spaced(text: &str) -> String {
    let safe = sanitize::text(text);
    safe.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(first: &str, indent: usize, width: usize, text: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, first, indent, width, text).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Make sure that no line is too long but for a word that is, and that no
    /// text can start a line by itself.
    #[test]
    fn wrapping() {
        assert_eq!(wrapped("", 0, 7, "one two three"), "one two\nthree\n");
        assert_eq!(wrapped("", 0, 4, "/a/very/long/path-of-x y"), "/a/very/long/path-of-x\ny\n");
        assert_eq!(wrapped("", 0, 80, "a\nb  c"), "a\\nb c\n");
        assert_eq!(wrapped("", 0, 80, ""), "\n");
        let expected = "because  one two\n         three\n";
        assert_eq!(wrapped("because  ", 9, 16, "one two three"), expected);
    }

    /// Make sure that standard error is wrapped on a terminal and nowhere else, however its
    /// lines come.
    #[test]
    fn standard_error() {
        let through = |width| {
            let mut out = Vec::new();
            let mut err = Wrapping::new(&mut out, width);
            write!(err, "gpumap: /a: ").unwrap();
            write!(err, "one two three").unwrap();
            writeln!(err, " four").unwrap();
            write!(err, "  1: one two three\nend").unwrap();
            drop(err);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(through(None), "gpumap: /a: one two three four\n  1: one two three\nend");
        let narrow = "gpumap: /a:\n  one two\n  three four\n  1: one two\n    three\nend";
        assert_eq!(through(Some(12)), narrow);
    }

    /// Make sure that colour takes no room, and that wide characters take two
    /// columns.
    #[test]
    fn columns() {
        assert_eq!(wrapped("\x1b[31mred\x1b[0m ", 2, 8, "one two"), "\x1b[31mred\x1b[0m one\n  two\n");
        assert_eq!(wrapped("", 0, 9, "漢字 漢字 x"), "漢字 漢字\nx\n");
    }
}
