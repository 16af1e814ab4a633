//! Reads the lines of a Slurm configuration file: comments, continuations, quotes.
//!
//! The grammar is that of Slurm's own parser (`src/common/parse_config.c`):
//! `Key=Value` pairs, blanks around `=` allowed, a value in double quotes may hold
//! blanks, `#` starts a comment anywhere but after `\`, and `\` at the end joins
//! the next line. What does not fit the grammar is kept as [`Line::bad`], because
//! Slurm would refuse the file.

use std::collections::HashSet;

/// A logical line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Number of its first physical line, from 1.
    pub(super) number: usize,
    /// Keys in lower case, and their values.
    pub(super) pairs: Vec<(String, String)>,
    /// Why Slurm would refuse the line.
    pub(super) bad: Option<String>,
}

impl Line {
    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The first key, which tells Slurm what kind of line this is.
    pub(super) fn first(&self) -> Option<&str> {
        self.pairs.first().map(|(name, _)| name.as_str())
    }
}

/// All lines that are not blank.
pub(super) fn parse(text: &str) -> Vec<Line> {
    logical(text)
        .filter(|(_, text)| !text.trim().is_empty())
        .map(|(number, text)| line(number, &text))
        .collect()
}

/// Joins continued lines, without their comments.
fn logical(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut physical = text.lines().enumerate();
    std::iter::from_fn(move || {
        let (index, first) = physical.next()?;
        let mut joined = comment_cut(first);
        while joined.ends_with('\\') {
            joined.pop();
            joined.push_str(&physical.next().map(|(_, next)| comment_cut(next)).unwrap_or_default());
        }
        Some((index + 1, joined))
    })
}

/// A physical line up to its comment; `\#` is no comment.
fn comment_cut(line: &str) -> String {
    let hash = line.match_indices('#').map(|(at, _)| at).find(|at| !line[..*at].ends_with('\\'));
    hash.map_or(line, |at| &line[..at]).replace("\\#", "#")
}

fn line(number: usize, text: &str) -> Line {
    let mut line = Line { number, ..Line::default() };
    let mut rest = text.trim();
    while !rest.is_empty() {
        match pair(rest) {
            Ok((key, value, after)) => {
                line.pairs.push((key.to_ascii_lowercase(), value.to_owned()));
                rest = after.trim_start();
            }
            Err(why) => {
                line.bad = Some(why);
                break;
            }
        }
    }
    if line.bad.is_none() {
        line.bad = repeated(&line.pairs);
    }
    line
}

/// Finds a key that stands twice in a line: Slurm takes one of them, with an error
/// in its log.
fn repeated(pairs: &[(String, String)]) -> Option<String> {
    let mut known = HashSet::new();
    let twice = pairs.iter().find(|(key, _)| !known.insert(key));
    twice.map(|(key, _)| format!("{} is given twice", short(key)))
}

/// One pair, and what follows.
fn pair(text: &str) -> Result<(&str, &str, &str), String> {
    let word = || text.split_whitespace().next().unwrap_or_default().to_owned();
    let (key, after) = text.split_once('=').ok_or_else(|| not_a_pair(&word()))?;
    let key = key.trim_end();
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if key.is_empty() || !key.chars().all(plain) {
        return Err(not_a_pair(&word()));
    }
    let after = after.trim_start();
    let (value, rest) = match after.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').ok_or("a quote is not closed")?,
        None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
    };
    if value.contains('"')
        || value.contains('\\')
        || !(rest.is_empty() || rest.starts_with(char::is_whitespace))
    {
        return Err(format!("the value of {} is not understood", short(key)));
    }
    Ok((key, value, rest))
}

fn not_a_pair(word: &str) -> String {
    if word.eq_ignore_ascii_case("include") {
        return "gpumap does not follow Include".to_owned();
    }
    format!("`{}` is not Key=Value", short(word))
}

/// An entry, short enough for a message.
pub(super) fn short(entry: &str) -> String {
    entry.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<Vec<(String, String)>> {
        let lines = parse(text);
        assert!(lines.iter().all(|line| line.bad.is_none()), "{lines:?}");
        lines.into_iter().map(|line| line.pairs).collect()
    }

    #[test]
    fn continuations_quotes_and_comments() {
        let text = "# all\nNAME = gpu  \\\n File=\"/dev/nvidia[0-3]\" # four\n\nAutoDetect=off\n";
        let own = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expected =
            [vec![own("name", "gpu"), own("file", "/dev/nvidia[0-3]")], vec![own("autodetect", "off")]];
        assert_eq!(pairs(text), expected);
        assert_eq!(parse(text)[1].number, 5);
    }

    #[test]
    fn what_slurm_refuses_is_bad() {
        for text in ["Name", "Include other.conf", "a b=c", "x=\"1", "x=\"1\"2", "x=1 x=2", "x=1 \\ ", "=1"] {
            assert!(parse(text)[0].bad.is_some(), "{text}");
        }
    }
}
