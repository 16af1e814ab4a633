//! Collects problems, each once, and watches the deadline of an observation.

use std::collections::HashSet;
use std::time::Instant;

use nix::errno::Errno;

use super::rights::{missing, unless_held};
use crate::model::ProblemCode;
use crate::observation::Problem;
use crate::sys::absence::OrAbsent as _;
use crate::sys::bpf::BpfError;
use crate::sys::caps::{Capabilities, Capability};

/// Collects problems.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) problems: Vec<Problem>,
    reported: HashSet<&'static str>,
    deadline: Option<Instant>,
}

impl Log {
    pub(super) fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }

    pub(super) fn add(
        &mut self,
        code: ProblemCode,
        what: impl Into<String>,
        why: impl Into<String>,
        needs: impl Into<String>,
    ) {
        let (what, why, needs) = (what.into(), why.into(), needs.into());
        self.problems.push(Problem { code, what, why, needs });
    }

    /// Adds a missing right, once for each `what`.
    pub(super) fn no_right(&mut self, what: &'static str, why: impl Into<String>, needs: impl Into<String>) {
        self.once(ProblemCode::NoRight, what, why, needs);
    }

    /// Adds a problem, once for each `what`.
    pub(super) fn once(
        &mut self,
        code: ProblemCode,
        what: &'static str,
        why: impl Into<String>,
        needs: impl Into<String>,
    ) {
        if self.reported.insert(what) {
            self.add(code, what, why, needs);
        }
    }

    /// The result of a call that was given a name, or `None`: where there is no such name,
    /// and where the call failed, which is a problem.
    pub(super) fn there<T>(&mut self, what: impl Into<String>, result: Result<T, Errno>) -> Option<T> {
        self.found(what, result.or_absent())
    }

    /// What was found, or `None`: where nothing is, and where looking failed, which is a
    /// problem.
    pub(super) fn found<T>(&mut self, what: impl Into<String>, found: Result<Option<T>, Errno>) -> Option<T> {
        found.unwrap_or_else(|errno| {
            self.failed(what, errno);
            None
        })
    }

    /// Adds a call that failed.
    pub(super) fn failed(&mut self, what: impl Into<String>, errno: Errno) {
        let problem = failure(what, errno);
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// When to stop.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether the deadline has passed. The first call after it reports what was cut
    /// short.
    pub(super) fn out_of_time(&mut self, doing: &str) -> bool {
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late && self.reported.insert("timeout") {
            self.add(
                ProblemCode::Timeout,
                doing,
                "the time limit was reached, the rest was not read",
                "give it more time with --timeout",
            );
        }
        late
    }
}

/// The problem that a failed call is.
pub(super) fn failure(what: impl Into<String>, errno: Errno) -> Problem {
    let (code, needs) = match errno {
        Errno::EACCES | Errno::EPERM => (ProblemCode::NoRight, missing(&[Capability::DacReadSearch])),
        Errno::EMFILE => (ProblemCode::Unreadable, "a larger limit, ulimit -n".to_owned()),
        Errno::EFBIG => (ProblemCode::TooLarge, String::new()),
        _ => (ProblemCode::Unreadable, String::new()),
    };
    Problem { code, what: what.into(), why: errno.desc().to_lowercase(), needs }
}

/// A failure of the standard library as an error number: one without is that of text
/// that cannot be what was read.
pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Reports why the kernel's links could not be listed, and says it in a clause.
pub(super) fn links_failed(error: BpfError, log: &mut Log) -> String {
    let sufficient = [Capability::SysAdmin];
    if error.is_refused() {
        let needs = unless_held(&sufficient, "CAP_SYS_ADMIN");
        log.no_right("BPF links", refusal(error, &sufficient), needs);
    } else {
        log.once(ProblemCode::Unreadable, "BPF links", error.to_string(), "");
    }
    format!("the kernel's links could not be listed: {error}")
}

/// A refusal in words: the error, and whether gpumap has the needed capability. If
/// it has it, a user namespace, a security module or a filter refused.
pub(super) fn refusal(error: BpfError, sufficient: &[Capability]) -> String {
    let held = Capabilities::effective().is_some_and(|set| sufficient.iter().any(|one| set.has(*one)));
    if held {
        return format!(
            "{error}, although the capability is held: it does not count in a user namespace, and a security module or seccomp filter may refuse"
        );
    }
    error.to_string()
}
