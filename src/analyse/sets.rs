//! The four sets of GPUs of one owner: allocated (as a Slurm hook, the caller or the
//! environment says), allowed, asked for, held; and owners that share a GPU on purpose.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::error::AnalyseError;
use super::gpu_verdicts::{GpuVerdicts, instance};
use super::joined_node::JoinedNode;
use super::leftovers::job_id;
use super::owners::{is_job, is_step, is_task};
use crate::allocation::{Numbering, Of, caller_list, of_claim, of_hook};
use crate::model::{Owner, SharingMode, ValueState, Verdict};
use crate::observation::{self, Environment, Observation, UnseenProcesses};
use crate::report::{Asked, Gpu, GpuSet, OwnerSets, Process};

/// The GPUs that at least one of these views allows.
pub(super) fn allowed(views: &[Rc<GpuVerdicts>], gpus: &[Gpu]) -> GpuSet {
    let any = |of: &dyn Fn(&GpuVerdicts) -> Option<Verdict>| -> Verdict {
        let verdicts: Vec<Verdict> = views.iter().filter_map(|view| of(view)).collect();
        let has = |verdict| verdicts.contains(&verdict);
        if has(Verdict::Allow) {
            Verdict::Allow
        } else if has(Verdict::Unknown) {
            Verdict::Unknown
        } else {
            Verdict::Deny
        }
    };
    let mut set = GpuSet { gpus: Some(Vec::new()), ..GpuSet::default() };
    for (index, gpu) in gpus.iter().enumerate() {
        let verdict = any(&|view| Some(view.reach.gpus.get(index)?.verdict));
        add(&mut set, gpu.key.clone(), verdict);
        if verdict == Verdict::Unknown {
            set.why.extend(views.iter().filter_map(|view| view.verdicts.get(index)?.why.clone()));
        }
        for (number, part) in gpu.mig.iter().enumerate() {
            let of = |view: &GpuVerdicts| view.reach.gpus.get(index)?.instances.get(number).copied();
            match any(&of) {
                Verdict::Allow => set.instances.push(instance(gpu, part)),
                Verdict::Unknown => set.unknown.push(instance(gpu, part)),
                Verdict::Deny => {}
            }
        }
    }
    tidy(&mut set);
    set
}

/// The GPUs that these processes ask for now. The environment at exec does not tell,
/// because a program may have set another value since. GPUs that they may not open
/// are never among them.
pub(super) fn visible(
    processes: &[&Process],
    unseen: Option<&UnseenProcesses>,
    allowed: &GpuSet,
    gpus: &[Gpu],
) -> GpuSet {
    let mut union = Union::with(unseen);
    for process in processes {
        if process.kernel_thread || process.has_ended() {
            union.add(&[], &[]);
            continue;
        }
        match process.visible.as_ref().map(|visible| &visible.live) {
            Some(asked) => match &asked.gpus {
                Some(found) => {
                    union.add(found, &asked.instances);
                    union.empty.extend(nothing(asked));
                }
                None => union.miss(&unread(asked)),
            },
            None => union.unseen += 1,
        }
    }
    let mut set = union.finish(gpus);
    let may = |key: &String| allowed.gpus.iter().flatten().chain(&allowed.unknown).any(|open| open == key);
    set.unknown.retain(may);
    set
}

/// Why what a process asks for is not known.
fn unread(asked: &Asked) -> String {
    let why = asked.why.as_deref().unwrap_or("what a process asks for is not known");
    match asked.state {
        ValueState::Unknown => format!("what it asks for now could not be read: {why}"),
        _ => why.to_owned(),
    }
}

/// Why a process gets nothing although it may open something.
fn nothing(asked: &Asked) -> Option<String> {
    let cut = asked.cut.as_ref().map(|cut| &cut.why);
    cut.or(asked.why.as_ref()).filter(|_| asked.gpus.as_ref().is_some_and(Vec::is_empty)).cloned()
}

/// The GPUs that these processes hold although their rules deny it now.
pub(super) fn held_denied(processes: &[&Process]) -> Vec<String> {
    let names: BTreeSet<&String> = processes.iter().flat_map(|process| &process.held_denied).collect();
    names.into_iter().cloned().collect()
}

/// The GPUs that these processes have open.
pub(super) fn held(processes: &[&Process], unseen: Option<&UnseenProcesses>, gpus: &[Gpu]) -> GpuSet {
    let mut union = Union::with(unseen);
    for process in processes {
        match (&process.held, &process.held_unknown) {
            (Some(found), why) => {
                union.add(found, &process.held_instances);
                union.missing.extend(why.clone());
            }
            (None, Some(why)) => union.miss(why),
            (None, None) => union.unseen += 1,
        }
    }
    union.finish(gpus)
}

/// The union of several processes' sets.
#[derive(Default)]
struct Union {
    gpus: BTreeSet<String>,
    instances: BTreeSet<String>,
    missing: BTreeSet<String>,
    /// Why processes get nothing.
    empty: BTreeSet<String>,
    seen: usize,
    /// Processes without details: they were not looked into, or an older gpumap did
    /// not say that they are kernel threads.
    unseen: usize,
}

impl Union {
    /// Nothing yet but what nobody can see.
    fn with(unseen: Option<&UnseenProcesses>) -> Self {
        let mut union = Self::default();
        if let Some(unseen) = unseen {
            union.miss(&format!("{} cannot be seen: {}", unseen.counted(), unseen.why));
        }
        union
    }

    fn add(&mut self, gpus: &[String], instances: &[String]) {
        self.seen += 1;
        self.gpus.extend(gpus.iter().cloned());
        self.instances.extend(instances.iter().cloned());
    }

    fn miss(&mut self, why: &str) {
        self.seen += 1;
        self.missing.insert(why.to_owned());
    }

    fn finish(self, gpus: &[Gpu]) -> GpuSet {
        if self.seen == 0 && self.unseen > 0 {
            return unlooked();
        }
        let keys = || gpus.iter().map(|gpu| gpu.key.clone());
        let is_certain = self.missing.is_empty();
        GpuSet {
            gpus: Some(keys().filter(|key| self.gpus.contains(key)).collect()),
            instances: self.instances.into_iter().collect(),
            unknown: keys().filter(|key| !is_certain && !self.gpus.contains(key)).collect(),
            why: if self.gpus.is_empty() && is_certain { self.empty } else { self.missing }
                .into_iter()
                .collect(),
            source: None,
        }
    }
}

fn unlooked() -> GpuSet {
    GpuSet { why: vec!["nobody looked into its processes".to_owned()], ..GpuSet::default() }
}

fn add(set: &mut GpuSet, key: String, verdict: Verdict) {
    match verdict {
        Verdict::Allow => set.gpus.get_or_insert_default().push(key),
        Verdict::Unknown => set.unknown.push(key),
        Verdict::Deny => {}
    }
}

fn tidy(set: &mut GpuSet) {
    set.why.sort();
    set.why.dedup();
}

/// The allocation that the caller names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallerAllocation {
    /// `--allocated`: a list of GPUs.
    pub list: Option<String>,
}

/// The sources of an allocation besides processes: the caller and a hook.
#[derive(Debug, Default)]
pub(super) struct KnownAllocation<'a> {
    /// `--allocated`, resolved; it is the one job's that was asked about.
    pub(super) given: Option<GpuSet>,
    /// The environment of the hook that gpumap runs in.
    pub(super) hook: Option<&'a Environment>,
}

/// The source of the allocation, if it is better than claims of processes.
pub(super) fn source<'a>(
    observation: &'a Observation,
    granted: &CallerAllocation,
    numbering: &Numbering,
    join: &JoinedNode<'_>,
) -> Result<KnownAllocation<'a>, AnalyseError> {
    let list = granted.list.as_deref();
    let given = list.map(|list| caller_list(list, numbering, &join.gpus)).transpose();
    Ok(KnownAllocation {
        given: given.map_err(AnalyseError::Allocated)?,
        hook: observation.slurm.hook.as_ref(),
    })
}

/// The GPUs that were allocated to an owner with these processes.
pub(super) fn allocated_of(
    owner: &Owner,
    processes: &[&observation::Process],
    join: &JoinedNode<'_>,
    numbering: &Numbering,
    source: &KnownAllocation<'_>,
) -> GpuSet {
    let mut set = told(owner, processes, join, numbering, source);
    if set.gpus.is_some() {
        set.why.extend(numbering.assumes().map(str::to_owned));
    }
    set
}

fn told(
    owner: &Owner,
    processes: &[&observation::Process],
    join: &JoinedNode<'_>,
    numbering: &Numbering,
    source: &KnownAllocation<'_>,
) -> GpuSet {
    if is_job(owner) {
        if let Some(given) = &source.given {
            return given.clone();
        }
        let hook = source.hook.filter(|hook| is_of(hook, owner));
        if let Some(set) = hook.and_then(|hook| of_hook(hook, numbering, &join.gpus)) {
            return set;
        }
        claimed(owner, processes, Of::Job, join, numbering)
    } else if is_step(owner) {
        claimed(owner, processes, of_step(owner), join, numbering)
    } else if is_task(owner) {
        unknown("Slurm tells the GPUs of a job and of a step, not those of a task")
    } else {
        unknown("no scheduler that gpumap can ask allocates to it")
    }
}

/// Whether a hook's environment is about this job.
fn is_of(hook: &Environment, owner: &Owner) -> bool {
    let sluid = hook.get("SLURM_JOB_SLUID").map(|variable| variable.value.lossy().into_owned());
    let same_sluid = sluid.is_some() && sluid == owner.sluid;
    same_sluid || (owner.job_id.is_some() && job_id(hook) == owner.job_id)
}

/// Where the environment of a step names the step's GPUs: the batch script and
/// salloc's interactive step have the job's own variable and no other.
fn of_step(owner: &Owner) -> Of {
    match owner.step.as_deref() {
        Some("batch" | "interactive") => Of::FirstStep,
        _ => Of::Step,
    }
}

/// Whether the environment belongs to a component of a heterogeneous job. It names
/// the leader's job, but the GPUs of its step are its own.
fn is_component(environment: &Environment, owner: &Owner) -> bool {
    let step = environment.get("SLURM_STEP_ID").map(|variable| variable.value.lossy().into_owned());
    is_step(owner) && environment.get("SLURM_HET_SIZE").is_some() && step.is_some() && step == owner.step
}

/// The allocation that the processes claim for their own job, if they agree.
fn claimed(
    owner: &Owner,
    processes: &[&observation::Process],
    of: Of,
    join: &JoinedNode<'_>,
    numbering: &Numbering,
) -> GpuSet {
    let environments = processes.iter().filter_map(|process| process.detail.as_ref()?.at_exec.known());
    let own =
        environments.filter(|environment| is_of(environment, owner) || is_component(environment, owner));
    let mut claims: Vec<GpuSet> =
        own.filter_map(|environment| of_claim(environment, of, numbering, &join.gpus)).collect();
    claims.dedup();
    match claims.as_slice() {
        [] => unknown("nothing says what was allocated"),
        [one] => one.clone(),
        _ => unknown("its processes name different GPUs as allocated"),
    }
}

fn unknown(why: &str) -> GpuSet {
    GpuSet { why: vec![why.to_owned()], ..GpuSet::default() }
}

/// How an owner shares its GPUs: `mig`, `mps`, `shard`, `interception`.
pub(super) fn shares_of(
    sets: &OwnerSets,
    processes: &[&observation::Process],
    gpus: &[Gpu],
) -> Vec<SharingMode> {
    let says = |name: &str| environments(processes).any(|environment| environment.get(name).is_some());
    let all = [
        (SharingMode::Mig, uses_instances(sets, gpus)),
        (
            SharingMode::Mps,
            says("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE") || processes.iter().any(|one| is_mps(one)),
        ),
        (SharingMode::Shard, says("SLURM_SHARDS_ON_NODE")),
        (SharingMode::Interception, processes.iter().any(|one| is_intercepted(one))),
    ];
    all.into_iter().filter(|(_, shares)| *shares).map(|(mode, _)| mode).collect()
}

fn environments<'a>(processes: &[&'a observation::Process]) -> impl Iterator<Item = &'a Environment> {
    let details = processes.iter().filter_map(|process| process.detail.as_ref());
    details.filter_map(|detail| detail.at_exec.known())
}

/// Whether it may open some of the instances of a GPU and not all of them, or
/// was allocated or holds instances.
fn uses_instances(sets: &OwnerSets, gpus: &[Gpu]) -> bool {
    let total: usize = gpus.iter().map(|gpu| gpu.mig.len()).sum();
    let allowed = sets.allowed.instances.len();
    let named = [&sets.allocated, &sets.visible, &sets.held];
    (allowed > 0 && allowed < total) || named.iter().any(|set| !set.instances.is_empty())
}

/// Whether it has root's library of HAMi-core or SoftMig loaded, which is put
/// between processes that share a GPU and the driver.
fn is_intercepted(process: &observation::Process) -> bool {
    let traces = process.detail.as_ref().and_then(|detail| detail.vgpu.as_ref());
    let mut libraries = traces.into_iter().flat_map(|traces| &traces.libraries);
    libraries.any(|library| {
        let is_roots = library.file.known().is_some_and(|file| file.uid == 0 && file.mode & 0o002 == 0);
        library.executable && is_roots
    })
}

/// `nvidia-cuda-mps-server` owns the context of all its clients. A command name has
/// 15 characters.
fn is_mps(process: &observation::Process) -> bool {
    process.comm.as_bytes() == b"nvidia-cuda-mps"
}
