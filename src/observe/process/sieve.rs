//! What is kept of an environment: the names of [`VARIABLES`], and no more of a
//! value than is ever meaningful.

use crate::observation::{Environment, VARIABLES, Variable};

/// Bytes kept of a value.
pub(super) const VALUE_LIMIT: usize = 16 << 10;
/// Bytes of an entry that tell whether it is wanted: the longest name and `=`.
pub(super) const NAME_LIMIT: usize = 64;

/// How wanted names begin: most of the millions of entries on a node are
/// settled by that.
const BEGINNINGS: [bool; 256] = {
    let (mut beginnings, mut at) = ([false; 256], 0);
    while at < VARIABLES.len() {
        beginnings[VARIABLES[at].as_bytes()[0] as usize] = true;
        at += 1;
    }
    beginnings
};

/// The name and value of an entry that is wanted.
pub(super) fn wanted(entry: &[u8]) -> Option<(&'static str, &[u8])> {
    let begins = entry.first().is_some_and(|first| BEGINNINGS.get(usize::from(*first)) == Some(&true));
    if !begins {
        return None;
    }
    let equals = entry.iter().take(NAME_LIMIT).position(|byte| *byte == b'=')?;
    let (name, value) = (entry.get(..equals)?, entry.get(equals + 1..)?);
    let index = VARIABLES.binary_search_by(|known| known.as_bytes().cmp(name)).ok()?;
    Some((VARIABLES.get(index)?, value))
}

/// A variable as it is kept.
pub(super) fn variable(name: &str, value: &[u8]) -> Variable {
    let kept = value.get(..VALUE_LIMIT).unwrap_or(value);
    Variable { name: name.to_owned(), value: kept.into(), cut: kept.len() < value.len() }
}

/// Adds an entry if it is wanted.
pub(super) fn add(environment: &mut Environment, entry: &[u8]) {
    if let Some((name, value)) = wanted(entry) {
        environment.variables.push(variable(name, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that only whole known names are kept, and that no value is
    /// kept beyond the limit.
    #[test]
    fn entries() {
        assert_eq!(wanted(b"CUDA_VISIBLE_DEVICES=0=1"), Some(("CUDA_VISIBLE_DEVICES", &b"0=1"[..])));
        for other in [&b"CUDA_VISIBLE_DEVICES"[..], b"CUDA_VISIBLE_DEVICE=0", b"=", b"", b"SECRET=x"] {
            assert_eq!(wanted(other), None);
        }
        assert!(VARIABLES.iter().all(|name| name.len() < NAME_LIMIT));
        assert!(!variable("A", &[b'x'; VALUE_LIMIT]).cut && variable("A", &[b'x'; VALUE_LIMIT + 1]).cut);
    }
}
