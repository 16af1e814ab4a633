//! Keeps the findings that concern a part of the node.
//!
//! The whole node is audited in any case: only that shows that another job was
//! granted the same GPU.

use crate::model::{CgroupPath, Owner};
use crate::observation::Text;
use crate::owner::JobName;
use crate::report::{Finding, OwnerSets, Payload};

/// The part of the node that an audit is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditScope {
    /// These cgroups and all below them; empty means all.
    pub paths: Vec<Text>,
    /// This job.
    pub job: Option<JobName>,
}

impl AuditScope {
    /// Whether a finding is about this part.
    pub(super) fn contains(&self, finding: &Finding, payload: &Payload) -> bool {
        self.is_in_place(finding, payload) && self.is_of_job(finding, payload)
    }

    fn is_in_place(&self, finding: &Finding, payload: &Payload) -> bool {
        let others = finding.others.iter().flat_map(|other| rows(other, payload)).map(|row| &row.cgroup);
        let mut places = finding.cgroup.iter().chain(others).chain(process_places(finding, payload));
        self.paths.is_empty() || places.any(|place| self.paths.iter().any(|top| is_within(place, top)))
    }

    fn is_of_job(&self, finding: &Finding, payload: &Payload) -> bool {
        let Some(job) = &self.job else { return true };
        let is_its = |owner: &Owner| job.is(owner);
        let tops = || payload.owners.iter().flatten().filter(|row| job.is(&row.owner));
        let below = |place: &String| tops().any(|top| is_within(place, &Text::from(top.cgroup.as_str())));
        finding.owner.iter().chain(&finding.others).any(is_its)
            || finding.cgroup.iter().any(below)
            || process_places(finding, payload).any(below)
    }

    /// Whether the job has a cgroup on the node.
    pub(super) fn is_here(&self, payload: &Payload) -> bool {
        let mut owners = payload.owners.iter().flatten();
        self.job.as_ref().is_none_or(|job| owners.any(|row| job.is(&row.owner)))
    }
}

fn rows<'a>(owner: &'a Owner, payload: &'a Payload) -> impl Iterator<Item = &'a OwnerSets> {
    payload.owners.iter().flatten().filter(move |row| row.owner == *owner)
}

/// The cgroups of a finding's processes.
fn process_places<'a>(finding: &'a Finding, payload: &'a Payload) -> impl Iterator<Item = &'a String> {
    let is_its = |pid: u32, start: u64| {
        finding.processes.iter().any(|process| (process.pid, process.start_time) == (pid, start))
    };
    let cgroups = payload.cgroups.iter().flatten();
    let inside =
        cgroups.filter(move |cgroup| cgroup.processes.iter().any(|it| is_its(it.pid, it.start_time)));
    inside.map(|cgroup| &cgroup.path)
}

fn is_within(place: &str, top: &Text) -> bool {
    CgroupPath::new(place).is_at_or_below(CgroupPath::new(top.lossy().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::OwnerKind;

    /// Make sure that a name's beginning is not the cgroup, and that nothing is
    /// outside of the root.
    #[test]
    fn places() {
        assert!(is_within("/a/b", &Text::from("/a")) && is_within("/a", &Text::from("/a")));
        assert!(!is_within("/ab", &Text::from("/a")) && is_within("/ab", &Text::from("/")));
    }

    /// Make sure that a double grant concerns both jobs.
    #[test]
    fn both_sides() {
        let owner = |id| Owner { kind: OwnerKind::Slurm, job_id: Some(id), ..Owner::default() };
        let row =
            |id: u64| OwnerSets { owner: owner(id), cgroup: format!("/job_{id}"), ..OwnerSets::default() };
        let payload = Payload { owners: Some(vec![row(1), row(2), row(3)]), ..Payload::default() };
        let finding = Finding {
            cgroup: Some("/job_1".to_owned()),
            owner: Some(owner(1)),
            others: vec![owner(2)],
            ..Finding::default()
        };
        for (id, expected) in [(1, true), (2, true), (3, false)] {
            let job = AuditScope { job: Some(JobName::Number(id)), ..AuditScope::default() };
            let path = AuditScope {
                paths: vec![Text::from(format!("/job_{id}").as_str())],
                ..AuditScope::default()
            };
            assert_eq!(job.contains(&finding, &payload), expected, "{id}");
            assert_eq!(path.contains(&finding, &payload), expected, "{id}");
        }
    }
}
