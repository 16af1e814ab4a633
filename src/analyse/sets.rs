//! The four sets of GPUs of one owner: allocated, allowed, asked for, held. Each has its
//! own source, and none is inferred from another.
//!
//! Owners may share a GPU on purpose, by MIG, MPS, shards or interception. Two owners that
//! may open one GPU are no fault then.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::gpu_verdicts::GpuVerdicts;
use crate::model::{GpuKey, InOrder as _, SharingMode, ValueState, Verdict};
use crate::observation::{self, Environment, UnseenProcesses};
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
                Verdict::Allow => set.instances.push(part.key(gpu)),
                Verdict::Unknown => set.unknown.push(part.key(gpu)),
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
    let may = |key: &GpuKey| allowed.gpus.iter().flatten().chain(&allowed.unknown).any(|open| open == key);
    let was_unknown = !set.unknown.is_empty();
    set.unknown.retain(may);
    // Whatever was not read names nothing that may be opened.
    if (was_unknown || gpus.is_empty()) && set.gpus.is_some() && set.unknown.is_empty() {
        set.why.clear();
    }
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
pub(super) fn held_denied(processes: &[&Process]) -> Vec<GpuKey> {
    let names: BTreeSet<&GpuKey> = processes.iter().flat_map(|process| &process.held_denied).collect();
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
    gpus: BTreeSet<GpuKey>,
    instances: BTreeSet<GpuKey>,
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

    fn add(&mut self, gpus: &[GpuKey], instances: &[GpuKey]) {
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

fn add(set: &mut GpuSet, key: GpuKey, verdict: Verdict) {
    match verdict {
        Verdict::Allow => set.gpus.get_or_insert_default().push(key),
        Verdict::Unknown => set.unknown.push(key),
        Verdict::Deny => {}
    }
}

fn tidy(set: &mut GpuSet) {
    set.why.order();
    set.why.dedup();
}

/// How an owner shares its GPUs: `mig`, `mps`, `shard`, `interception`.
pub(super) fn sharing(
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
