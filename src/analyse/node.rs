//! The answer of `node`, `job` and `pid`: cgroups, and the four sets of their owners. An
//! [`Inspection`] keeps it together with the facts it was made from, so that an audit can
//! ask further questions, and chooses what `audit --verify` asks the kernel.

use std::collections::{BTreeSet, HashMap};

use super::allocated::{self, CallerAllocation};
use super::joined_node::{JoinedNode, in_scope};
use super::scope::cgroups_and_owners;
use super::subject::AnalyseError;
use super::{activity, processes};
use crate::allocation::Numbering;
use crate::gpu::{self, SharedNode};
use crate::model::{Device, Owner, OwnerKind, Request, Verdict};
use crate::observation::{self, Observation, Text};
use crate::owner::JobName;
use crate::policy::{Followed, TimeLimit};
use crate::report::{Decision, Gpu, GpuSet, NodeAnswer, OwnerSets};

/// The answer for everything in the observation's scope; for single processes
/// if it was taken for those.
///
/// # Errors
///
/// A cgroup of the scope that the observation lacks; a list of GPUs that names
/// none of this node.
pub fn node(
    observation: &Observation,
    granted: &CallerAllocation,
    limit: &TimeLimit,
) -> Result<NodeAnswer, AnalyseError> {
    answer(&mut JoinedNode::new(observation, limit), granted)
}

/// The same with the state that further questions need.
pub(super) fn answer(
    join: &mut JoinedNode<'_>,
    granted: &CallerAllocation,
) -> Result<NodeAnswer, AnalyseError> {
    let mut payload = cgroups_and_owners(join, granted)?;
    let reading = join.observation.activity.as_deref();
    if let Some((reading, activity)) = reading.zip(activity::of_present(join, &payload)) {
        activity::add_used(&mut payload, &activity, reading);
        payload.activity = Some(Box::new(activity));
    }
    Ok(payload)
}

/// Leaves out the rows of jobs of which only some steps were asked for (`is_whole`
/// tells): a step's row would be mistaken for the job's.
pub fn without_partial_jobs(payload: &mut NodeAnswer, is_whole: impl Fn(&Owner) -> bool) {
    let owners = payload.owners.take().unwrap_or_default();
    let groups = owners.chunk_by(|_, next| next.depth > 0);
    let rows = groups.flat_map(|group| match group.split_first() {
        Some((job, steps)) if job.owner.step.is_none() && !steps.is_empty() && !is_whole(&job.owner) => {
            steps.iter().map(|row| OwnerSets { depth: row.depth.saturating_sub(1), ..row.clone() }).collect()
        }
        _ => group.to_vec(),
    });
    payload.owners = Some(rows.collect());
}

/// The answer of `node`, and further questions about the same observation.
#[derive(Debug)]
pub struct Inspection<'a> {
    join: JoinedNode<'a>,
    payload: NodeAnswer,
    cgroups: HashMap<&'a Text, &'a observation::Cgroup>,
    paths: Vec<Text>,
    shared: Vec<SharedNode>,
    told: Option<OwnerSets>,
}

impl<'a> Inspection<'a> {
    /// Analyses everything in the observation's scope.
    ///
    /// # Errors
    ///
    /// As [`super::node()`].
    pub fn new(
        observation: &'a Observation,
        granted: &CallerAllocation,
        limit: &TimeLimit,
    ) -> Result<Self, AnalyseError> {
        let mut join = JoinedNode::new(observation, limit);
        let payload = answer(&mut join, granted)?;
        let cgroups = observation.cgroups.iter().map(|cgroup| (&cgroup.path, cgroup)).collect();
        let shared = gpu::shared_nodes(&observation.gpu_facts);
        let paths = in_scope(observation)?.into_iter().map(|cgroup| cgroup.path.clone()).collect();
        let told = told(&join, granted)?;
        Ok(Self { join, payload, cgroups, paths, shared, told })
    }

    /// The job of the hook that gpumap runs in, with its allocation from the hook.
    /// In a Prolog the job has no cgroup yet, in an Epilog none any more.
    pub fn job_of_hook(&self) -> Option<&OwnerSets> {
        self.told.as_ref()
    }

    /// The GPUs that somebody asks about: those that the caller names or the hook that gpumap
    /// runs in, else those that this job was allocated, else all of the node.
    ///
    /// # Errors
    ///
    /// A list of GPUs that names none of this node.
    pub fn asked(&self, job: Option<&JobName>, granted: &CallerAllocation) -> Result<GpuSet, AnalyseError> {
        let observation = self.join.observation;
        let numbering = Numbering::new(&observation.slurm, &observation.host.name, &self.join.gpus);
        let source = allocated::source(observation, granted, &numbering, &self.join)?;
        if let Some(given) = source.given {
            return Ok(given);
        }
        let Some(job) = job else { return Ok(self.all_gpus()) };
        if let Some(told) = self.told.as_ref().filter(|told| job.is(&told.owner)) {
            return Ok(told.allocated.clone());
        }
        let mut owners = self.payload.owners.iter().flatten();
        let found = owners.find(|row| row.depth == 0 && job.is(&row.owner));
        let why = "what the job was allocated is not known: name GPUs, or use --allocated or --from-env";
        Ok(found.map(|row| row.allocated.clone()).unwrap_or_else(|| unknown(why)))
    }

    fn all_gpus(&self) -> GpuSet {
        if self.payload.gpus_unread {
            return unknown("not all that tells of GPUs could be read");
        }
        GpuSet { gpus: Some(self.gpus().iter().map(|gpu| gpu.key.clone()).collect()), ..GpuSet::default() }
    }

    /// The time limit of decoding.
    pub fn limit(&self) -> &TimeLimit {
        self.join.limit()
    }

    /// The facts.
    pub fn observation(&self) -> &'a Observation {
        self.join.observation
    }

    /// The answer of `node`: cgroups in walk order, owners, programs, GPUs.
    pub fn payload(&self) -> &NodeAnswer {
        &self.payload
    }

    /// The paths of the answer's cgroups, in the same order.
    pub fn paths(&self) -> &[Text] {
        &self.paths
    }

    /// The answer, taken out.
    pub fn into_payload(self) -> NodeAnswer {
        self.payload
    }

    /// The answer, and what it was joined of: programs that are decoded already.
    pub(super) fn into_parts(self) -> (JoinedNode<'a>, NodeAnswer) {
        (self.join, self.payload)
    }

    /// The node's GPUs.
    pub fn gpus(&self) -> &[Gpu] {
        &self.join.gpus
    }

    /// The nodes that a vendor's GPUs share.
    pub fn shared_nodes(&self) -> &[SharedNode] {
        &self.shared
    }

    /// A cgroup as it was observed.
    pub fn cgroup(&self, path: &Text) -> Option<&'a observation::Cgroup> {
        self.cgroups.get(path).copied()
    }

    /// The verdict for the processes in a cgroup, the v1 controller included;
    /// `unknown` for a cgroup that was not observed.
    pub fn verdict(&self, cgroup: &Text, device: Device, request: Request) -> Verdict {
        let Some(cgroup) = self.cgroup(cgroup) else { return Verdict::Unknown };
        let observation = self.join.observation;
        let inside = || observation.processes.iter().filter(|process| process.cgroup == cgroup.path);
        let inside: Vec<&observation::Process> =
            if observation.devices_v1.is_some() { inside().collect() } else { Vec::new() };
        self.join.verdict(cgroup, &inside, device, request)
    }

    /// Which programs decided in a cgroup, in run order, and where.
    pub fn decisions(&self, cgroup: &Text, device: Device, request: Request) -> Vec<Decision> {
        let Some(cgroup) = self.cgroup(cgroup) else { return Vec::new() };
        let followed = self.join.runs_of(cgroup, device, request);
        followed.into_iter().map(|(place, name, followed)| decision(place, name, &followed)).collect()
    }

    /// The result of one program of the observation by itself; `unknown` if it
    /// depends on the cgroup it runs for.
    pub fn program_verdict(&self, id: u32, device: Device, request: Request) -> Verdict {
        self.join.program_verdict(id, device, request)
    }

    /// Whether what a program returns depends on the cgroup it is asked in.
    pub fn depends_on_place(&self, id: u32) -> bool {
        self.join.depends_on_place(id)
    }
}

/// A set of which nothing is known.
fn unknown(why: &str) -> GpuSet {
    GpuSet { why: vec![why.to_owned()], ..GpuSet::default() }
}

fn told(join: &JoinedNode<'_>, granted: &CallerAllocation) -> Result<Option<OwnerSets>, AnalyseError> {
    let observation = join.observation;
    let Some(job_id) = observation.slurm.hook.as_ref().and_then(processes::job_id) else { return Ok(None) };
    let numbering = Numbering::new(&observation.slurm, &observation.host.name, &join.gpus);
    let source = allocated::source(observation, granted, &numbering, join)?;
    let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(job_id), ..Owner::default() };
    let allocated = allocated::of(&owner, &[], join, &numbering, &source);
    Ok(Some(OwnerSets { owner, allocated, ..OwnerSets::default() }))
}

fn decision(place: crate::report::Effective, name: String, followed: &Followed) -> Decision {
    Decision {
        id: place.id,
        name,
        attached_at: place.attached_at,
        returns: followed.returned.into(),
        decided_at: followed.decided_at,
    }
}

/// The questions of `--verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToVerify {
    /// Cgroups with processes; of those with the same programs and policy one.
    pub cgroups: Vec<Text>,
    /// Nodes: path, major and minor number.
    pub nodes: Vec<(String, u32, u32)>,
}

/// Chooses the cgroups and nodes to ask the kernel about.
///
/// # Errors
///
/// As [`super::node()`].
pub fn to_verify(observation: &Observation, limit: &TimeLimit) -> Result<ToVerify, AnalyseError> {
    let inspection = Inspection::new(observation, &CallerAllocation::default(), limit);
    inspection.map(|inspection| questions(&inspection))
}

/// The same of a node that is analysed already.
pub(crate) fn questions(inspection: &Inspection<'_>) -> ToVerify {
    let mut seen = BTreeSet::new();
    let cgroups = inspection.payload().cgroups.iter().zip(inspection.paths());
    let different = cgroups.filter(|(cgroup, path)| {
        let observed = inspection.cgroup(path);
        let has_processes = observed.is_some_and(|observed| !observed.pids.is_empty());
        let ids: Vec<u32> = cgroup.programs.iter().map(|program| program.id).collect();
        has_processes && seen.insert((ids, cgroup.policy.clone()))
    });
    let cgroups = different.map(|(_, path)| path.clone()).collect();
    ToVerify { cgroups, nodes: nodes(inspection) }
}

fn nodes(inspection: &Inspection<'_>) -> Vec<(String, u32, u32)> {
    let gates = inspection.gpus().iter().flat_map(|gpu| {
        let number = gpu.major.zip(gpu.minor);
        let gate = gpu.nodes.iter().find(|node| node.gate);
        gate.zip(number).map(|(node, (major, minor))| (node.path.clone(), major, minor))
    });
    let shared = inspection.shared_nodes().iter().filter(|node| node.needed && node.present);
    gates.chain(shared.map(|node| (node.path.clone(), node.major, node.minor))).collect()
}
