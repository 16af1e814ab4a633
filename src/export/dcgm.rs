//! The job files of dcgm-exporter: which jobs each GPU belongs to.
//!
//! With `--hpc-job-mapping-dir` (`DCGM_HPC_JOB_MAPPING_DIR`) dcgm-exporter reads a file
//! for each GPU, named by DCGM's number of it, or for each GPU instance, named
//! `GPU.INSTANCE`; each line of it is a job id. DCGM's number is NVML's index.

use crate::model::GpuKey;
use std::collections::{BTreeMap, BTreeSet};

use super::owners::OwnerName;
use crate::report::{Gpu, GpuSet, NodeAnswer, OwnerSets};

/// Which jobs each file names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobMapping {
    /// The files by name, with the ids of their jobs: ASCII without spaces.
    pub files: BTreeMap<String, BTreeSet<String>>,
    /// Jobs of which it is not known which GPUs they have: they are in no file, or
    /// not in all of theirs.
    pub unknown: BTreeSet<String>,
}

impl JobMapping {
    /// The mapping of a node's answer.
    ///
    /// A job has the GPUs that the scheduler allocated to it, where a source tells
    /// that it cannot fake; else those that its rules allow, if they deny it any GPU
    /// of the node; else those that it holds. Only jobs with an id are named.
    #[must_use]
    pub fn of(payload: &NodeAnswer) -> Self {
        let gpus = &payload.gpus;
        let by_key: BTreeMap<&str, &Gpu> = gpus.iter().map(|gpu| (gpu.key.as_str(), gpu)).collect();
        let mut mapping = Self::default();
        for row in payload.owners.iter().flatten().filter(|row| row.depth == 0 && row.owner.kind.is_job()) {
            let Some(job) = OwnerName::of(&row.owner).job_file_id() else { continue };
            mapping.add(&job, row, &by_key);
        }
        mapping
    }

    fn add(&mut self, job: &str, row: &OwnerSets, gpus: &BTreeMap<&str, &Gpu>) {
        let set = deciding(row, gpus.len());
        let is_unknown = set.gpus.is_none() || !set.unknown.is_empty();
        let names: Option<Vec<String>> = files(set, gpus).into_iter().collect();
        if is_unknown || names.is_none() {
            self.unknown.insert(job.to_owned());
        }
        for name in files(set, gpus).into_iter().flatten() {
            self.files.entry(name).or_default().insert(job.to_owned());
        }
    }
}

/// The set that says which GPUs a job has.
fn deciding(row: &OwnerSets, all: usize) -> &GpuSet {
    if row.allocated.is_trusted() {
        return &row.allocated;
    }
    let allowed = &row.allowed;
    let is_everything = allowed.gpus.as_ref().is_some_and(|gpus| gpus.len() == all);
    if is_everything && allowed.instances.is_empty() { &row.held } else { allowed }
}

/// The names of the files of a set; `None` for a GPU that DCGM has no number for.
fn files(set: &GpuSet, gpus: &BTreeMap<&str, &Gpu>) -> Vec<Option<String>> {
    let index = |key: &str| gpus.get(key).and_then(|gpu| gpu.nvml_index);
    let instance = |key: &GpuKey| {
        let (gpu, gi) = key.gpu_instance()?;
        Some(format!("{}.{gi}", index(gpu)?))
    };
    let is_whole = |key: &&GpuKey| !set.instances.iter().any(|one| one.is_on(key));
    let whole = set.gpus.iter().flatten().filter(is_whole);
    whole
        .map(|key| index(key).map(|number| number.to_string()))
        .chain(set.instances.iter().map(instance))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AllocationSource, Owner, OwnerKind};

    fn set(gpus: &[&str]) -> GpuSet {
        GpuSet { gpus: Some(gpus.iter().map(|gpu| (*gpu).into()).collect()), ..GpuSet::default() }
    }

    fn job(number: u64, allowed: GpuSet, held: GpuSet) -> OwnerSets {
        let owner = Owner { kind: OwnerKind::Slurm, job_id: Some(number), ..Owner::default() };
        OwnerSets { owner, allowed, held, ..OwnerSets::default() }
    }

    fn mapping(owners: Vec<OwnerSets>) -> JobMapping {
        let gpu = |key: &str, nvml_index| Gpu { key: key.into(), nvml_index, ..Gpu::default() };
        let gpus = vec![gpu("a", Some(2)), gpu("b", Some(0)), gpu("c", None)];
        JobMapping::of(&NodeAnswer { owners: Some(owners), gpus, ..NodeAnswer::default() })
    }

    fn shown(mapping: &JobMapping) -> Vec<String> {
        let one = |(file, jobs): (&String, &BTreeSet<String>)| {
            format!("{file}: {}", jobs.iter().cloned().collect::<Vec<_>>().join(" "))
        };
        mapping.files.iter().map(one).collect()
    }

    /// Make sure that files have NVML's index, that shared GPUs name all their jobs,
    /// and that a GPU without an index is said to be missing.
    #[test]
    fn numbers() {
        let found = mapping(vec![
            job(7, set(&["a"]), set(&[])),
            job(8, set(&["a", "b"]), set(&["b"])),
            job(9, set(&["c"]), set(&[])),
        ]);
        assert_eq!(shown(&found), ["0: 8", "2: 7 8"]);
        assert_eq!(found.unknown.into_iter().collect::<Vec<_>>(), ["9"]);
    }

    /// Make sure that a job that may open everything has what it holds, that an
    /// allocation that nobody can fake goes first and a claimed one never does.
    #[test]
    fn which_set() {
        let free = || set(&["a", "b", "c"]);
        let with = |source| GpuSet { source: Some(source), ..set(&["b"]) };
        let claims = OwnerSets { allocated: with(AllocationSource::Claimed), ..job(7, free(), set(&["a"])) };
        let hook = OwnerSets { allocated: with(AllocationSource::Hook), ..job(8, free(), set(&["a"])) };
        assert_eq!(shown(&mapping(vec![claims, hook])), ["0: 8", "2: 7"]);
    }

    /// Make sure that GPU instances have files of their own and their GPU has none.
    #[test]
    fn instances() {
        let mut mig = set(&["a", "b"]);
        mig.instances = vec!["a/3/0".into(), "a/3/1".into()];
        assert_eq!(shown(&mapping(vec![job(7, mig, set(&[]))])), ["0: 7", "2.3: 7"]);
    }

    /// Make sure that what is not known is said, and names no file.
    #[test]
    fn unknown() {
        let unknown = GpuSet { unknown: vec!["b".into()], ..set(&["a"]) };
        let found = mapping(vec![job(7, GpuSet::default(), set(&["a"])), job(8, unknown, set(&[]))]);
        assert_eq!((shown(&found), found.unknown.len()), (vec!["2: 8".to_owned()], 2));
    }
}
