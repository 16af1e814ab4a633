//! Collects problems, each once, and watches the deadline of an observation.

use std::collections::HashSet;
use std::time::Instant;

use crate::model::ProblemCode;
use crate::observation::Problem;
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
                "a larger --timeout",
            );
        }
        late
    }
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
