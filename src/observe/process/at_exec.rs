//! The environment at the last execve: `/proc/PID/environ`. The area belongs to
//! the process, which may write a title over it (setproctitle) or name another
//! (`PR_SET_MM`).

use nix::errno::Errno;

use super::refusals::{Kind, Refusals};
use super::sieve;
use crate::observation::{Answer, Environment};
use crate::sys::dir::Dir;

/// Bytes that are read; the kernel allows a quarter of the stack limit.
const LIMIT: usize = 8 << 20;
const OVERWRITTEN: &str = "the process has written over it (a title)";

/// Reads it through the process's directory. `buffer` is used again.
pub(in super::super) fn read(dir: &Dir, buffer: &mut Vec<u8>, refusals: &Refusals) -> Answer<Environment> {
    match dir.read_piece(c"environ", buffer, LIMIT) {
        Ok(()) => parse(buffer, false),
        Err(Errno::EFBIG) => parse(buffer, true),
        Err(errno) => Answer::Missing(refusals.why(Kind::AtExec, errno)),
    }
}

/// A title begins where the environment began, and NULs fill what it leaves:
/// an area whose first entry is no assignment is no longer an environment.
/// Variables behind the title are whole, others may be lost.
pub(in super::super) fn parse(text: &[u8], long: bool) -> Answer<Environment> {
    let mut environment = Environment::default();
    let text = if long { &text[..text.iter().rposition(|byte| *byte == 0).unwrap_or(0)] } else { text };
    text.split(|byte| *byte == 0).for_each(|entry| sieve::add(&mut environment, entry));
    let first = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let overwritten = !text.is_empty() && !first.contains(&b'=');
    match (overwritten, long) {
        (true, _) if environment.variables.is_empty() => return Answer::Missing(OVERWRITTEN.to_owned()),
        (true, _) => environment.cut = Some(OVERWRITTEN.to_owned()),
        (false, true) => environment.cut = Some(format!("it is larger than {} MiB", LIMIT >> 20)),
        (false, false) => {}
    }
    Answer::Known(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &[u8]) -> Vec<String> {
        let environment = parse(text, false);
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
            assert_eq!(parse(text, false).missing(), Some(OVERWRITTEN));
        }
        let partly = parse(b"sshd: x\0ES=0\0CUDA_VISIBLE_DEVICES=1\0", false);
        assert_eq!(partly.known().unwrap().cut.as_deref(), Some(OVERWRITTEN));
        let long = parse(b"A=1\0CUDA_VISIBLE_DEVICES=12", true);
        assert!(long.known().unwrap().variables.is_empty() && long.known().unwrap().cut.is_some());
    }
}
