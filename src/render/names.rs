//! Folds lists of names (`nvidia0-2,5 renderD128`), and numbers with the word for what is
//! counted.

use std::collections::BTreeMap;

/// The names of a set: sorted, runs folded.
pub(super) fn set(names: Vec<String>) -> String {
    let mut numbered: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut others = Vec::new();
    for name in names {
        match split(&name) {
            Some((stem, number)) => numbered.entry(stem.to_owned()).or_default().push(number),
            None => others.push(name),
        }
    }
    let ranges = numbered.into_iter().map(|(stem, mut numbers)| {
        numbers.sort_unstable();
        stem + &ranges(&numbers)
    });
    ranges.chain(others).collect::<Vec<_>>().join(" ")
}

/// The names of a list in its order, which has a meaning: `nvidia2,3,0,1`, never a
/// range, which would look like a set.
pub(super) fn list(names: &[String]) -> String {
    let same_stem = |a: &String, b: &String| match (split(a), split(b)) {
        (Some((a, _)), Some((b, _))) => a == b,
        _ => false,
    };
    let parts = names.chunk_by(same_stem).map(|chunk| {
        let numbers: Vec<String> =
            chunk.iter().filter_map(|name| split(name)).map(|(_, number)| number.to_string()).collect();
        match chunk.first().and_then(|name| split(name)) {
            Some((stem, _)) => stem.to_owned() + &numbers.join(","),
            None => chunk.join(" "),
        }
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Stem and number of a name that has both; an address, a UUID or a MIG instance has
/// none.
fn split(name: &str) -> Option<(&str, u32)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = name.get(stem.len()..)?;
    let number: u32 = digits.parse().ok()?;
    // A UUID ends in any digits, and zeros before a number are part of the name.
    let is_uuid = stem.contains('-') && stem.contains(|c: char| c.is_ascii_digit());
    let is_name =
        !stem.is_empty() && !stem.ends_with([':', '.', '-', '/']) && !is_uuid && number.to_string() == digits;
    is_name.then_some((stem, number))
}

fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let runs = runs.filter_map(|run| run.first().zip(run.last()));
    let texts =
        runs.map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    texts.collect::<Vec<_>>().join(",")
}

/// `1 process`, `2 processes`.
pub(super) fn counted(number: usize, what: &str) -> String {
    let ending = match (number, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{number} {what}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a set is sorted, a list is not, and a name without a number
    /// stays whole.
    #[test]
    fn folding() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(set(names("nvidia3 nvidia0 renderD128 nvidia2")), "nvidia0,2-3 renderD128");
        assert_eq!(list(&names("nvidia2 nvidia3 nvidia0 nvidia1")), "nvidia2,3,0,1");
        assert_eq!(list(&names("nvidia0 renderD128 nvidia1")), "nvidia0 renderD128 nvidia1");
        assert_eq!(list(&names("nvidia0/1/0 nvidia0/1/1")), "nvidia0/1/0 nvidia0/1/1");
        assert_eq!(set(names("0000:1b:00.0 195:7")), "0000:1b:00.0 195:7");
        let uuids = "GPU-1d9a4c60-7b52-4e0f-a3c8-5f21c0de0000 GPU-1d9a4c60-7b52-4e0f-a3c8-5f21c0de0001";
        assert_eq!((set(names(uuids)).as_str(), list(&names(uuids)).as_str()), (uuids, uuids));
        assert_eq!((set(Vec::new()), list(&[])), (String::new(), String::new()));
    }
}
