//! The lines of Slurm's configuration files (`slurm.conf`, `gres.conf`, `cgroup.conf`), as
//! Slurm's own parser takes them (`src/common/parse_config.c`; `slurmd -G` was compared).
//!
//! `#` begins a comment unless an odd number of `\` stand before it. `\` at the end, blanks
//! behind it or not, joins the next line. Before any other character `\` is dropped. What
//! is left are pairs `Key=Value`: upper and lower case are the same in keys, blanks may
//! stand around `=`, and a value with blanks stands in double quotes. What is no pair makes
//! Slurm refuse the file. No file is read here: who follows an `Include` does that. Values
//! that list hosts or device files are read by [`expand`] and its kin.

mod hostlist;

pub use hostlist::{contains, expand, host_names, short};

/// A logical line: physical ones that `\` joins, without comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfLine {
    /// Number of its first physical line, from 1.
    pub first: usize,
    /// Number of its last one, which Slurm names in messages.
    pub last: usize,
    /// The pairs up to what is none.
    pub pairs: Vec<Pair>,
    /// The file of a line that begins with `Include FILE`.
    pub include: Option<String>,
    /// What is left of the line that is no pair: Slurm refuses it.
    pub rest: Option<String>,
}

/// `Key=Value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The key, in lower case.
    pub key: String,
    /// The value, without quotes around it.
    pub value: String,
    /// Whether an operator stands before `=`, as in `+=`.
    pub has_operator: bool,
}

impl ConfLine {
    /// The value of the first pair with this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|pair| pair.key == key).map(|pair| pair.value.as_str())
    }
}

/// All lines that are not blank.
pub fn parse(text: &str) -> Vec<ConfLine> {
    let (mut lines, mut joined, mut first) = (Vec::new(), String::new(), None);
    let mut physical = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = physical.next() {
        let line = without_comment(line);
        let began = *first.get_or_insert(number);
        let part = continued(line);
        joined.push_str(part.unwrap_or(line));
        if part.is_none() || physical.peek().is_none() {
            let text = unescaped(&std::mem::take(&mut joined));
            lines.extend((!text.trim().is_empty()).then(|| logical((began, number), &text)));
            first = None;
        }
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

fn logical((first, last): (usize, usize), text: &str) -> ConfLine {
    let mut line = ConfLine { first, last, include: included(text), ..ConfLine::default() };
    let mut rest = if line.include.is_some() { "" } else { text };
    while let Some((pair, after)) = pair(rest) {
        line.pairs.push(pair);
        rest = after;
    }
    line.rest = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
    line
}

fn included(line: &str) -> Option<String> {
    let (word, rest) = line.split_once(char::is_whitespace)?;
    let name = rest.split_whitespace().next()?;
    (word.eq_ignore_ascii_case("include") && !name.starts_with('=')).then(|| name.to_owned())
}

/// One pair, and what follows.
fn pair(text: &str) -> Option<(Pair, &str)> {
    let (before, after) = text.split_once('=')?;
    let key = before.trim_end_matches(['+', '-', '*', '/']);
    let has_operator = key.len() < before.len();
    let key = key.trim();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if key.is_empty() || !key.chars().all(is_name) {
        return None;
    }
    let after = after.trim_start();
    let (value, rest) = quoted(after)
        .or_else(|| after.split_at_checked(after.find(char::is_whitespace).unwrap_or(after.len())))?;
    let pair = Pair { key: key.to_ascii_lowercase(), value: value.to_owned(), has_operator };
    (!value.is_empty() || after.starts_with('"')).then_some((pair, rest))
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
        parse(text).into_iter().flat_map(|line| line.pairs).map(|pair| (pair.key, pair.value)).collect()
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
        let operators: Vec<bool> = parse("F+=3 G=4")[0].pairs.iter().map(|pair| pair.has_operator).collect();
        assert_eq!(operators, [true, false]);
    }

    /// Make sure that a line has the numbers of its first and its last physical line, also
    /// where the text ends with one that goes on.
    #[test]
    fn numbers() {
        let text = "# all\nNAME = gpu  \\ \n File=\"/dev/nvidia[0-3]\" # four\n\nAutoDetect=off \\\n";
        let lines = parse(text);
        let numbers: Vec<_> = lines.iter().map(|line| (line.first, line.last)).collect();
        assert_eq!(numbers, [(2, 3), (5, 5)]);
        assert_eq!(lines[0].get("file"), Some("/dev/nvidia[0-3]"));
        assert_eq!((lines[0].get("name"), lines[1].get("autodetect")), (Some("gpu"), Some("off")));
    }

    /// Make sure that lines which Slurm refuses are known as such, with their number.
    #[test]
    fn refused() {
        let bad = |text: &str| {
            let lines = parse(text).into_iter();
            lines.filter(|line| line.rest.is_some()).map(|line| line.last).collect::<Vec<_>>()
        };
        assert_eq!(bad("A=1\n# x\nB 2\nC=1 \\\nd\nG=\nH\n include x\n"), [3, 5, 6, 7, 8]);
        assert_eq!(bad("A=1 B = \"\n\n  \nA=1 B=2  \nC=\"a b\"\nE=\"1\nF=\"1\"2\nG=\"\"\n"), [0; 0]);
    }

    /// Make sure that a key that begins like it is no `Include`.
    #[test]
    fn includes() {
        let of = |text: &str| parse(text).into_iter().next().and_then(|line| line.include);
        assert_eq!(of("INCLUDE\tmore.conf x").as_deref(), Some("more.conf"));
        for text in ["Include=x", "include = x", "Included x", "include", " include x", ""] {
            assert_eq!(of(text), None, "{text:?}");
        }
    }
}
