//! Reads the environment at the last execve from the memory area that
//! `/proc/PID/stat` names. `/proc/PID/environ` shows the same area; reading it faults
//! pages in, which can block for ever, so it is read only where memory is refused, and
//! no page that is not there. The area belongs to the process, which
//! may write a title over it (setproctitle) or name another area (`PR_SET_MM`).
//!
//! What is kept of an environment, here and by `live`: the names of [`VARIABLES`],
//! [`COMPONENT_VARIABLES`] and [`LIMIT_VARIABLES`], and no more of a value than can ever be
//! meaningful.

use crate::model::{COMPONENT_VARIABLES, LIMIT_VARIABLES, VARIABLES};
use crate::observation::{Answer, Environment, Variable};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::processes::helpers::Depth;
use crate::observe::processes::memory::{self, Fault, Memory, NoMemory};
use crate::observe::processes::refusals::{ReadKind, Refusals};
use crate::observe::procfile::Stat;

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
    let name = find(&VARIABLES).or_else(|| find(&COMPONENT_VARIABLES)).or_else(|| find(&LIMIT_VARIABLES))?;
    Some((name, value))
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

/// Bytes that are read; the kernel allows a quarter of the stack limit.
const LIMIT: u64 = 8 << 20;

const NO_ENVIRONMENT: &str = "it executes a program or is ending: it has no environment";

const OVERWRITTEN: &str = "the process has written over it (a title)";

/// The environment at the last execve of a process or thread, with what `stat` says of the
/// same program. `buffer` is reused.
///
/// # Errors
///
/// `stat` cannot be read.
pub(in crate::observe) fn of(
    process: &PinnedProcess,
    depth: Depth,
    buffer: &mut Vec<u8>,
    refusals: &Refusals,
) -> Result<(Stat, Answer<Environment>), NotRead> {
    if let Some(why) = depth.refusal() {
        return Ok((process.stat()?, Answer::Missing(why.to_owned())));
    }
    let found = memory::of_one_program(process, |memory, stat| {
        let found = read(memory, stat.environment, buffer, refusals);
        // One without an end does not exist yet, though it reads as empty.
        let is_there = stat.environment.1 != 0 || found.known() != Some(&Environment::default());
        is_there.then(|| (stat.clone(), found))
    })?;
    match found {
        Some(found) => Ok(found),
        None => Ok((process.stat()?, Answer::Missing(NO_ENVIRONMENT.to_owned()))),
    }
}

/// Reads the environment from `area`, which must have been read after the memory was
/// opened. `buffer` is reused.
pub(in crate::observe) fn read(
    memory: &mut Result<Memory, NoMemory>,
    area: (u64, u64),
    buffer: &mut Vec<u8>,
    refusals: &Refusals,
) -> Answer<Environment> {
    let (start, end) = area;
    let memory = match memory {
        Ok(memory) => memory,
        Err(refused) => {
            let errno = refused.errno;
            let Some(environment) = refused.environment(start) else {
                return Answer::Missing(refusals.why(ReadKind::AtExec, errno));
            };
            environment
        }
    };
    let last = end.min(start.saturating_add(LIMIT));
    let read = memory.area((start, last), buffer);
    if let Some(errno) = memory.failure() {
        refusals.failed(ReadKind::AtExec, errno);
    }
    match read {
        Err(Fault::Gone) => Answer::Missing(Fault::Gone.why().to_owned()),
        Err(fault) if buffer.is_empty() => Answer::Missing(fault.why().to_owned()),
        Err(fault) => parse(buffer, Some(fault.why())),
        Ok(()) if last < end => parse(buffer, Some("it is larger than 8 MiB")),
        Ok(()) => parse(buffer, None),
    }
}

/// Parses the area. A title begins where the environment began, and NULs fill the
/// rest, so an area whose first entry is no assignment is no environment any more.
/// Variables after the title are whole, others may be lost. `cut` is why the text
/// ends before the area does.
fn parse(text: &[u8], cut: Option<&str>) -> Answer<Environment> {
    let whole = text.iter().rposition(|byte| *byte == 0).unwrap_or(0);
    let text = if cut.is_some() { text.get(..whole).unwrap_or_default() } else { text };
    let mut kept = VariableFilter::default();
    for entry in text.split(|byte| *byte == 0) {
        kept.add(entry);
    }
    let mut environment = kept.end();
    let first = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let overwritten = !text.is_empty() && !first.contains(&b'=');
    match (overwritten, cut) {
        (true, _) if environment.variables.is_empty() => return Answer::Missing(OVERWRITTEN.to_owned()),
        (true, _) => environment.cut = Some(OVERWRITTEN.to_owned()),
        (false, Some(why)) => environment.cut = Some(why.to_owned()),
        (false, None) => {}
    }
    Answer::Known(environment)
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

    fn values(text: &[u8]) -> Vec<String> {
        let environment = parse(text, None);
        let variables = &environment.known().unwrap().variables;
        variables.iter().map(|variable| variable.value.lossy().into_owned()).collect()
    }

    /// Make sure that order and repetition are kept, and that nothing else is.
    #[test]
    fn entries_of_at_exec() {
        assert_eq!(
            values(b"A=1\0CUDA_VISIBLE_DEVICES=2\0CUDA_VISIBLE_DEVICES\0\0CUDA_VISIBLE_DEVICES=1\0"),
            ["2", "1"]
        );
        assert_eq!(values(b"CUDA_VISIBLE_DEVICES="), [""]);
        assert!(values(b"").is_empty());
    }

    /// Make sure that a title is not taken for an empty environment.
    #[test]
    fn titles() {
        for text in [&b"postgres: writer\0\0\0\0"[..], b"\0\0\0\0", b"x\0A=1\0"] {
            assert_eq!(parse(text, None).missing(), Some(OVERWRITTEN));
        }
        let partly = parse(b"sshd: x\0ES=0\0CUDA_VISIBLE_DEVICES=1\0", None);
        assert_eq!(partly.known().unwrap().cut.as_deref(), Some(OVERWRITTEN));
        let long = parse(b"A=1\0CUDA_VISIBLE_DEVICES=12", Some("long"));
        assert!(long.known().unwrap().variables.is_empty() && long.known().unwrap().cut.is_some());
    }
}
