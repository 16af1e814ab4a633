//! What a row of the matrix is about: the processes of an owner, the findings about it, and
//! the limits of its processes under HAMi-core's libvgpu.so or SoftMig.

use std::collections::{BTreeSet, HashMap};

use crate::analyse::levels;
use crate::model::{Owner, Severity};
use crate::report::{
    Cgroup, Finding, MatrixLimit, MatrixProcess, NodeAnswer, OwnerSets, Process, VgpuDevice,
};

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
    pub(super) fn of(payload: &'a NodeAnswer) -> Self {
        let mut members = Self::default();
        for cgroup in payload.cgroups.iter() {
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

/// The findings of an audit that count, to be found.
#[derive(Debug, Default)]
pub(in crate::analyse) struct Severities<'a> {
    by_owner: HashMap<Owner, Vec<&'a Finding>>,
    by_process: HashMap<(u32, u64), Vec<&'a Finding>>,
}

impl<'a> Severities<'a> {
    /// Those of these findings that the configuration does not accept.
    pub(in crate::analyse) fn of(findings: &'a [Finding]) -> Self {
        let mut severities = Self::default();
        for finding in findings.iter().filter(|finding| finding.ignored.is_none()) {
            for owner in finding.owner.iter().chain(&finding.others).flat_map(around) {
                severities.by_owner.entry(owner).or_default().push(finding);
            }
            for process in &finding.processes {
                severities.by_process.entry((process.pid, process.start_time)).or_default().push(finding);
            }
        }
        severities
    }

    /// Those about an owner, or about something inside it.
    pub(in crate::analyse) fn about_owner(&self, sets: &OwnerSets) -> Vec<&'a Finding> {
        self.by_owner.get(&sets.owner).cloned().unwrap_or_default()
    }

    /// Those about a process.
    pub(super) fn about_process(&self, process: &Process) -> Vec<&'a Finding> {
        self.by_process.get(&(process.pid, process.start_time)).cloned().unwrap_or_default()
    }
}

/// An owner with those around it.
fn around(owner: &Owner) -> Vec<Owner> {
    crate::analyse::levels::of(Some(owner), "")
}

/// The worst severity of some findings: of those about a GPU or an instance, or of all.
pub(in crate::analyse) fn worst(findings: &[&Finding], column: Option<&str>) -> Option<Severity> {
    let is_about = |finding: &&&Finding| match column {
        None => true,
        Some(key) => finding.devices.iter().any(|device| device.gpu.as_deref() == Some(key)),
    };
    findings.iter().filter(is_about).map(|finding| finding.severity).max()
}

/// The limits of these processes, each once.
pub(super) fn of(processes: &[&Process]) -> Vec<MatrixLimit> {
    let limited = processes.iter().filter_map(|process| process.vgpu.as_ref());
    let limits: BTreeSet<MatrixLimit> = limited.flat_map(|vgpu| &vgpu.devices).filter_map(limit).collect();
    limits.into_iter().collect()
}

/// The limit that counts is that of the region; where there is none, the one that was
/// meant.
fn limit(device: &VgpuDevice) -> Option<MatrixLimit> {
    let memory = device.memory_limit.or(device.memory_meant).filter(|bytes| *bytes > 0);
    let sm = device.sm_limit.or(device.sm_meant).filter(|percent| (1..100).contains(percent));
    (memory.is_some() || sm.is_some()).then(|| MatrixLimit {
        gpu: device.gpu.clone(),
        memory_bytes: memory,
        sm_percent: sm,
        memory_in_force: device.memory.in_force,
        sm_in_force: device.sm.in_force,
    })
}
