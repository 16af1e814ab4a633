//! Slurm's host lists: `tux[0-3,07-09],login`, which `File=` uses too.
//!
//! Names are matched without being expanded, and expansion is bounded: a list
//! of four thousand million hosts is ten bytes long.

/// More device files than a node has.
const NAME_LIMIT: usize = 4096;
/// More groups in brackets than Slurm takes.
const GROUP_LIMIT: usize = 4;

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

/// The names of a list in its order.
///
/// # Errors
///
/// A list that is not understood or has too many names.
pub(super) fn expand(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for name in split(list)? {
        names.extend(expand_one(&parts(name)?)?);
        if names.len() > NAME_LIMIT {
            return Err(too_many());
        }
    }
    Ok(names)
}

/// Whether a list has a name.
///
/// # Errors
///
/// A list that is not understood.
pub(super) fn contains(list: &str, name: &str) -> Result<bool, String> {
    let parts: Result<Vec<_>, _> = split(list)?.into_iter().map(parts).collect();
    Ok(parts?.iter().any(|parts| matches(parts, name)))
}

fn too_many() -> String {
    format!("more than {NAME_LIMIT} names in one list")
}

/// The names of a list: split at commas outside of brackets.
fn split(list: &str) -> Result<Vec<&str>, String> {
    let mut inside = false;
    let mut names = Vec::new();
    let mut start = 0;
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' | b']' if inside == (byte == b'[') => {
                return Err(format!("brackets of `{list}` do not match"));
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
    whole.then_some(names).ok_or_else(|| format!("`{list}` is not a list of names"))
}

fn parts(name: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some((text, after)) = rest.split_once('[') {
        let (numbers, after) =
            after.split_once(']').ok_or_else(|| format!("brackets of `{name}` do not match"))?;
        parts.push(Part::Text(text.to_owned()));
        let ranges: Option<Vec<Range>> = numbers.split(',').map(range).collect();
        parts.push(Part::Numbers(ranges.ok_or_else(|| format!("`[{numbers}]` is not a list of numbers"))?));
        rest = after;
    }
    parts.push(Part::Text(rest.to_owned()));
    if parts.len() > 2 * GROUP_LIMIT + 1 {
        return Err(format!("`{name}` has more than {GROUP_LIMIT} groups in brackets"));
    }
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

fn expand_one(parts: &[Part]) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    for part in parts {
        match part {
            Part::Text(text) => names.iter_mut().for_each(|name| name.push_str(text)),
            Part::Numbers(ranges) => {
                let tails = numbers(ranges)?;
                if tails.len().saturating_mul(names.len()) > NAME_LIMIT {
                    return Err(too_many());
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

fn numbers(ranges: &[Range]) -> Result<Vec<String>, String> {
    let limit = NAME_LIMIT as u64;
    let count = ranges.iter().fold(0, |sum: u64, range| sum.saturating_add(range.last - range.first + 1));
    if count > limit {
        return Err(too_many());
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
    ranges.iter().any(|range| {
        let width = range.width;
        (range.first..=range.last).contains(&number) && format!("{number:0width$}") == digits
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
