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
    /// A cgroup whose processes are to be followed cannot be looked at.
    #[error("the processes to follow are not known: {0}")]
    Scope(String),
    /// The object lacks a program or a map: a fault of the build.
    #[error("the program object has no {0}")]
    Missing(&'static str),
    /// This build does not have the wanted engine.
    #[error("this gpumap was built without the engine that GPUMAP_TEST_LOADER names")]
    NoEngine,
}

impl LoadError {
    pub(super) fn refused(error: &(dyn std::error::Error + 'static)) -> Self {
        let why = one_line(error);
        Self::Refused(match locked_memory::raised().filter(|_| is_not_permitted(error)) {
            Some(limit) => format!("{}: {why}", too_little(limit)),
            None => why,
        })
    }
}

/// What a limit of locked memory means for `EPERM`, which a kernel that
/// counts BPF memory against it returns where it is reached.
fn too_little(limit: u64) -> String {
    format!(
        "before Linux 5.11 programs count as locked memory, of which gpumap may have {} KiB \
         (as root with CAP_SYS_RESOURCE, or with LimitMEMLOCK=infinity in its unit, it has what it needs)",
        limit >> 10
    )
}

/// Whether the error is `EPERM`, or one of its causes.
fn is_not_permitted(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let errors = causes.filter_map(|error| error.downcast_ref::<std::io::Error>());
    errors.filter_map(std::io::Error::raw_os_error).any(|errno| errno == libc::EPERM)
}

/// An error with its causes on one line, without the verifier's log. Some errors
/// repeat their cause in their own text; each cause is said once.
pub(super) fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let named = error.to_string();
        if !text.ends_with(&named) {
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
}
