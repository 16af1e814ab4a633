//! The lines of Slurm's configuration files, as Slurm's own parser takes them
//! (`src/common/parse_config.c`): `#` begins a comment unless `\` stands before it, `\`
//! at the end joins the next line, values with blanks stand in double quotes, and upper
//! and lower case are the same in keys.

/// The lines without comments, joined where they go on, each with the number from 1 of
/// its last one.
pub(super) fn logical(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut joined) = (Vec::new(), String::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line);
        match continued(line) {
            Some(part) => joined.push_str(part),
            None => lines.push((number, unescaped(&(std::mem::take(&mut joined) + line)))),
        }
    }
    if !joined.is_empty() {
        lines.push((text.lines().count(), unescaped(&joined)));
    }
    lines
}

/// The line up to a `#` that an even number of `\` stand before.
fn without_comment(line: &str) -> &str {
    let mut escapes = 0;
    for (at, c) in line.char_indices() {
        match c {
            '#' if escapes % 2 == 0 => return line.get(..at).unwrap_or(line),
            '\\' => escapes += 1,
            _ => escapes = 0,
        }
    }
    line
}

/// The line up to the `\` that joins the next one, if it ends so.
fn continued(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let escapes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if escapes % 2 == 1 { line.strip_suffix('\\') } else { None }
}

/// The line without the `\` before a character.
fn unescaped(line: &str) -> String {
    let (mut out, mut chars) = (String::with_capacity(line.len()), line.chars());
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// The file of a line that begins with `Include FILE`.
pub(super) fn included(line: &str) -> Option<&str> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let name = rest.split_whitespace().next()?;
    (word.eq_ignore_ascii_case("include") && !name.starts_with('=')).then_some(name)
}

/// The pairs of a line, keys in lower case, and whether that is all of it: Slurm refuses
/// a file with anything else.
pub(super) fn pairs(line: &str) -> (Vec<(String, String)>, bool) {
    let (mut found, mut rest) = (Vec::new(), line);
    while let Some((key, value, after)) = pair(rest) {
        found.push((key.to_ascii_lowercase(), value.to_owned()));
        rest = after;
    }
    (found, rest.trim().is_empty())
}

fn pair(text: &str) -> Option<(&str, &str, &str)> {
    let (key, after) = text.split_once('=')?;
    // Slurm knows `+=` and its kin.
    let key = key.trim_end_matches(['+', '-', '*', '/']).trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if key.is_empty() || !key.chars().all(is_name) {
        return None;
    }
    let after = after.trim_start();
    let (value, rest) = quoted(after)
        .or_else(|| after.split_at_checked(after.find(char::is_whitespace).unwrap_or(after.len())))?;
    (!value.is_empty() || after.starts_with('"')).then_some((key, value, rest))
}

/// A value in quotes, and what follows. Quotes that are not closed, or not at the end of
/// a word, belong to the value.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (value, rest) = text.strip_prefix('"')?.split_once('"')?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some((value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<(String, String)> {
        logical(text).iter().flat_map(|(_, line)| pairs(line).0).collect()
    }

    fn own(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// Make sure that lines go on, that quotes keep blanks and that comments end lines
    /// where Slurm takes them to.
    #[test]
    fn as_slurm_reads() {
        let text = "TaskPlugin=task/affinity,\\\ntask/cgroup # x\nA = \"b, c\" D=e\nX=1\\#2\n\
                    C=1 \\ # goes on\n E=2\nF+=3\n";
        let expected = [
            ("taskplugin", "task/affinity,task/cgroup"),
            ("a", "b, c"),
            ("d", "e"),
            ("x", "1#2"),
            ("c", "1"),
            ("e", "2"),
            ("f", "3"),
        ];
        assert_eq!(all(text), own(&expected));
        assert_eq!(all("x=\"1\ny=\"1\"2"), own(&[("x", "\"1"), ("y", "\"1\"2")]));
        for text in ["", "=", "a b=c", "x", "\\", "# a=b", "\\\\\\"] {
            assert_eq!(all(text), [], "{text:?}");
        }
    }

    /// Make sure that lines which Slurm refuses are known as such, with their number.
    #[test]
    fn refused() {
        let bad = |text: &str| {
            let lines = logical(text).into_iter();
            lines.filter(|(_, line)| !pairs(line).1).map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(bad("A=1\n# x\nB 2\nC=1 \\\nd\nG=\nH\n include x\n"), [3, 5, 6, 7, 8]);
        assert_eq!(bad("A=1 B = \"\n\n  \nA=1 B=2  \nC=\"a b\"\nE=\"1\nF=\"1\"2\nG=\"\"\n"), [0; 0]);
    }

    /// Make sure that a key that begins like it is no `Include`.
    #[test]
    fn includes() {
        assert_eq!(included("INCLUDE\tmore.conf x"), Some("more.conf"));
        for text in ["Include=x", "include = x", "Included x", "include", " include x", ""] {
            assert_eq!(included(text), None, "{text:?}");
        }
    }
}
