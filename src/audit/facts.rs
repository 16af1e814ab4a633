//! The analysed node that all families of findings read: its cgroups, its GPUs, and
//! the tenants, who have GPUs of their own.

use std::collections::HashMap;

use super::config::Config;
use super::tenants::{Place, Tenant, capabilities, is_tenant, whole};
use crate::analyse::Inspection;
use crate::model::{
    CgroupPath, Device, DeviceType, MAX_MAJOR, MAX_MINOR, Owner, OwnerKind, Request, Time, Verdict,
};
use crate::observation::{self, Observation};
use crate::report::{Decision, Gpu, MigInstance, OwnerSets, Policy, Process, Program};

/// The number of a device that no rule names: the last there can be.
const NOBODYS: (u32, u32) = (MAX_MAJOR, MAX_MINOR);

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

impl<'a> Facts<'a> {
    pub(super) fn new(inspection: &'a Inspection<'a>, config: &'a Config) -> Self {
        let cgroups = inspection.payload().cgroups.iter();
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
        self.inspection.payload().programs.get(&id)
    }

    /// When a program was loaded, and its id: the time is in seconds, and ids grow until
    /// they wrap.
    pub(super) fn age_of_program(&self, id: u32) -> (Time, u32) {
        let found = self.observation().programs.iter().find(|program| program.id == id);
        (found.map(|program| program.loaded_at.clone()).unwrap_or_default(), id)
    }

    /// What the programs in force in a cgroup decide together.
    pub(super) fn policy(&self, place: Place<'_>) -> Option<&'a Policy> {
        self.inspection.payload().policies.get(&place.cgroup.policy)
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

    /// The GPUs with a node on which a cgroup has this verdict.
    pub(super) fn gpus_with(&self, place: Place<'_>, verdict: Verdict) -> Vec<&'a Gpu> {
        let verdicts = self.gpus().iter().zip(&place.cgroup.gpus);
        verdicts.filter(|(_, it)| it.verdict == verdict && it.minor.is_some()).map(|(gpu, _)| gpu).collect()
    }

    /// The same GPUs without those that are shared by design.
    pub(super) fn exclusive_with(&self, place: Place<'_>, verdict: Verdict) -> Vec<&'a Gpu> {
        let mut gpus = self.gpus_with(place, verdict);
        gpus.retain(|gpu| !self.is_shared(gpu));
        gpus
    }

    /// Whether the configuration lets everybody have a GPU at the same time.
    pub(super) fn is_shared(&self, gpu: &Gpu) -> bool {
        self.config.sharing.whole_node || self.config.sharing.has_gpu(&gpu.key)
    }

    /// Whether the configuration lets processes of a cgroup hold any GPU.
    pub(super) fn is_daemon(&self, path: &str) -> bool {
        let path = CgroupPath::new(path);
        let mut daemons = self.config.daemons.iter();
        daemons.any(|daemon| path.is_at_or_below(CgroupPath::new(&daemon.cgroup)))
    }

    /// Whether the programs in force in a cgroup allow devices that no rule names.
    pub(super) fn is_deny_list(&self, place: Place<'_>) -> bool {
        self.allows(place, NOBODYS, Request::ReadWrite)
    }

    /// Whether every program lets a device through by the very instruction that does so for
    /// a device that no rule names.
    pub(super) fn is_unnamed(&self, place: Place<'_>, number: (u32, u32), request: Request) -> bool {
        let asked = self.decisions(place, number, request);
        let nobodys = self.decisions(place, NOBODYS, request);
        let same = asked.iter().zip(&nobodys).all(|(asked, nobodys)| {
            asked.returns == Verdict::Allow
                && asked.decided_at.is_some()
                && asked.decided_at == nobodys.decided_at
        });
        !asked.is_empty() && asked.len() == nobodys.len() && same
    }

    /// Whether both capabilities of an instance may be opened, and rules name one of them:
    /// one that no rule names is everybody's.
    pub(super) fn opens_instance(&self, place: Place<'_>, instance: &MigInstance) -> bool {
        let Some(numbers) = capabilities(instance) else { return false };
        let read = Request::Read;
        numbers.iter().all(|number| self.allows(place, *number, read))
            && !numbers.iter().all(|number| self.is_unnamed(place, *number, read))
    }

    /// The tenants that a GPU was granted or allocated to, without `but`.
    pub(super) fn having(&self, gpu: &Gpu, but: Option<&Tenant<'_>>) -> Vec<&Tenant<'a>> {
        let has = |tenant: &&Tenant<'_>| {
            tenant.was_allocated(gpu) || tenant.is_granted() && tenant.allows(gpu).is_some()
        };
        let having = self.tenants.iter().filter(has);
        having.filter(|tenant| but.is_none_or(|but| !but.is(tenant))).collect()
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
        let policies = &self.inspection.payload().policies;
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

fn innermost(owner: Option<&Owner>, index: &HashMap<&Owner, usize>) -> Option<usize> {
    let owner = owner?;
    let own = if owner.part.is_none() { index.get(&whole(owner)).copied() } else { None };
    own.or_else(|| innermost(owner.outer.as_deref(), index))
}

/// A character device by number.
pub(super) fn char((major, minor): (u32, u32)) -> Device {
    Device { kind: DeviceType::Char, major, minor }
}
