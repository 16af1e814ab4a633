//! Joins the parts of one observation: inventory, owners, programs, policies. Most
//! answers begin here.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::attachment::Tree;
use super::explain::{self, Ways};
use super::gpu_verdicts::{GpuVerdicts, Numbers};
use super::policies::{Policies, PolicyTable};
use super::programs;
use super::subject::{self, AnalyseError};
use crate::gpu::{self, SharedNode};
use crate::model::{CgroupPath, Device, Request, Verdict};
use crate::observation::{self, Observation, Process, Program, Text};
use crate::owner::Directory;
use crate::policy::{Decoder, Followed, Policy, TimeLimit};
use crate::report::{self, Cgroup, Effective, Gpu, NodeAnswer};
use crate::vgpu::Survey;

/// An observation, its inventory and owners, and policies as far as they were
/// needed.
#[derive(Debug)]
pub(super) struct JoinedNode<'a> {
    pub(super) observation: &'a Observation,
    pub(super) gpus: Vec<Gpu>,
    pub(super) owners: Directory,
    pub(super) numbers: Numbers,
    /// Limits of HAMi-core and SoftMig.
    pub(super) survey: Survey,
    shared: Vec<SharedNode>,
    tree: Tree<'a>,
    cgroups: HashMap<&'a Text, &'a observation::Cgroup>,
    users: HashMap<u32, &'a Text>,
    limit: TimeLimit,
    /// Behind a cell, because a question to it may decode something. It asks nobody back,
    /// so that no borrow meets another.
    decoder: RefCell<Decoder>,
    policies: Policies<'a>,
    table: PolicyTable,
    views: HashMap<Policy, Rc<GpuVerdicts>>,
}

impl<'a> JoinedNode<'a> {
    pub(super) fn new(observation: &'a Observation, limit: &TimeLimit) -> Self {
        let gpus = gpu::inventory(&observation.gpu_facts);
        let shared = gpu::shared_nodes(&observation.gpu_facts);
        Self {
            observation,
            owners: Directory::new(observation),
            numbers: Numbers::new(&gpus, &shared),
            survey: Survey::new(observation),
            gpus,
            shared,
            tree: Tree::new(&observation.cgroups),
            cgroups: observation.cgroups.iter().map(|cgroup| (&cgroup.path, cgroup)).collect(),
            users: observation.users.iter().map(|user| (user.uid, &user.name)).collect(),
            limit: limit.clone(),
            decoder: RefCell::new(Decoder::of_programs(&observation.programs, limit)),
            policies: Policies::new(observation),
            table: PolicyTable::new(&observation.gpu_facts),
            views: HashMap::new(),
        }
    }

    /// The time limit.
    pub(super) fn limit(&self) -> &TimeLimit {
        &self.limit
    }

    /// The name of a user, if the node has one.
    pub(super) fn user(&self, uid: u32) -> Option<&'a Text> {
        self.users.get(&uid).copied()
    }

    /// The GPUs that the processes `inside` a cgroup may open: one view, or one for
    /// each process where the v1 controller restricts devices.
    pub(super) fn views(
        &mut self,
        cgroup: &observation::Cgroup,
        inside: &[&Process],
    ) -> Vec<Rc<GpuVerdicts>> {
        if inside.is_empty() || self.observation.devices_v1.is_none() {
            return vec![self.view(cgroup, inside)];
        }
        inside.iter().map(|process| self.view(cgroup, &[process])).collect()
    }

    fn view(&mut self, cgroup: &observation::Cgroup, inside: &[&Process]) -> Rc<GpuVerdicts> {
        let policy = self.policies.of_cgroup(cgroup, inside, self.decoder.get_mut());
        self.view_of(policy)
    }

    /// The GPUs that one process may open; `None` if its cgroup was not observed.
    pub(super) fn view_of_process(&mut self, process: &Process) -> Option<Rc<GpuVerdicts>> {
        let cgroup = self.cgroups.get(&process.cgroup).copied()?;
        Some(self.view(cgroup, &[process]))
    }

    fn view_of(&mut self, policy: Policy) -> Rc<GpuVerdicts> {
        let decoder = &*self.decoder.get_mut();
        let view = self.views.entry(policy);
        let new = || Rc::new(GpuVerdicts::new(&self.gpus, &self.shared, policy, decoder));
        view.or_insert_with(new).clone()
    }

    /// One verdict in a cgroup with these processes inside.
    pub(super) fn verdict(
        &self,
        cgroup: &observation::Cgroup,
        inside: &[&Process],
        device: Device,
        request: Request,
    ) -> Verdict {
        let decoder = &mut self.decoder.borrow_mut();
        let policy = self.policies.of_cgroup(cgroup, inside, decoder);
        decoder.verdict(policy, device, request)
    }

    /// Follows the programs in force in a cgroup, in run order: where each is
    /// attached, its name, its run.
    pub(super) fn runs_of(
        &self,
        cgroup: &'a observation::Cgroup,
        device: Device,
        request: Request,
    ) -> Vec<(Effective, String, Followed)> {
        let (places, programs) = self.in_force(cgroup);
        let context = self.policies.context(Some(cgroup.id));
        let proof = self.decoder.borrow_mut().prove(&programs, &context, device, request);
        let names = programs.iter().map(|program| program.name.lossy().into_owned());
        places
            .into_iter()
            .zip(names)
            .zip(proof.programs)
            .map(|((place, name), run)| (place, name, run))
            .collect()
    }

    /// The programs in force in a cgroup that the observation has, in run order.
    fn in_force(&self, cgroup: &'a observation::Cgroup) -> (Vec<Effective>, Vec<&'a Program>) {
        let places = self.tree.effective(cgroup).into_iter();
        let known = places.filter_map(|place| {
            let program = subject::program(self.observation, place.id).ok()?;
            Some((place, program))
        });
        known.unzip()
    }

    /// The proof for the programs in force in a cgroup, in run order, with instructions.
    pub(super) fn ways_of(&self, cgroup: &'a observation::Cgroup, device: Device, request: Request) -> Ways {
        let (places, programs) = self.in_force(cgroup);
        let context = self.policies.context(Some(cgroup.id));
        explain::ways(&mut self.decoder.borrow_mut(), &context, (&places, &programs), (device, request))
    }

    /// How the kernel combines the programs in force in a cgroup.
    pub(super) fn rule_of(&self, cgroup: &'a observation::Cgroup) -> String {
        let (_, programs) = self.in_force(cgroup);
        let combination = self.policies.context(Some(cgroup.id)).combination;
        let in_force = cgroup.effective.known().map(Vec::len);
        explain::rule(programs.len(), combination, in_force)
    }

    /// A cgroup and the cgroups around it, the root last.
    pub(super) fn around(&self, cgroup: &'a observation::Cgroup) -> Vec<&'a observation::Cgroup> {
        self.tree.around(cgroup)
    }

    /// The result of one program by itself.
    pub(super) fn program_verdict(&self, id: u32, device: Device, request: Request) -> Verdict {
        let decoder = &mut self.decoder.borrow_mut();
        let policy = self.policies.alone(id, decoder);
        policy.map_or(Verdict::Unknown, |policy| decoder.verdict(policy, device, request))
    }

    /// Whether a program's place matters, or it is not known.
    pub(super) fn depends_on_place(&self, id: u32) -> bool {
        self.policies.alone(id, &mut self.decoder.borrow_mut()).is_none()
    }

    /// A cgroup for an answer.
    pub(super) fn cgroup(
        &mut self,
        cgroup: &'a observation::Cgroup,
        inside: &[&Process],
        processes: Vec<report::Process>,
    ) -> Cgroup {
        let policy = self.policies.of_cgroup(cgroup, inside, self.decoder.get_mut());
        Cgroup {
            path: cgroup.path.lossy().into_owned(),
            path_hex: cgroup.path.hex(),
            id: cgroup.id,
            owner: self.owners.of(&cgroup.path).cloned(),
            programs: self.tree.effective(cgroup),
            programs_unknown: cgroup.effective.missing().map(str::to_owned),
            policy: self.table.add(policy, self.decoder.get_mut()),
            gpus: self.view_of(policy).verdicts.clone(),
            processes,
            processes_below: None,
            unseen: cgroup.unseen.clone(),
        }
    }

    /// The answer with these cgroups, their programs and policies.
    pub(super) fn finish(&mut self, cgroups: Vec<Cgroup>) -> NodeAnswer {
        let used: BTreeSet<u32> =
            cgroups.iter().flat_map(|cgroup| &cgroup.programs).map(|program| program.id).collect();
        let programs =
            programs::table(self.observation, &used, &self.policies, &mut self.table, self.decoder.get_mut());
        NodeAnswer {
            programs,
            cgroups,
            policies: std::mem::take(&mut self.table.policies),
            gpus: self.gpus.clone(),
            gpus_unread: self.observation.gpu_facts.unread,
            ..NodeAnswer::default()
        }
    }
}

/// The cgroups that an observation was taken for, in walk order.
pub(super) fn in_scope(observation: &Observation) -> Result<Vec<&observation::Cgroup>, AnalyseError> {
    let exact: BTreeSet<&Text> = observation.scope.iter().map(|scope| &scope.path).collect();
    let below: Vec<&[u8]> =
        observation.scope.iter().filter(|scope| scope.recursive).map(|scope| scope.path.as_bytes()).collect();
    let known: BTreeSet<&Text> = observation.cgroups.iter().map(|cgroup| &cgroup.path).collect();
    let gone = |path: &Text| observation.errors.iter().any(|error| error.what == path.lossy());
    if let Some(path) = exact.iter().find(|path| !known.contains(**path) && !gone(path)) {
        return Err(AnalyseError::NoCgroup((*path).clone()));
    }
    let asked = |cgroup: &&observation::Cgroup| {
        exact.contains(&cgroup.path)
            || below.iter().any(|top| CgroupPath::new(&cgroup.path).is_below(CgroupPath::new(top)))
    };
    Ok(observation.cgroups.iter().filter(asked).collect())
}

/// The processes that are asked about, by cgroup: all, or those named one by
/// one.
pub(super) fn by_cgroup(observation: &Observation) -> BTreeMap<&Text, Vec<&Process>> {
    let named: BTreeSet<u32> = observation.pids.iter().copied().collect();
    let asked = |process: &&Process| named.is_empty() || named.contains(&process.pid);
    let mut inside: BTreeMap<&Text, Vec<&Process>> = BTreeMap::new();
    for process in observation.processes.iter().filter(asked) {
        inside.entry(&process.cgroup).or_default().push(process);
    }
    inside
}
