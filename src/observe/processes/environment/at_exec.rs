//! Reads the environment at the last execve from the memory area that
//! `/proc/PID/stat` names. `/proc/PID/environ` shows the same area, but reading it
//! faults pages in, which can block for ever. The area belongs to the process, which
//! may write a title over it (setproctitle) or name another area (`PR_SET_MM`).

use nix::errno::Errno;

use super::filter::VariableFilter;
use crate::observation::{Answer, Environment};
use crate::observe::pinned::{NotRead, PinnedProcess};
use crate::observe::processes::helpers::Depth;
use crate::observe::processes::memory::{self, Fault, Memory};
use crate::observe::processes::refusals::{ReadKind, Refusals};
use crate::observe::procfile::Stat;

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
    memory: &mut Result<Memory, Errno>,
    area: (u64, u64),
    buffer: &mut Vec<u8>,
    refusals: &Refusals,
) -> Answer<Environment> {
    let memory = match memory {
        Ok(memory) => memory,
        Err(errno) => return Answer::Missing(refusals.why(ReadKind::AtExec, *errno)),
    };
    let (start, end) = area;
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

    fn values(text: &[u8]) -> Vec<String> {
        let environment = parse(text, None);
        let variables = &environment.known().unwrap().variables;
        variables.iter().map(|variable| variable.value.lossy().into_owned()).collect()
    }

    /// Make sure that order and repetition are kept, and that nothing else is.
    #[test]
    fn entries() {
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
