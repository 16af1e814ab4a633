//! The findings about an owner, a process, a GPU.

use std::collections::HashMap;

use crate::model::{Owner, Severity};
use crate::report::{Finding, OwnerSets, Process};

/// The findings of an audit that count, to be found.
#[derive(Debug, Default)]
pub(super) struct Severities<'a> {
    by_owner: HashMap<Owner, Vec<&'a Finding>>,
    by_process: HashMap<(u32, u64), Vec<&'a Finding>>,
}

impl<'a> Severities<'a> {
    /// Those of these findings that the configuration does not accept.
    pub(super) fn of(findings: &'a [Finding]) -> Self {
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
    pub(super) fn about_owner(&self, sets: &OwnerSets) -> Vec<&'a Finding> {
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
pub(super) fn worst(findings: &[&Finding], column: Option<&str>) -> Option<Severity> {
    let is_about = |finding: &&&Finding| match column {
        None => true,
        Some(key) => finding.devices.iter().any(|device| device.gpu.as_deref() == Some(key)),
    };
    findings.iter().filter(is_about).map(|finding| finding.severity).max()
}
