//! The analysed node that all families of findings read: its cgroups, its GPUs, and
//! the tenants, who have GPUs of their own.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::config::Config;
use super::tenants::{Tenant, is_tenant, whole};
use crate::analyse::Inspection;
use crate::model::{Device, DeviceType, Owner, OwnerKind, Request, Verdict};
use crate::observation::{self, Observation, Text};
use crate::report::{Cgroup, Decision, Gpu, OwnerSets, Policy, Process, Program};

/// A node, analysed, with those who have GPUs of their own on it.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) inspection: &'a Inspection<'a>,
    pub(super) config: &'a Config,
    /// The cgroups of the answer, in walk order.
    pub(super) places: Vec<Place<'a>>,
    /// Jobs, containers, pods and virtual machines: owners whose GPUs are theirs
    /// alone.
    pub(super) tenants: Vec<Tenant<'a>>,
    /// The innermost tenant of each place, by position; none for the cgroups of
    /// schedulers and runtimes themselves.
    innermost: Vec<Option<usize>>,
}

/// A cgroup of the answer, with its path as it was observed. Places are in walk
/// order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) cgroup: &'a Cgroup,
    pub(super) path: &'a Text,
    number: usize,
}

impl PartialEq for Place<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Place<'_> {}

impl PartialOrd for Place<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Place<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number.cmp(&other.number)
    }
}

impl<'a> Facts<'a> {
    pub(super) fn new(inspection: &'a Inspection<'a>, config: &'a Config) -> Self {
        let cgroups = inspection.payload().cgroups.iter().flatten();
        let observed = cgroups.zip(inspection.paths()).enumerate();
        let places = observed.map(|(number, (cgroup, path))| Place { cgroup, path, number }).collect();
        let mut facts = Self { inspection, config, places, tenants: Vec::new(), innermost: Vec::new() };
        facts.tenants = facts.gather();
        facts.settle();
        facts
    }

    /// The facts as they were observed.
    pub(super) fn observation(&self) -> &'a Observation {
        self.inspection.observation()
    }

    /// The node's GPUs.
    pub(super) fn gpus(&self) -> &'a [Gpu] {
        self.inspection.gpus()
    }

    /// All processes of the answer.
    pub(super) fn processes(&self) -> impl Iterator<Item = &'a Process> {
        self.places.iter().flat_map(|place| &place.cgroup.processes)
    }

    /// The cgroup that a process is in.
    pub(super) fn place_of(&self, process: &Process) -> Option<Place<'a>> {
        self.places.iter().copied().find(|place| place.cgroup.path == process.cgroup)
    }

    /// A process as it was observed.
    pub(super) fn observed(&self, process: &Process) -> Option<&'a observation::Process> {
        let same = |other: &&observation::Process| {
            (other.pid, other.start_time) == (process.pid, process.start_time)
        };
        self.observation().processes.iter().find(same)
    }

    /// A program of the answer.
    pub(super) fn program(&self, id: u32) -> Option<&'a Program> {
        self.inspection.payload().programs.as_ref()?.get(&id)
    }

    /// When a program was loaded, and its id: the time is in seconds, and ids grow until
    /// they wrap.
    pub(super) fn age_of_program(&self, id: u32) -> (&'a str, u32) {
        let found = self.observation().programs.iter().find(|program| program.id == id);
        (found.map_or("", |program| program.loaded_at.as_str()), id)
    }

    /// What the programs in force in a cgroup decide together.
    pub(super) fn policy(&self, place: Place<'_>) -> Option<&'a Policy> {
        self.inspection.payload().policies.as_ref()?.get(&place.cgroup.policy)
    }

    /// The innermost tenant around a cgroup.
    pub(super) fn tenant_at(&self, place: Place<'_>) -> Option<&Tenant<'a>> {
        self.tenants.get((*self.innermost.get(place.number)?)?)
    }

    /// The verdict on a character device in a cgroup.
    pub(super) fn verdict(&self, place: Place<'_>, number: (u32, u32), request: Request) -> Verdict {
        self.inspection.verdict(place.path, char(number), request)
    }

    /// Whether a character device may be opened in a cgroup.
    pub(super) fn allows(&self, place: Place<'_>, number: (u32, u32), request: Request) -> bool {
        self.verdict(place, number, request) == Verdict::Allow
    }

    /// The programs that decided on a character device in a cgroup.
    pub(super) fn decisions(&self, place: Place<'_>, number: (u32, u32), request: Request) -> Vec<Decision> {
        self.inspection.decisions(place.path, char(number), request)
    }

    fn gather(&self) -> Vec<Tenant<'a>> {
        let owners = self.inspection.payload().owners.iter().flatten();
        let by_owner = self.by_owner();
        let tenant = |row: &'a OwnerSets| Tenant::new(row, by_owner.get(&row.owner).cloned());
        let mut tenants: Vec<Tenant<'a>> = owners.filter(|row| is_tenant(&row.owner)).map(tenant).collect();
        // A Prolog asks who is on the GPUs of a job that is not there yet.
        let of_hook = self.inspection.job_of_hook();
        let is_there = |hook: &&OwnerSets| {
            let same = |row: &Tenant<'_>| {
                row.owner().kind == OwnerKind::Slurm && row.owner().job_id == hook.owner.job_id
            };
            tenants.iter().any(same)
        };
        let absent = of_hook.filter(|hook| !is_there(hook)).map(tenant);
        tenants.extend(absent);
        tenants
    }

    /// Gives every tenant the cgroups of which it is the innermost.
    fn settle(&mut self) {
        let tenants = self.tenants.iter().enumerate();
        let index: HashMap<&Owner, usize> =
            tenants.map(|(number, tenant)| (tenant.owner(), number)).collect();
        self.innermost =
            self.places.iter().map(|place| innermost(place.cgroup.owner.as_ref(), &index)).collect();
        for (place, tenant) in self.places.iter().zip(&self.innermost) {
            if let Some(tenant) = tenant.and_then(|tenant| self.tenants.get_mut(tenant)) {
                tenant.own.push(*place);
            }
        }
        let policies = self.inspection.payload().policies.as_ref();
        self.tenants.iter_mut().for_each(|tenant| tenant.describe(policies));
    }

    /// Services and scopes of systemd with device rules, which is how a unit gets GPUs of
    /// its own.
    pub(super) fn units_with_rules(&self) -> Vec<Tenant<'a>> {
        let is_unit = |row: &&OwnerSets| row.owner.kind == OwnerKind::Unit && row.owner.claims.is_empty();
        let units = self.inspection.payload().owners.iter().flatten().filter(is_unit);
        let by_owner = self.by_owner();
        let tenants = units.map(|row| Tenant::new(row, by_owner.get(&row.owner).cloned()));
        tenants
            .filter(|tenant| tenant.cgroups.iter().any(|place| !place.cgroup.programs.is_empty()))
            .collect()
    }

    /// The cgroups of each tenant: its own, those of its parts, and those of
    /// whatever runs inside it.
    fn by_owner(&self) -> HashMap<Owner, Vec<Place<'a>>> {
        let mut places: HashMap<Owner, Vec<Place<'a>>> = HashMap::new();
        for place in &self.places {
            let own = place.cgroup.owner.as_ref().filter(|owner| owner.part.is_none());
            for owner in std::iter::successors(own, |owner| owner.outer.as_deref()) {
                places.entry(whole(owner)).or_default().push(*place);
            }
        }
        places
    }
}

impl<'a> Place<'a> {
    /// The verdict (`rw`) on a GPU of the node.
    pub(super) fn verdict(&self, gpu: &Gpu) -> Verdict {
        let mut verdicts = self.cgroup.gpus.iter();
        verdicts.find(|verdict| verdict.gpu == gpu.key).map_or(Verdict::Unknown, |gpu| gpu.verdict)
    }

    /// The processes inside that have a GPU open.
    pub(super) fn holders(&self) -> impl Iterator<Item = &'a Process> + use<'a> {
        let holds = |process: &&Process| process.held.as_ref().is_some_and(|held| !held.is_empty());
        self.cgroup.processes.iter().filter(holds)
    }

    /// The ids of the programs in force, in run order.
    pub(super) fn program_ids(&self) -> Vec<u32> {
        self.cgroup.programs.iter().map(|program| program.id).collect()
    }
}

fn innermost(owner: Option<&Owner>, index: &HashMap<&Owner, usize>) -> Option<usize> {
    let owner = owner?;
    let own = if owner.part.is_none() { index.get(&whole(owner)).copied() } else { None };
    own.or_else(|| innermost(owner.outer.as_deref(), index))
}

/// A character device by number.
pub(super) fn char((major, minor): (u32, u32)) -> Device {
    Device { kind: DeviceType::Char, major, minor }
}
