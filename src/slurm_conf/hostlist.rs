//! Matches Slurm's host lists: `tux[0-3,07-09],login`. `File=` uses the same
//! notation.
//!
//! Names are matched without expanding the list, and expansion is bounded, because
//! ten bytes can stand for four thousand million hosts.

/// How long a list may be when it is written out.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How many names.
    names: usize,
    /// How many bytes they have together.
    bytes: usize,
}

/// More device files than a node has.
const DEVICES: Limits = Limits { names: 4096, bytes: 1 << 20 };
/// More groups in brackets than Slurm takes.
const GROUP_LIMIT: usize = 4;

/// Nodes that a host list may name.
const NODES: Limits = Limits { names: 1 << 17, bytes: 1 << 23 };

/// A piece of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Numbers(Vec<Range>),
}

/// Numbers with leading zeros up to a width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    width: usize,
}

/// An entry, short enough for a message.
pub fn short(entry: &str) -> String {
    entry.chars().take(64).collect()
}

/// The nodes of a host list, `tux[0-3,07-09],login`, in its order.
///
/// # Errors
///
/// A list that is not understood, or that names more nodes than a cluster has.
pub fn host_names(list: &str) -> Result<Vec<String>, String> {
    expand_within(list, NODES)
}

/// The names of a list in its order.
///
/// # Errors
///
/// A list that is not understood or has too many names.
pub fn expand(list: &str) -> Result<Vec<String>, String> {
    expand_within(list, DEVICES)
}

/// The names of a list in its order.
///
/// # Errors
///
/// A list that is not understood or is longer than the limits.
fn expand_within(list: &str, limits: Limits) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut bytes = 0;
    for name in split(list)? {
        let one = expand_one(&parts(name)?, limits)?;
        bytes += one.iter().map(String::len).sum::<usize>();
        names.extend(one);
        if names.len() > limits.names {
            return Err(too_many(limits));
        }
        if bytes > limits.bytes {
            return Err(too_long(limits));
        }
    }
    Ok(names)
}

/// Whether a list has a name.
///
/// # Errors
///
/// A list that is not understood.
pub fn contains(list: &str, name: &str) -> Result<bool, String> {
    let parts: Result<Vec<_>, _> = split(list)?.into_iter().map(parts).collect();
    Ok(parts?.iter().any(|parts| matches(parts, name)))
}

fn too_many(limits: Limits) -> String {
    format!("more than {} names in one list", limits.names)
}

fn too_long(limits: Limits) -> String {
    format!("the names of one list have more than {} bytes", limits.bytes)
}

/// The names of a list: split at commas outside of brackets.
fn split(list: &str) -> Result<Vec<&str>, String> {
    let mut inside = false;
    let mut names = Vec::new();
    let mut start = 0;
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' | b']' if inside == (byte == b'[') => {
                return Err(format!("brackets of `{}` do not match", short(list)));
            }
            b'[' | b']' => inside = byte == b'[',
            b',' if !inside => {
                names.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    names.push(&list[start..]);
    let whole = !inside && names.iter().all(|name| !name.is_empty());
    whole.then_some(names).ok_or_else(|| format!("`{}` is not a list of names", short(list)))
}

fn parts(name: &str) -> Result<Vec<Part>, String> {
    if name.bytes().filter(|byte| *byte == b'[').count() > GROUP_LIMIT {
        return Err(format!("`{}` has more than {GROUP_LIMIT} groups in brackets", short(name)));
    }
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some((text, after)) = rest.split_once('[') {
        let (numbers, after) =
            after.split_once(']').ok_or_else(|| format!("brackets of `{}` do not match", short(name)))?;
        parts.push(Part::Text(text.to_owned()));
        let ranges: Option<Vec<Range>> = numbers.split(',').map(range).collect();
        parts.push(Part::Numbers(
            ranges.ok_or_else(|| format!("`[{}]` is not a list of numbers", short(numbers)))?,
        ));
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    Ok(parts)
}

fn range(text: &str) -> Option<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let digits = |text: &str| text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit());
    let range = Range { first: first.parse().ok()?, last: last.parse().ok()?, width: first.len() };
    // Slurm wants ends of one width where there are leading zeros.
    let zeros = first.len() > 1 && first.starts_with('0') || last.len() > 1 && last.starts_with('0');
    let even = !zeros || first.len() == last.len();
    (digits(first) && digits(last) && even && range.first <= range.last).then_some(range)
}

fn expand_one(parts: &[Part], limits: Limits) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    for part in parts {
        match part {
            Part::Text(text) if text.len().saturating_mul(names.len()) > limits.bytes => {
                return Err(too_long(limits));
            }
            Part::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            Part::Numbers(ranges) => {
                let tails = numbers(ranges, limits)?;
                if tails.len().saturating_mul(names.len()) > limits.names {
                    return Err(too_many(limits));
                }
                names = names
                    .iter()
                    .flat_map(|name| tails.iter().map(move |tail| format!("{name}{tail}")))
                    .collect();
            }
        }
    }
    Ok(names)
}

fn numbers(ranges: &[Range], limits: Limits) -> Result<Vec<String>, String> {
    let limit = limits.names as u64;
    let count = ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.last - range.first + 1));
    if count > limit {
        return Err(too_many(limits));
    }
    let one = |range: &Range| {
        let width = range.width;
        (range.first..=range.last).map(move |number| format!("{number:0width$}"))
    };
    Ok(ranges.iter().flat_map(one).collect())
}

fn matches(parts: &[Part], name: &str) -> bool {
    let Some((part, rest)) = parts.split_first() else { return name.is_empty() };
    match part {
        Part::Text(text) => name.strip_prefix(text.as_str()).is_some_and(|name| matches(rest, name)),
        Part::Numbers(ranges) => {
            let digits = name.bytes().take_while(u8::is_ascii_digit).take(18).count();
            (1..=digits).any(|end| in_ranges(ranges, &name[..end]) && matches(rest, &name[end..]))
        }
    }
}

fn in_ranges(ranges: &[Range], digits: &str) -> bool {
    let Ok(number) = digits.parse::<u64>() else { return false };
    let zeros = digits.len() > 1 && digits.starts_with('0');
    ranges.iter().any(|range| {
        // A number is written with the width of its range, or as it is where
        // that is longer.
        let is_written = digits.len() == range.width || digits.len() > range.width && !zeros;
        is_written && (range.first..=range.last).contains(&number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_keeps_order_and_zeros() {
        let names = expand("tux[2,0-1,07-09],a,b[1-2]c[3-4]").unwrap();
        let expected = "tux2 tux0 tux1 tux07 tux08 tux09 a b1c3 b1c4 b2c3 b2c4";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn expansion_is_bounded() {
        for list in ["x[0-4294967295]", "x[0-99][0-99]", "x[0-4000],y[0-4000]", "x[0-999999999999999999]"] {
            assert!(expand(list).is_err(), "{list}");
        }
        assert_eq!(contains("x[0-4294967295]", "x77"), Ok(true));
    }

    /// Make sure that the length of names is bounded like their number.
    #[test]
    fn names_are_short() {
        let long = "y".repeat(1 << 19);
        assert!(expand(&format!("x[0-9]{long}")).is_err() && expand(&long).is_ok());
        assert!(expand(&format!("{long},{long},{long}")).is_err());
        assert!(expand(&"[1]".repeat(1 << 16)).unwrap_err().len() < 200);
    }

    #[test]
    fn names_are_matched() {
        let list = "tux[0-3,07-09],gpu[1-2]n[10-20],login";
        for (name, expected) in
            [("tux2", true), ("tux7", false), ("tux07", true), ("tux", false), ("tux02", false)]
        {
            assert_eq!(contains(list, name), Ok(expected), "{name}");
        }
        for (name, expected) in [("gpu2n15", true), ("gpu3n15", false), ("login", true), ("login1", false)] {
            assert_eq!(contains(list, name), Ok(expected), "{name}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for list in
            ["", "a,", "a[", "a]", "a[1", "a[]", "a[2-1]", "a[x]", "a[[1]]", "a[1-]", "a[-1]", "a[+1]"]
        {
            assert!(expand(list).is_err(), "{list}");
        }
    }
}
