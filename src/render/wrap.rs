//! Wraps sentences to the width of the output. Words, such as paths, are never
//! broken.

use std::io::{self, Write};

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::{Style, sanitize};

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

    /// Make sure that colour takes no room, and that wide characters take two
    /// columns.
    #[test]
    fn columns() {
        assert_eq!(wrapped("\x1b[31mred\x1b[0m ", 2, 8, "one two"), "\x1b[31mred\x1b[0m one\n  two\n");
        assert_eq!(wrapped("", 0, 9, "漢字 漢字 x"), "漢字 漢字\nx\n");
    }
}
