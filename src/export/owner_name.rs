//! How owners are named in labels, and which of them have samples of their own.

use std::collections::BTreeMap;

use super::metric::plain;
use crate::model::{JobIdSource, Owner, OwnerKind};
use crate::report::OwnerSets;

/// What names an owner: the labels `kind`, `jobid` and `name`.
///
/// Directories that nobody is known for have the kind `cgroup` and no name: their
/// paths are no labels, and users can make as many as they like. All of them together
/// are one owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OwnerName {
    kind: String,
    jobid: String,
    name: String,
}

impl OwnerName {
    /// The name of the whole owner: of a step or task it is that of the job, of a
    /// container in a pod or job that of the pod or job.
    pub(super) fn of(owner: &Owner) -> Self {
        let owner = outermost(owner);
        let kind = owner.kind.to_string();
        if owner.kind == OwnerKind::Cgroup {
            return Self { kind, jobid: String::new(), name: String::new() };
        }
        // A number that the job's own environment claims names another user's job.
        let is_claimed = owner.job_id_source == Some(JobIdSource::Environment);
        let number = owner.job_id.filter(|_| !is_claimed).map(|number| number.to_string());
        let jobid = number.or_else(|| owner.job.clone()).or_else(|| owner.sluid.clone());
        let container = owner.container.as_ref().filter(|_| owner.kind != OwnerKind::Pod);
        let names = [container, owner.pod.as_ref(), owner.name.as_ref(), owner.session.as_ref()];
        let uid = || owner.uid.map(|uid| uid.to_string());
        let name = names.into_iter().flatten().next().or(owner.user.as_ref()).cloned();
        // A job is named by its id; the user's number only where there is no other name.
        let name = name.or_else(|| if jobid.is_none() { uid() } else { None });
        Self {
            kind: plain(&kind),
            jobid: plain(&jobid.unwrap_or_default()),
            name: plain(&name.unwrap_or_default()),
        }
    }

    /// The id of a job as a line of a file; `None` for owners without one.
    pub(super) fn job_file_id(&self) -> Option<String> {
        let is_plain = !self.jobid.is_empty() && self.jobid.bytes().all(|c| c.is_ascii_graphic());
        is_plain.then(|| self.jobid.clone())
    }

    /// The labels, after `first`.
    pub(super) fn after(&self, first: impl IntoIterator<Item = String>) -> Vec<String> {
        first.into_iter().chain([self.kind.clone(), self.jobid.clone(), self.name.clone()]).collect()
    }
}

/// The owners that have samples of their own, each with its rows: rows of one name are
/// one owner.
#[derive(Debug)]
pub(super) struct OwnerNames<'a> {
    pub(super) kept: BTreeMap<OwnerName, Vec<&'a OwnerSets>>,
    pub(super) limit: usize,
    pub(super) left_out: usize,
}

impl<'a> OwnerNames<'a> {
    /// Those who hold GPUs come first, then jobs, pods and containers, then services:
    /// a limit must not let a user hide by making many of something else.
    pub(super) fn new(owners: &'a [OwnerSets], limit: usize) -> Self {
        let mut named: BTreeMap<OwnerName, Vec<&OwnerSets>> = BTreeMap::new();
        for owner in owners.iter().filter(|owner| owner.depth == 0) {
            named.entry(OwnerName::of(&owner.owner)).or_default().push(owner);
        }
        let left_out = named.len().saturating_sub(limit);
        let mut kept: Vec<(OwnerName, Vec<&OwnerSets>)> = named.into_iter().collect();
        if left_out > 0 {
            kept.sort_by_key(|(_, rows)| rows.iter().map(|row| rank(row)).min());
            kept.truncate(limit);
        }
        Self { kept: kept.into_iter().collect(), limit, left_out }
    }

    /// The name of an owner that has samples.
    pub(super) fn kept(&self, owner: &Owner) -> Option<OwnerName> {
        Some(OwnerName::of(owner)).filter(|name| self.kept.contains_key(name))
    }
}

/// The owner around all others. A scheduler's own directories are nobody's.
fn outermost(owner: &Owner) -> &Owner {
    let is_owner = |outer: &&Owner| {
        let takes_steps = outer.kind.is_slurm() || outer.kind == OwnerKind::Crane;
        !takes_steps || outer.job_id.is_some() || outer.sluid.is_some()
    };
    owner.outer.as_deref().filter(is_owner).map_or(owner, outermost)
}

/// Who comes first where there are too many.
fn rank(row: &OwnerSets) -> u8 {
    let may_hold = row.held.gpus.as_ref().is_none_or(|gpus| !gpus.is_empty()) || !row.held.unknown.is_empty();
    match (may_hold, row.owner.is_workload()) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}
