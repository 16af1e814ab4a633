//! The analysed node that all families of findings read.

use std::collections::HashMap;

use super::config::Config;
use crate::analyse::{AnalyseError, CallerAllocation, Inspection, TimeLimit};
use crate::model::{Device, DeviceType, Request, Verdict};
use crate::model::{Owner, OwnerKind};
use crate::observation::{self, Observation, Text};
use crate::report::{Cgroup, Decision, OwnerSets, Process};

/// A node, analysed, with those who have GPUs of their own on it.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) inspection: Inspection<'a>,
    pub(super) config: &'a Config,
    /// Jobs, containers, pods and virtual machines: owners whose GPUs are theirs
    /// alone.
    pub(super) tenants: Vec<Tenant>,
}

/// An owner whose GPUs are its own.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    /// Its row: the four sets.
    pub(super) sets: OwnerSets,
    /// Its cgroups, the topmost first, by place in the answer; without those
    /// of the scheduler or runtime itself.
    pub(super) cgroups: Vec<usize>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(
        observation: &'a Observation,
        granted: &CallerAllocation,
        config: &'a Config,
        limit: &TimeLimit,
    ) -> Result<Self, AnalyseError> {
        let inspection = Inspection::new(observation, granted, limit)?;
        let mut facts = Self { inspection, config, tenants: Vec::new() };
        facts.tenants = facts.gather();
        Ok(facts)
    }

    /// The cgroups of the answer, in walk order.
    pub(super) fn cgroups(&self) -> &[Cgroup] {
        self.inspection.payload().cgroups.as_deref().unwrap_or_default()
    }

    /// The path of a cgroup by its place in the answer.
    pub(super) fn path(&self, place: usize) -> Text {
        self.inspection.paths().get(place).cloned().unwrap_or_default()
    }

    /// All processes of the answer.
    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.cgroups().iter().flat_map(|cgroup| &cgroup.processes)
    }

    /// A process as it was observed.
    pub(super) fn observed(&self, process: &Process) -> Option<&'a observation::Process> {
        let same = |other: &&observation::Process| {
            (other.pid, other.start_time) == (process.pid, process.start_time)
        };
        self.inspection.observation().processes.iter().find(same)
    }

    /// The verdict on a character device in a cgroup.
    pub(super) fn verdict(&mut self, place: usize, number: (u32, u32), request: Request) -> Verdict {
        let path = self.path(place);
        self.inspection.verdict(&path, char(number), request)
    }

    /// The programs that decided it.
    pub(super) fn decisions(&mut self, place: usize, number: (u32, u32), request: Request) -> Vec<Decision> {
        let path = self.path(place);
        self.inspection.decisions(&path, char(number), request)
    }

    fn gather(&self) -> Vec<Tenant> {
        let owners = self.inspection.payload().owners.as_deref().unwrap_or_default();
        let rows = owners.iter().filter(|row| is_tenant(&row.owner));
        let places = self.places();
        let tenant = |row: &OwnerSets| Tenant {
            cgroups: places.get(&row.owner).cloned().unwrap_or_default(),
            sets: row.clone(),
        };
        let mut tenants: Vec<Tenant> = rows.map(tenant).collect();
        // A Prolog asks who is on the GPUs of a job that is not there yet.
        let told = self.inspection.job_of_hook();
        let is_there = |told: &&OwnerSets| {
            let same = |row: &Tenant| {
                row.sets.owner.kind == OwnerKind::Slurm && row.sets.owner.job_id == told.owner.job_id
            };
            tenants.iter().any(same)
        };
        let absent = told.filter(|told| !is_there(told)).map(tenant);
        tenants.extend(absent);
        tenants
    }

    /// Services and scopes of systemd with device rules, which is how a unit gets GPUs of
    /// its own.
    pub(super) fn units_with_rules(&self) -> Vec<Tenant> {
        let owners = self.inspection.payload().owners.as_deref().unwrap_or_default();
        let units =
            owners.iter().filter(|row| row.owner.kind == OwnerKind::Unit && row.owner.claims.is_empty());
        let places = self.places();
        let tenants = units.map(|row| Tenant {
            cgroups: places.get(&row.owner).cloned().unwrap_or_default(),
            sets: row.clone(),
        });
        let has_rules = |tenant: &Tenant| {
            let mut cgroups = tenant.cgroups.iter().filter_map(|place| self.cgroups().get(*place));
            cgroups.any(|cgroup| !cgroup.programs.is_empty())
        };
        tenants.filter(has_rules).collect()
    }

    /// The cgroups of each tenant: its own, those of its parts, and those of
    /// whatever runs inside it.
    fn places(&self) -> HashMap<Owner, Vec<usize>> {
        let mut places: HashMap<Owner, Vec<usize>> = HashMap::new();
        for (place, cgroup) in self.cgroups().iter().enumerate() {
            let own = cgroup.owner.as_ref().filter(|owner| owner.part.is_none());
            for owner in std::iter::successors(own, |owner| owner.outer.as_deref()) {
                places.entry(whole(owner)).or_default().push(place);
            }
        }
        places
    }
}

/// A character device by number.
pub(super) fn char((major, minor): (u32, u32)) -> Device {
    Device { kind: DeviceType::Char, major, minor }
}

/// Whether an owner gets GPUs for itself: a whole job, a container, a pod, a
/// VM. Steps and tasks share what their job has.
pub(super) fn is_tenant(owner: &Owner) -> bool {
    let is_part_of_job = owner.step.is_some() || owner.task.is_some();
    !is_part_of_job && owner.claims.is_empty() && !owner.kind.is_service()
}

/// Whether `owner` is the tenant, a part of it, or something inside it.
pub(super) fn is_within(owner: &Owner, tenant: &Owner) -> bool {
    whole(owner) == *tenant || owner.outer.as_deref().is_some_and(|outer| is_within(outer, tenant))
}

/// The job that a step or task is part of, and the owner inside which a claim was
/// made; any other owner is returned as it is.
pub(super) fn whole(owner: &Owner) -> Owner {
    Owner { step: None, het_component: None, task: None, part: None, ..owner.identity() }
}
