//! Bounds the memory for environments: each has values that its user chose, and one user
//! may have very many processes.

use std::collections::HashMap;

use super::Tracker;
use crate::observation::Environment;
use crate::quota::Quota;

/// Bytes of environments that are kept of the processes of one user, and of all.
/// A process that asks for a few devices has some three hundred.
const OF_A_USER: usize = 16 << 20;
const OF_ALL: usize = 64 << 20;

/// Bytes by process.
#[derive(Debug)]
pub(super) struct Weights {
    processes: HashMap<u32, (Option<u32>, usize)>,
    users: Quota<Option<u32>>,
}

impl Default for Weights {
    fn default() -> Self {
        Self { processes: HashMap::new(), users: Quota::new(OF_A_USER, OF_ALL) }
    }
}

impl Weights {
    /// Takes the weight of a process. Whether it is too much: then it counts as
    /// none.
    fn set(&mut self, pid: u32, user: Option<u32>, weight: usize) -> bool {
        self.remove(pid);
        // Which share is full makes no difference.
        let is_too_much = self.users.take(user, weight).is_err();
        if weight > 0 && !is_too_much {
            self.processes.insert(pid, (user, weight));
        }
        is_too_much
    }

    /// Nothing is kept of a process.
    pub(super) fn remove(&mut self, pid: u32) {
        if let Some((user, weight)) = self.processes.remove(&pid) {
            self.users.give_back(user, weight);
        }
    }
}

impl Tracker {
    /// Looks at what is kept of a process after it may have changed. Too much is
    /// not kept: its environment is not known then, until it is read again.
    pub(super) fn weigh(&mut self, pid: u32) {
        let Some(state) = self.processes.get_mut(&pid) else { return self.weights.remove(pid) };
        let kept = state.environment.iter().chain(state.memory.as_ref().map(|memory| &memory.environment));
        let weight = kept.map(weight).sum();
        if self.weights.set(pid, state.subject.account, weight) {
            state.replace(None);
        }
    }
}

/// Bytes of an environment's variables, and again of what is asked for with them.
fn weight(environment: &Environment) -> usize {
    let of = |variable: &crate::observation::Variable| variable.name.len() + variable.value.as_bytes().len();
    2 * environment.variables.iter().map(of).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that one user's weight leaves another's alone, and that it goes
    /// with the process.
    #[test]
    fn apart() {
        let mut weights = Weights::default();
        let part = OF_A_USER / 4;
        assert!((0..4).all(|pid| !weights.set(pid, Some(7), part)));
        assert!(weights.set(4, Some(7), 1) && !weights.set(5, Some(8), part) && !weights.set(5, None, part));
        // Less of what was there is always taken.
        assert!(!weights.set(3, Some(7), part - 1) && !weights.set(4, Some(7), 1));
        assert!(weights.set(4, Some(7), 2));
        (0..6).for_each(|pid| weights.remove(pid));
        assert_eq!((weights.users.used(), weights.processes.len()), ((0, 0), 0));
    }
}
