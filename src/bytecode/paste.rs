//! Takes away what terminals and other tools put around a listing: colours, and the
//! line numbers of `cat -n` and `grep -n`.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// The listing alone.
pub(super) fn plain(content: &str) -> Cow<'_, str> {
    let content = if content.contains(ESCAPE) { uncoloured(content).into() } else { Cow::from(content) };
    match unnumbered(&content) {
        Some(lines) => lines.into(),
        None => content,
    }
}

/// The text without the sequences that set colours and titles (ECMA-48).
fn uncoloured(content: &str) -> String {
    let mut plain = String::with_capacity(content.len());
    let mut rest = content.chars();
    while let Some(c) = rest.next() {
        if c != ESCAPE {
            plain.push(c);
            continue;
        }
        match rest.next() {
            Some('[') => drop(rest.find(|c| ('@'..='~').contains(c))),
            Some(']') => drop(rest.find(|c| matches!(*c, BELL | ESCAPE))),
            _ => {}
        }
    }
    plain
}

/// The lines without their numbers, if every line has its own.
fn unnumbered(content: &str) -> Option<String> {
    let rest = |(index, line): (usize, &'_ str)| {
        let rest = line.trim_start().strip_prefix(&(index + 1).to_string())?;
        let is_apart = rest.is_empty() || rest.starts_with([' ', '\t', ':']);
        is_apart.then(|| rest.strip_prefix([' ', '\t', ':']).unwrap_or_default().to_owned() + "\n")
    };
    content.lines().enumerate().map(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that colours and numbers go, and nothing else does.
    #[test]
    fn wrappings() {
        let listing = "   0: (b7) r0 = 1\n   1: (95) exit\n";
        let numbered = "     1\t   0: (b7) r0 = 1\n     2\t   1: (95) exit\n";
        assert_eq!(plain(numbered), listing);
        assert_eq!(plain("1:   0: (b7) r0 = 1\n2:   1: (95) exit\n"), listing);
        assert_eq!(plain("\u{1b}[32m   0: (b7)\u{1b}[0m r0 = 1\n   1: (95) exit\n"), listing);
        assert_eq!(plain("\u{1b}]0;title\u{7}x"), "x");
        assert_eq!(plain("\u{1b}["), "");
        assert_eq!(plain(listing), listing);
        assert_eq!(plain("1: (95) exit"), " (95) exit\n");
    }
}
