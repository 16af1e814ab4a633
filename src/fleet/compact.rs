//! Makes the compact form of a node: `node --json --compact`, and what `fleet` keeps of an
//! observation.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::text::Mask;
use super::{owners, shapes};
use crate::model::{GpuKey, ProblemCode};
use crate::observation::{Observation, Problem};
use crate::report::{CompactGpu, CompactNode, CompactOwners, Gpu, GpuSet, NodeAnswer, OwnerSets};

/// Problems of each code that a compact document has in full.
const SHOWN: usize = 3;

/// The compact form of what [`crate::analyse::node()`] says about an observation.
pub fn compact(observation: &Observation, payload: &NodeAnswer) -> CompactNode {
    let gpus = &payload.gpus;
    let devices = Devices::of(gpus);
    let owners = payload.owners.as_deref().unwrap_or_default();
    let (kept, other_owners) = worth_keeping(owners);
    let mut columns = CompactOwners::default();
    kept.into_iter().for_each(|row| devices.add(&mut columns, row));
    CompactNode {
        gpus: gpus.iter().map(gpu).collect(),
        instances: devices.instances,
        owners: columns,
        other_owners,
        drivers: drivers(observation),
        gres_conf: observation.slurm.gres_conf.as_ref().map(|file| digest(file.text.as_bytes())),
        programs: shapes::of(payload),
        problems: counted(&observation.errors)
            .into_iter()
            .map(|(code, count)| (code.to_string(), count))
            .collect(),
    }
}

/// The first problems of each code.
pub fn first_problems(problems: &[Problem]) -> Vec<Problem> {
    let mut counts: BTreeMap<&ProblemCode, usize> = BTreeMap::new();
    let mut first = Vec::new();
    for problem in problems {
        let count = counts.entry(&problem.code).or_default();
        *count += 1;
        if *count <= SHOWN {
            first.push(problem.clone());
        }
    }
    first
}

fn counted(problems: &[Problem]) -> BTreeMap<&ProblemCode, usize> {
    problems.iter().fold(BTreeMap::new(), |mut counts, problem| {
        *counts.entry(&problem.code).or_default() += 1;
        counts
    })
}

/// The first 16 hex digits of the SHA-256 of a file.
pub(super) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn gpu(gpu: &Gpu) -> CompactGpu {
    CompactGpu {
        key: gpu.key.clone(),
        model: gpu.model.clone().unwrap_or_else(|| gpu.vendor.to_string()),
        minor: gpu.minor,
        nvml: gpu.nvml_index,
        slurm: gpu.slurm_index,
    }
}

/// Workloads with all that is inside of them, and others that hold a GPU or may; and
/// how many more there are.
fn worth_keeping(owners: &[OwnerSets]) -> (Vec<&OwnerSets>, usize) {
    let holds = |row: &OwnerSets| {
        row.held.gpus.as_ref().is_none_or(|gpus| !gpus.is_empty()) || !row.held.unknown.is_empty()
    };
    let groups = owners.chunk_by(|_, next| next.depth > 0);
    let (kept, left): (Vec<_>, Vec<_>) =
        groups.partition(|group| group.iter().any(|row| row.owner.is_workload() || holds(row)));
    (kept.into_iter().flatten().collect(), left.into_iter().map(<[_]>::len).sum())
}

/// Versions of drivers that the node's files name.
fn drivers(observation: &Observation) -> BTreeMap<String, String> {
    let nvidia = observation.gpu_facts.nvidia_release();
    let nvidia = nvidia.map(|release| ("nvidia".to_owned(), release.to_owned()));
    let settings = observation.setup.iter().flat_map(|setup| &setup.settings);
    let modules = settings.filter_map(|(path, text)| {
        let name = path.strip_prefix("/sys/module/")?.strip_suffix("/version")?;
        Some((name.to_owned(), text.known()?.trim().to_owned()))
    });
    modules.chain(nvidia).collect()
}

/// The positions of devices in masks.
#[derive(Debug)]
struct Devices<'a> {
    positions: BTreeMap<&'a str, usize>,
    instances: Vec<GpuKey>,
    count: usize,
}

impl<'a> Devices<'a> {
    fn of(gpus: &'a [Gpu]) -> Self {
        let positions = gpus.iter().enumerate().map(|(at, gpu)| (gpu.key.as_str(), at)).collect();
        let instances =
            gpus.iter().flat_map(|gpu| gpu.mig.iter().filter_map(move |mig| mig.compute_key(gpu)));
        Self { positions, instances: instances.collect(), count: gpus.len() }
    }

    fn position(&self, key: &str) -> Option<usize> {
        let instance = || self.instances.iter().position(|one| **one == *key).map(|at| self.count + at);
        self.positions.get(key).copied().or_else(instance)
    }

    fn all(&self, keys: &[GpuKey]) -> Vec<usize> {
        let mut found: Vec<usize> = keys.iter().filter_map(|key| self.position(key)).collect();
        found.sort_unstable();
        found
    }

    fn set(&self, set: &GpuSet) -> Option<String> {
        let certain = set.gpus.as_ref()?;
        let certain: Vec<GpuKey> = certain.iter().chain(&set.instances).cloned().collect();
        let claimed = set.source.is_some() && !set.is_trusted();
        Some(Mask { claimed, certain: self.all(&certain), maybe: self.all(&set.unknown) }.text())
    }

    fn add(&self, columns: &mut CompactOwners, row: &OwnerSets) {
        columns.owner.push(owners::label(&row.owner, row.depth));
        columns.depth.push(u8::try_from(row.depth).unwrap_or(u8::MAX));
        columns.processes.push(row.processes);
        columns.allocated.push(self.set(&row.allocated));
        columns.allowed.push(self.set(&row.allowed));
        columns.asked.push(self.set(&row.visible));
        columns.held.push(self.set(&row.held));
        let denied = Mask { certain: self.all(&row.held_denied), ..Mask::default() };
        columns.denied.push(Some(denied.text()).filter(|_| !row.held_denied.is_empty()));
    }
}
