//! Keeps environments at exec between scans: they stay what they are until the
//! process executes another program. What it writes over the area later (a title)
//! does not belong to them, though `/proc` shows it from then on.

use std::collections::HashMap;

use super::record::Task;
use crate::observation::{Answer, Environment};

/// Which program of which process: start time, programs executed, and where
/// code and stack begin.
type Program = (u64, u64, (u64, u64));

/// Environments by pid, those of the last scan.
#[derive(Debug, Default)]
pub(super) struct EnvironmentCache {
    last: HashMap<u32, (Program, Answer<Environment>)>,
    next: HashMap<u32, (Program, Answer<Environment>)>,
}

impl EnvironmentCache {
    /// The environment of a process, if it runs the same program still.
    pub(super) fn take(&mut self, task: &Task) -> Option<Answer<Environment>> {
        let (program, at_exec) = self.last.remove(&task.pid)?;
        (program == key(task)).then_some(at_exec)
    }

    /// Keeps it for the next scan.
    pub(super) fn keep(&mut self, task: &Task, at_exec: &Answer<Environment>) {
        self.next.insert(task.pid, (key(task), at_exec.clone()));
    }

    /// Ends a scan: environments that were not used are forgotten.
    pub(super) fn turn(&mut self) {
        self.last = std::mem::take(&mut self.next);
    }
}

fn key(task: &Task) -> Program {
    (task.start_time, task.executed, task.program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> Task {
        Task {
            pid: 31,
            start_time: 77,
            program: (10, 11),
            executed: 3,
            uid: 0,
            comm: "x".into(),
            cgroup: 9,
            is_process: true,
        }
    }

    /// Make sure that an environment is only used for the same program of the same
    /// process, and only from the last scan.
    #[test]
    fn programs() {
        let at_exec = Answer::Known(Environment::default());
        let others = [
            Task { pid: 32, ..task() },
            Task { start_time: 78, ..task() },
            Task { executed: 4, ..task() },
            Task { program: (10, 12), ..task() },
        ];
        for other in others {
            let mut known = EnvironmentCache::default();
            known.keep(&task(), &at_exec);
            known.turn();
            assert_eq!(known.take(&other), None);
        }
        let mut known = EnvironmentCache::default();
        known.keep(&task(), &at_exec);
        known.turn();
        assert_eq!(known.take(&task()), Some(at_exec));
        known.turn();
        assert_eq!(known.take(&task()), None);
    }
}
