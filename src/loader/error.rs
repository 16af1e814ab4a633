//! Why an object cannot be used.

use crate::sys::locked_memory;

/// Why an object cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The kernel does not describe its types.
    #[error("the kernel has no BTF ({0})")]
    NoTypes(String),
    /// The kernel refuses a program, a map or a link.
    #[error("{0}")]
    Refused(String),
    /// The kernel says that gpumap may not (`EPERM`): a right is missing, a limit is reached,
    /// it is locked down, or it is built without programs of this kind.
    #[error("{0}")]
    Forbidden(String),
    /// A cgroup whose processes are to be followed cannot be looked at.
    #[error("the processes to follow are not known: {0}")]
    Scope(String),
    /// The object lacks a program or a map: a fault of the build.
    #[error("the program object has no {0}")]
    Missing(&'static str),
    /// This build does not have the wanted engine.
    #[error("this gpumap was built without this loader")]
    NoEngine,
}

impl LoadError {
    pub(super) fn refused(error: &(dyn std::error::Error + 'static)) -> Self {
        let why = one_line(error);
        let has = |errnos: &[i32]| errno(error).is_some_and(|errno| errnos.contains(&errno));
        if let Some(limit) = locked_memory::raised().filter(|_| has(&[libc::EPERM])) {
            return Self::Forbidden(format!("{}: {why}", too_little(limit)));
        }
        if has(&[libc::EPERM, libc::EACCES, libc::EINVAL]) && locked_memory::is_confidential() {
            return Self::Forbidden(format!("{CONFIDENTIAL} ({why})"));
        }
        if has(&[libc::EPERM]) { Self::Forbidden(why) } else { Self::Refused(why) }
    }
}

/// What a kernel that is locked down refuses programs, with an error that does not say so.
const CONFIDENTIAL: &str =
    "it is locked down for confidentiality, and so BPF programs may not read its memory";

/// What a limit of locked memory means for `EPERM`, which a kernel that
/// counts BPF memory against it returns where it is reached.
fn too_little(limit: u64) -> String {
    format!(
        "before Linux 5.11 programs count as locked memory, of which gpumap may have {} KiB \
         (as root with CAP_SYS_RESOURCE, or with LimitMEMLOCK=infinity in its unit, it has what it needs)",
        limit >> 10
    )
}

/// The kernel's error, which is the error itself or one of its causes.
fn errno(error: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    causes.find_map(|error| error.downcast_ref::<std::io::Error>()?.raw_os_error())
}

/// An error with its causes on one line, without the verifier's log. Some errors
/// repeat their cause in their own text; each cause is said once.
pub(super) fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let named = error.to_string();
        if !text.contains(&named) {
            text = format!("{text}: {named}");
        }
        cause = error.source();
    }
    // aya begins with the kind of object, which the rest names again.
    let kinds = ["map error: ", "program error: "];
    let text = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(&text);
    line_that_says_why(text).chars().take(200).collect()
}

/// The verifier's own statistics, which follow the reason in its log.
const STATISTICS: [&str; 3] = ["processed ", "verification time", "stack depth"];

/// The first line; behind a verifier's log that is part of it, the log's last line that
/// is no statistics: there stands why the kernel refused the program.
fn line_that_says_why(text: &str) -> String {
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let Some((head, begin)) = first.split_once("Verifier output: ") else { return first.to_owned() };
    let is_reason = |line: &&str| {
        !line.trim().is_empty() && !STATISTICS.iter().any(|statistics| line.starts_with(statistics))
    };
    let last = lines.rfind(is_reason).unwrap_or(begin);
    format!("{head}Verifier output: {}", last.trim())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to create map `ring`")]
    struct Create(#[source] io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("map error: {0}")]
    struct Load(#[source] Create);

    /// Make sure that an error that repeats its cause becomes one clear sentence.
    #[test]
    fn each_cause_once() {
        let error = Load(Create(io::Error::from_raw_os_error(1)));
        let expected = "failed to create map `ring`: Operation not permitted (os error 1)";
        assert_eq!(one_line(&error), expected);
    }

    #[derive(Debug, thiserror::Error)]
    #[error("it returned {0}. Verifier output: {1}")]
    struct Verifier(#[source] io::Error, &'static str);

    /// Make sure that of a verifier's log the line is told that says why.
    #[test]
    fn reason_of_the_verifier() {
        let log =
            "0: (85) call pc+1\nunknown func bpf_probe_read_kernel#113\nprocessed 1 insns (limit 1000000)\n";
        let error = Verifier(io::Error::from_raw_os_error(22), log);
        let expected = "it returned Invalid argument (os error 22). Verifier output: \
                        unknown func bpf_probe_read_kernel#113";
        assert_eq!(one_line(&error), expected);
    }
}
