//! Selects what is kept of an environment: the names of [`VARIABLES`] and of
//! [`LIMIT_VARIABLES`], and no more of a value than can ever be meaningful.

use crate::model::{LIMIT_VARIABLES, VARIABLES};
use crate::observation::{Environment, Variable};

/// Bytes kept of a value.
pub(in crate::observe::processes) const VALUE_LIMIT: usize = 16 << 10;
/// Bytes of an entry that tell whether it is wanted: the longest name and `=`.
pub(in crate::observe::processes) const NAME_LIMIT: usize = 64;
/// How often one name is kept. `getenv` finds the first; a second one shows that
/// there are several.
const REPEATED: usize = 8;
/// Bytes of values that are kept of an environment, but for those of
/// [`LIMIT_VARIABLES`]: what a user puts before them must not hide them.
const BYTES: usize = 128 << 10;
/// How often one of [`LIMIT_VARIABLES`] is kept, and bytes of its value: a path.
const LIMIT_REPEATED: usize = 2;
const LIMIT_BYTES: usize = 4 << 10;

/// First bytes of wanted names. They rule out most of the millions of entries on a
/// node.
const BEGINNINGS: [bool; 256] = {
    let (mut beginnings, mut at) = ([false; 256], 0);
    while at < VARIABLES.len() {
        beginnings[VARIABLES[at].as_bytes()[0] as usize] = true;
        at += 1;
    }
    let mut at = 0;
    while at < LIMIT_VARIABLES.len() {
        beginnings[LIMIT_VARIABLES[at].as_bytes()[0] as usize] = true;
        at += 1;
    }
    beginnings
};

/// The name and value of an entry that is wanted.
pub(in crate::observe::processes) fn wanted(entry: &[u8]) -> Option<(&'static str, &[u8])> {
    let begins = entry.first().is_some_and(|first| BEGINNINGS.get(usize::from(*first)) == Some(&true));
    if !begins {
        return None;
    }
    let equals = entry.iter().take(NAME_LIMIT).position(|byte| *byte == b'=')?;
    let (name, value) = (entry.get(..equals)?, entry.get(equals + 1..)?);
    let find = |known: &'static [&'static str]| {
        let index = known.binary_search_by(|known| known.as_bytes().cmp(name)).ok()?;
        known.get(index).copied()
    };
    Some((find(&VARIABLES).or_else(|| find(&LIMIT_VARIABLES))?, value))
}

/// A variable as it is kept.
pub(in crate::observe::processes) fn variable(name: &str, value: &[u8]) -> Variable {
    let most = if is_limit(name) { LIMIT_BYTES } else { VALUE_LIMIT };
    let kept = value.get(..most).unwrap_or(value);
    Variable { name: name.to_owned(), value: kept.into(), cut: kept.len() < value.len() }
}

fn is_limit(name: &str) -> bool {
    LIMIT_VARIABLES.binary_search(&name).is_ok()
}

/// Collects the variables of one environment within bounds: a process may point to
/// one long string a million times.
#[derive(Debug, Default)]
pub(in crate::observe::processes) struct VariableFilter {
    kept: Environment,
    bytes: usize,
    /// Why variables were left out, if any were.
    full: Option<String>,
}

impl VariableFilter {
    /// Whether this name was kept as often as it may be. If so, the environment is
    /// marked as cut.
    pub(in crate::observe::processes) fn is_full(&mut self, name: &str) -> bool {
        let again = self.kept.variables.iter().filter(|one| one.name == name).count();
        let most = if is_limit(name) { LIMIT_REPEATED } else { REPEATED };
        if again >= most {
            self.full.get_or_insert_with(|| format!("{name} is in it more than {most} times"));
        }
        again >= most
    }

    /// Keeps an entry if it is wanted and there is room for it; returns whether it
    /// was kept.
    pub(in crate::observe::processes) fn add(&mut self, entry: &[u8]) -> bool {
        let Some((name, value)) = wanted(entry) else { return false };
        if self.is_full(name) {
            return false;
        }
        let variable = variable(name, value);
        let size = if is_limit(name) { 0 } else { variable.value.as_bytes().len() };
        if self.bytes + size > BYTES {
            self.full.get_or_insert_with(|| format!("its values are longer than {} KiB", BYTES >> 10));
            return false;
        }
        self.bytes += size;
        self.kept.variables.push(variable);
        true
    }

    /// The kept variables and, if some were left out, which limit was reached.
    pub(in crate::observe::processes) fn end(mut self) -> Environment {
        self.kept.cut = self.full;
        self.kept
    }
}

/// An environment as a process has it, for the fuzz targets.
#[cfg(fuzzing)]
pub(in crate::observe) fn fuzzing(bytes: &[u8]) -> crate::observation::Environment {
    let mut kept = VariableFilter::default();
    bytes.split(|byte| *byte == 0).for_each(|entry| _ = kept.add(entry));
    kept.end()
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
        assert!(VARIABLES.iter().chain(&LIMIT_VARIABLES).all(|name| name.len() < NAME_LIMIT));
        assert_eq!(wanted(b"CUDA_DEVICE_SM_LIMIT_3=40"), Some(("CUDA_DEVICE_SM_LIMIT_3", &b"40"[..])));
        assert!(!variable("A", &[b'x'; VALUE_LIMIT]).cut && variable("A", &[b'x'; VALUE_LIMIT + 1]).cut);
    }

    /// Make sure that no environment is kept beyond its limits, that this is
    /// reported, and that other names after the limit are still kept.
    #[test]
    fn limits() {
        let mut kept = VariableFilter::default();
        let repeated = (0..60_000).filter(|_| kept.add(b"CUDA_VISIBLE_DEVICES=0")).count();
        assert!(kept.add(b"SLURM_JOB_ID=7"));
        let kept = kept.end();
        assert_eq!((repeated, kept.variables.len()), (REPEATED, REPEATED + 1));
        assert_eq!(kept.cut.as_deref(), Some("CUDA_VISIBLE_DEVICES is in it more than 8 times"));
        let mut kept = VariableFilter::default();
        for name in VARIABLES {
            kept.add(&[name.as_bytes(), b"=", &[b'x'; VALUE_LIMIT]].concat());
        }
        let kept = kept.end();
        assert_eq!(kept.variables.len(), BYTES / VALUE_LIMIT);
        assert_eq!(kept.cut.as_deref(), Some("its values are longer than 128 KiB"));
    }

    /// Make sure that limits are kept whatever stands before them, and that they take
    /// little room.
    #[test]
    fn limits_behind_others() {
        let mut kept = VariableFilter::default();
        for name in VARIABLES.iter().chain(&LIMIT_VARIABLES).chain(&LIMIT_VARIABLES).chain(&LIMIT_VARIABLES) {
            kept.add(&[name.as_bytes(), b"=", &[b'x'; VALUE_LIMIT]].concat());
        }
        let kept = kept.end();
        let limits: Vec<_> = kept.variables.iter().filter(|one| is_limit(&one.name)).collect();
        assert_eq!(limits.len(), 2 * LIMIT_VARIABLES.len());
        assert!(limits.iter().all(|one| one.cut && one.value.as_bytes().len() == LIMIT_BYTES));
    }
}
