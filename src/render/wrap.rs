//! Sentences in lines of a width; words, such as paths, are never broken.

use std::io::{self, Write};

use super::sanitize;

/// Prints text after `first`, which counts as `used` columns; further lines are
/// indented by `indent`.
pub(super) fn write(
    out: &mut dyn Write,
    (first, used): (&str, usize),
    indent: usize,
    width: usize,
    text: &str,
) -> io::Result<()> {
    let lines = lines(text, width.saturating_sub(used), width.saturating_sub(indent));
    let mut lines = lines.into_iter();
    writeln!(out, "{}", format!("{first}{}", lines.next().unwrap_or_default()).trim_end())?;
    lines.try_for_each(|line| writeln!(out, "{:indent$}{line}", ""))
}

/// Text made safe, in lines: the first of one width, the others of another.
fn lines(text: &str, first: usize, other: usize) -> Vec<String> {
    let safe = sanitize::text(text);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in safe.split(' ').filter(|word| !word.is_empty()) {
        let room = if lines.is_empty() { first } else { other };
        let wide = line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && wide > room {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that no line is too long but for a word that is, and that no
    /// text can start a line by itself.
    #[test]
    fn wrapping() {
        assert_eq!(lines("one two three", 7, 5), ["one two", "three"]);
        assert_eq!(lines("/a/very/long/path x", 4, 4), ["/a/very/long/path", "x"]);
        assert_eq!(lines("a\nb  c", 80, 80), ["a\\nb c"]);
        assert_eq!(lines("", 80, 80), [""]);
        let mut out = Vec::new();
        write(&mut out, ("because  ", 9), 9, 16, "one two three").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "because  one two\n         three\n");
    }
}
