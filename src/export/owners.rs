//! Metrics of owners: how they are named in labels and which of them have samples of their
//! own, their four sets and the GPUs that they used, and their limits under HAMi-core and
//! SoftMig.

use std::collections::{BTreeMap, BTreeSet};

use super::metric::{
    ALLOCATED, ALLOWED, ASKED, GPU_UNKNOWN, HELD, HELD_DENIED, OWNER, OWNERS, OWNERS_LEFT_OUT, OWNERS_LIMIT,
    PROCESSES, SET_UNKNOWN, SHARES, USED, VGPU_MEMORY_LIMIT, VGPU_MEMORY_USED, VGPU_PROCESSES, VGPU_SM_LIMIT,
};
use super::metric::{Family, Metric, count, plain};
use crate::model::{GpuKey, InOrder as _, JobIdSource, Owner, OwnerKind};
use crate::report::{GpuSet, NodeAnswer, OwnerSets, Vgpu, VgpuDevice};

/// A set of an owner, as the label `set` names it. `None` where the owner has no such
/// set: services are allocated nothing.
type NamedSet = (&'static str, fn(&OwnerSets) -> Option<&GpuSet>);

const SETS: [NamedSet; 5] = [
    ("allocated", |row| row.owner.is_workload().then_some(&row.allocated)),
    ("allowed", |row| Some(&row.allowed)),
    ("asked", |row| Some(&row.visible)),
    ("held", |row| Some(&row.held)),
    ("used", |row| row.used.as_ref()),
];

pub(super) fn families(names: &OwnerNames<'_>) -> Vec<Family> {
    let number = |number: usize| count(number as u64);
    let processes = names
        .kept
        .iter()
        .map(|(name, rows)| (name.after([]), number(rows.iter().map(|row| row.processes).sum())));
    let shares =
        rows(names).flat_map(|(name, row)| row.shares.iter().map(move |mode| name.after([mode.to_string()])));
    let denied = rows(names)
        .flat_map(|(name, row)| row.held_denied.iter().map(move |gpu| name.after([gpu.to_string()])));
    vec![
        Family::one(OWNERS, number(names.kept.len() + names.left_out)),
        Family::one(OWNERS_LIMIT, number(names.limit)),
        Family::one(OWNERS_LEFT_OUT, number(names.left_out)),
        Family::ones(OWNER, names.kept.iter().map(|(name, rows)| whose(name, rows))),
        Family::of(PROCESSES, processes),
        Family::ones(SHARES, shares),
        allocated(names),
        members(ALLOWED, names, |row| Some(&row.allowed)),
        members(ASKED, names, |row| Some(&row.visible)),
        members(HELD, names, |row| Some(&row.held)),
        members(USED, names, |row| row.used.as_ref()),
        Family::ones(HELD_DENIED, denied),
        Family::ones(GPU_UNKNOWN, rows(names).flat_map(|(name, row)| unknown_gpus(name, row))),
        Family::ones(SET_UNKNOWN, rows(names).flat_map(|(name, row)| unknown_sets(name, row))),
    ]
}

/// Whose an owner is, after its name: one sample, so that a join by the name finds one.
fn whose(name: &OwnerName, rows: &[&OwnerSets]) -> Vec<String> {
    let users: BTreeSet<&str> = rows.iter().flat_map(|row| &row.users).map(String::as_str).collect();
    // A pod's name is NAMESPACE/NAME, where the node knows it.
    let pods = rows.iter().map(|row| outermost(&row.owner)).filter(|owner| owner.kind == OwnerKind::Pod);
    let pod = pods.filter_map(|owner| owner.name.as_deref()?.split_once('/')).next();
    let (namespace, pod) = pod.map(|(space, pod)| (space.to_owned(), pod.to_owned())).unwrap_or_default();
    let users = Vec::from_iter(users).join(",");
    name.after([]).into_iter().chain([users, namespace, pod]).collect()
}

fn rows<'n>(names: &'n OwnerNames<'_>) -> impl Iterator<Item = (&'n OwnerName, &'n OwnerSets)> {
    names.kept.iter().flat_map(|(name, rows)| rows.iter().map(move |row| (name, *row)))
}

/// The family of the GPUs in a set.
fn members(
    metric: &'static Metric,
    names: &OwnerNames<'_>,
    set: fn(&OwnerSets) -> Option<&GpuSet>,
) -> Family {
    let of = |(name, row): (&OwnerName, &OwnerSets)| {
        let devices = set(row).map(devices).unwrap_or_default();
        devices.into_iter().map(|device| name.after(device)).collect::<Vec<_>>()
    };
    Family::ones(metric, rows(names).flat_map(of))
}

/// The same for the allocation, which has a source.
fn allocated(names: &OwnerNames<'_>) -> Family {
    let of = |(name, row): (&OwnerName, &OwnerSets)| {
        let with_source =
            |[gpu, instance]: [String; 2]| name.after([gpu, instance, row.allocated.source_name()]);
        devices(&row.allocated).into_iter().map(with_source).collect::<Vec<_>>()
    };
    Family::ones(ALLOCATED, rows(names).flat_map(of))
}

/// The labels `UUID` and `GPU_I_ID` of what is certainly in a set: its GPU instances,
/// and the GPUs of which it has no instance but the whole. So counting samples counts
/// devices, and each has the labels that DCGM gives it.
fn devices(set: &GpuSet) -> Vec<[String; 2]> {
    let is_whole = |gpu: &&GpuKey| !set.instances.iter().any(|one| one.is_on(gpu));
    let whole = set.gpus.iter().flatten().filter(is_whole).map(|gpu| [gpu.to_string(), String::new()]);
    let instances = set.instances.iter().filter_map(GpuKey::gpu_instance);
    whole.chain(instances.map(|(gpu, gi)| [gpu.to_owned(), gi.to_string()])).collect()
}

fn unknown_gpus(name: &OwnerName, row: &OwnerSets) -> Vec<Vec<String>> {
    let of = |(set, pick): &NamedSet| {
        let gpus = pick(row).map(|set| set.unknown.clone()).unwrap_or_default();
        gpus.into_iter().map(|gpu| name.after([(*set).to_owned(), gpu.to_string()])).collect::<Vec<_>>()
    };
    SETS.iter().flat_map(of).collect()
}

fn unknown_sets(name: &OwnerName, row: &OwnerSets) -> Vec<Vec<String>> {
    let is_unknown = |(_, pick): &&NamedSet| pick(row).is_some_and(|set| set.gpus.is_none());
    SETS.iter().filter(is_unknown).map(|(set, _)| name.after([(*set).to_owned()])).collect()
}

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
            kept.order_by_key(|(_, rows)| rows.iter().map(|row| rank(row)).min());
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

/// Sums and smallest values by GPU and owner.
type ByGpu = BTreeMap<(GpuKey, OwnerName), u64>;

#[derive(Default)]
struct Limits {
    processes: BTreeMap<(String, String, OwnerName), u64>,
    memory_limit: ByGpu,
    memory_used: ByGpu,
    sm_limit: ByGpu,
}

pub(super) fn limit_families(payload: &NodeAnswer, names: &OwnerNames<'_>) -> Vec<Family> {
    let mut limits = Limits::default();
    for cgroup in payload.cgroups.iter() {
        let Some(name) = names.kept(&cgroup.owner.clone().unwrap_or_default()) else { continue };
        cgroup
            .processes
            .iter()
            .filter_map(|process| process.vgpu.as_ref())
            .for_each(|vgpu| limits.add(vgpu, &name));
    }
    let by_gpu = |values: ByGpu, scale: f64| {
        values
            .into_iter()
            .map(move |((gpu, name), value)| (name.after([gpu.to_string()]), count(value) / scale))
    };
    let processes = limits.processes.into_iter();
    vec![
        Family::of(
            VGPU_PROCESSES,
            processes.map(|((limit, state, name), number)| (name.after([limit, state]), count(number))),
        ),
        Family::of(VGPU_MEMORY_LIMIT, by_gpu(limits.memory_limit, 1.0)),
        Family::of(VGPU_MEMORY_USED, by_gpu(limits.memory_used, 1.0)),
        Family::of(VGPU_SM_LIMIT, by_gpu(limits.sm_limit, 100.0)),
    ]
}

impl Limits {
    fn add(&mut self, vgpu: &Vgpu, name: &OwnerName) {
        for (limit, verdict) in [("memory", &vgpu.memory), ("sm", &vgpu.sm)] {
            let key = (limit.to_owned(), verdict.in_force.to_string(), name.clone());
            *self.processes.entry(key).or_default() += 1;
        }
        vgpu.devices.iter().for_each(|device| self.device(device, name));
    }

    fn device(&mut self, device: &VgpuDevice, name: &OwnerName) {
        let Some(gpu) = &device.gpu else { return };
        let key = || (gpu.clone(), name.clone());
        let smallest = |values: &mut ByGpu, value: u64| {
            let kept = values.entry(key()).or_insert(value);
            *kept = value.min(*kept);
        };
        // 0 is no limit; of multiprocessors 100 percent is none either.
        if let Some(limit) = device.memory_limit.filter(|limit| *limit > 0) {
            smallest(&mut self.memory_limit, limit);
        }
        if let Some(limit) = device.sm_limit.filter(|limit| (1..100).contains(limit)) {
            smallest(&mut self.sm_limit, limit);
        }
        if let Some(used) = device.memory_used {
            let sum = self.memory_used.entry(key()).or_default();
            *sum = sum.saturating_add(used);
        }
    }
}
