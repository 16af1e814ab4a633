//! The processes of owners.

use std::collections::HashMap;

use crate::analyse::levels;
use crate::model::Owner;
use crate::report::{Cgroup, MatrixProcess, OwnerSets, Payload, Process};

/// A process and its cgroup.
type Member<'a> = (&'a Cgroup, &'a Process);

/// The processes by owner: without those of the scheduler itself, which say nothing of
/// what its jobs do.
#[derive(Debug, Default)]
pub(super) struct Members<'a> {
    /// By the innermost owner.
    direct: HashMap<Owner, Vec<Member<'a>>>,
    /// By each owner around them.
    all: HashMap<Owner, Vec<&'a Process>>,
}

impl<'a> Members<'a> {
    /// The processes of an answer of `node`.
    pub(super) fn of(payload: &'a Payload) -> Self {
        let mut members = Self::default();
        for cgroup in payload.cgroups.iter().flatten() {
            if cgroup.processes.is_empty() || levels::is_service(cgroup.owner.as_ref()) {
                continue;
            }
            let levels = levels::of(cgroup.owner.as_ref(), &cgroup.path);
            for owner in &levels {
                members.all.entry(owner.clone()).or_default().extend(&cgroup.processes);
            }
            if let Some(owner) = levels.into_iter().next_back() {
                let its = cgroup.processes.iter().map(|process| (cgroup, process));
                members.direct.entry(owner).or_default().extend(its);
            }
        }
        members
    }

    /// All processes of an owner.
    pub(super) fn within(&self, sets: &OwnerSets) -> Vec<&'a Process> {
        self.all.get(&sets.owner).cloned().unwrap_or_default()
    }

    /// Those of them that are in no owner inside it.
    pub(super) fn directly(&self, sets: &OwnerSets) -> &[Member<'a>] {
        self.direct.get(&sets.owner).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The name of a process's user, else the uid.
pub(super) fn user(process: &Process) -> String {
    process.user.clone().unwrap_or_else(|| process.uid.to_string())
}

/// What the matrix says of a process.
pub(super) fn process(process: &Process) -> MatrixProcess {
    MatrixProcess {
        pid: process.pid,
        start_time: process.start_time,
        uid: process.uid,
        comm: process.comm.clone(),
        comm_hex: process.comm_hex.clone(),
        state: process.state.clone(),
        age_seconds: process.age_seconds,
    }
}
