//! Judges the processes of an observation: what each was meant to have, what
//! its region says, and whether that is in force.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use super::layout::DEVICES;
use super::limits::{Meant, of_environment};
use super::memory::OneDevice;
use super::order::{First, Order};
use super::registered::{Case, Registered, verdict};
use super::{memory, region, registered, sm};
use crate::model::{GpuKey, InForce, LimitCode, MeantBy, Time};
use crate::observation::{Answer, Detail, FileFacts, MappedFile, Observation, Process, Text, VgpuTraces};
use crate::report::{LimitVerdict, Region, Vgpu, VgpuDevice, VgpuFile};

/// Which file it is.
type FileId = ([u32; 2], u64);

/// The regions of an observation, each read once, and who uses them.
#[derive(Debug, Default)]
pub struct Survey {
    regions: HashMap<FileId, Result<Region, String>>,
    /// Libraries with which processes use each region.
    libraries: HashMap<FileId, BTreeSet<FileId>>,
    /// The first process of each cgroup whose environment names limits.
    examples: BTreeMap<Text, (u32, u64, super::Limits)>,
}

/// The key of a GPU, and its memory in bytes where that is known.
pub type KnownGpu = (GpuKey, Option<u64>);

/// Where a process is, and what its GPUs are.
#[derive(Clone, Copy)]
pub struct ProcessContext<'a> {
    /// Whether its cgroup is that of a job of Slurm.
    pub in_slurm_job: bool,
    /// Whether its cgroup is that of a container or pod.
    pub in_container: bool,
    /// Whether it has a GPU open; `None` where that is not known.
    pub uses_gpu: Option<bool>,
    /// A GPU of the node by its UUID.
    pub gpu_of: &'a dyn Fn(&str) -> Option<KnownGpu>,
}

impl std::fmt::Debug for ProcessContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessContext").field("uses_gpu", &self.uses_gpu).finish_non_exhaustive()
    }
}

impl Survey {
    /// Reads the regions of an observation.
    pub fn new(observation: &Observation) -> Self {
        let mut survey = Self::default();
        for shared in &observation.regions {
            let region = match &shared.contents {
                Answer::Missing(why) => Err(why.clone()),
                Answer::Known(bytes) => match bytes.whole().or_else(|| bytes.beginning(4096)) {
                    Some(read) => Ok(Region { file_size: bytes.size, ..region::read(&read) }),
                    None => Err("what was saved of it is damaged".to_owned()),
                },
            };
            survey.regions.insert((shared.dev, shared.inode), region);
        }
        for process in &observation.processes {
            survey.add(process);
        }
        survey
    }

    fn add(&mut self, process: &Process) {
        let Some(detail) = &process.detail else { return };
        let environment = detail.at_exec.known();
        if let Some(limits) = environment.and_then(of_environment).filter(super::Limits::are_any) {
            let first = self.examples.entry(process.cgroup.clone());
            let new = (process.pid, process.start_time, limits);
            let first = first.or_insert_with(|| new.clone());
            if new.1 < first.1 {
                *first = new;
            }
        }
        for region in detail.vgpu.iter().flat_map(|traces| &traces.regions) {
            let loaded = detail.vgpu.iter().flat_map(|traces| &traces.libraries);
            // Who maps a region beside a file of his own makes no second build of it.
            let is_build = |library: &&MappedFile| {
                library.executable && library.file.known().is_some_and(FileFacts::is_of_root_alone)
            };
            let loaded = loaded.filter(is_build).map(file_id);
            self.libraries.entry(file_id(region)).or_default().extend(loaded);
        }
    }

    /// The region that is this file, or why it is not known.
    pub fn region(&self, dev: [u32; 2], inode: u64) -> Option<Result<&Region, &str>> {
        self.regions.get(&(dev, inode)).map(|region| region.as_ref().map_err(String::as_str))
    }

    /// What the libraries do for a process; `None` for one that has nothing to
    /// do with them.
    pub fn of(&self, process: &Process, place: ProcessContext<'_>) -> Option<Vgpu> {
        let detail = process.detail.as_ref()?;
        let Some(traces) = detail.vgpu.as_deref() else { return unread(detail, place) };
        let at_exec = detail.at_exec.known();
        let says_job = at_exec.is_some_and(|environment| environment.get("SLURM_JOB_ID").is_some());
        let meant = self.meant(process, traces, place);
        let regions: Vec<Result<&Region, String>> =
            traces.regions.iter().map(|mapped| self.mapped(mapped)).collect();
        let differ = traces
            .regions
            .iter()
            .any(|region| self.libraries.get(&file_id(region)).is_some_and(|libraries| libraries.len() > 1));
        let case = Case {
            uid: process.uid,
            at_exec,
            live: detail.live.known(),
            traces,
            meant: &meant,
            is_in_job: place.in_slurm_job || says_job,
            regions: &regions,
            libraries_differ: differ,
        };
        let is_concerned =
            !traces.libraries.is_empty() || meant.by != MeantBy::Nobody || is_preloaded(traces);
        is_concerned.then(|| answer(&case, place))
    }

    /// A region that a process maps.
    fn mapped(&self, mapped: &MappedFile) -> Result<&Region, String> {
        if let Answer::Missing(why) = &mapped.file {
            return Err(why.clone());
        }
        match self.regions.get(&file_id(mapped)) {
            Some(region) => region.as_ref().map_err(Clone::clone),
            None => Err("it was not read".to_owned()),
        }
    }

    /// Its own limits, or those of its container's first process where its own
    /// environment is not known or names none or higher ones: who has a container can
    /// start programs with any environment.
    fn meant(&self, process: &Process, traces: &VgpuTraces, place: ProcessContext<'_>) -> Meant {
        let at_exec = process.detail.as_ref().and_then(|detail| detail.at_exec.known());
        let own = Meant::of(traces, at_exec, place.in_slurm_job);
        let Some((pid, _, limits)) = self.examples.get(&process.cgroup).filter(|_| place.in_container) else {
            return own;
        };
        let least = own.limits.as_ref().map_or_else(|| limits.clone(), |own| own.at_most(limits));
        if own.by == MeantBy::JobFile || own.limits.as_ref() == Some(&least) {
            return own;
        }
        let place = Some(format!("process {pid}"));
        Meant { limits: Some(least), by: MeantBy::Container, place, ..own }
    }
}

fn file_id(file: &MappedFile) -> FileId {
    (file.dev, file.inode)
}

fn is_preloaded(traces: &VgpuTraces) -> bool {
    traces.preload.known().is_some_and(Option::is_some)
}

/// A process that uses a GPU and could not be looked into.
fn unread(detail: &Detail, place: ProcessContext<'_>) -> Option<Vgpu> {
    let why = detail.at_exec.missing().filter(|_| place.uses_gpu == Some(true))?;
    let unread = verdict(InForce::Unknown, LimitCode::Unread, why);
    Some(Vgpu { memory: unread.clone(), sm: unread, uses_gpu: place.uses_gpu, ..Vgpu::default() })
}

fn answer(case: &Case<'_>, place: ProcessContext<'_>) -> Vgpu {
    let mut answer = Vgpu {
        uses_gpu: place.uses_gpu,
        meant_by: case.meant.by,
        meant_in: case.meant.place.clone(),
        library: case.traces.libraries.iter().find(|library| library.executable).map(file),
        inner_pid: case.traces.pids.last().copied(),
        ..Vgpu::default()
    };
    match registered::check(case) {
        Ok(registered) => fill(&mut answer, case, &registered, place),
        Err(verdict) => without_entry(&mut answer, case, &verdict),
    }
    answer.memory = least(answer.devices.iter().map(|device| &device.memory));
    answer.sm = least(answer.devices.iter().map(|device| &device.sm));
    answer
}

/// The answer for a process whose entry is known.
fn fill(answer: &mut Vgpu, case: &Case<'_>, registered: &Registered<'_>, place: ProcessContext<'_>) {
    let region = registered.region;
    describe(answer, case, region);
    answer.entry = Some(registered.entry.index);
    answer.host_pid = Some(registered.entry.hostpid);
    answer.suspended = Some(registered.entry.status == 2);
    let order = case.variable("CUDA_VISIBLE_DEVICES").map(|value| Order::of(value, region));
    let count = order.as_ref().map_or(1, |order| order.count(region)).min(DEVICES);
    for device in 0..count {
        let nvml = order.as_ref().ok().and_then(|order| order.nvml(device));
        let uuid = nvml.and_then(|nvml| uuid(region, nvml));
        let booked = booked(registered, &order, device);
        let total = uuid.and_then(place.gpu_of).and_then(|(_, memory)| memory);
        let meant = |all: fn(&super::Limits) -> &[u64; DEVICES]| {
            case.meant.limits.as_ref().and_then(|limits| all(limits).get(device).copied())
        };
        let (memory_meant, sm_meant) = (meant(|limits| &limits.memory), meant(|limits| &limits.sm));
        let asked = OneDevice { order: &order, device, meant: memory_meant, total };
        answer.devices.push(VgpuDevice {
            device,
            uuid: uuid.map(str::to_owned),
            gpu: uuid.and_then(place.gpu_of).map(|(key, _)| key),
            memory_meant,
            memory_limit: at(region.limit.as_deref(), device),
            memory_used: booked.map(|booked| used(region, booked, Some(registered.entry.index))),
            memory_counted: booked.map(|booked| used(region, booked, None)),
            sm_meant,
            sm_limit: at(region.sm_limit.as_deref(), device),
            memory: memory::judge(case, registered, asked),
            sm: sm::judge(case, registered, device, sm_meant),
        });
    }
    if count == 0 {
        let none = verdict(InForce::No, LimitCode::NoLimit, "CUDA_VISIBLE_DEVICES leaves it no device");
        answer.devices.push(VgpuDevice { memory: none.clone(), sm: none, ..VgpuDevice::default() });
    }
}

/// The answer for a process without an entry in a region.
fn without_entry(answer: &mut Vgpu, case: &Case<'_>, verdict: &LimitVerdict) {
    if let [Ok(region)] = case.regions {
        describe(answer, case, region);
    } else {
        answer.region = case.traces.regions.first().map(file);
    }
    let limits = case.meant.limits.as_ref();
    let meant = |all: &[u64; DEVICES]| all.first().copied();
    answer.devices.push(VgpuDevice {
        memory_meant: limits.and_then(|limits| meant(&limits.memory)),
        sm_meant: limits.and_then(|limits| meant(&limits.sm)),
        memory: verdict.clone(),
        sm: verdict.clone(),
        ..VgpuDevice::default()
    });
}

/// What the region says of all its processes.
fn describe(answer: &mut Vgpu, case: &Case<'_>, region: &Region) {
    let is_this =
        |place: &usize| matches!(case.regions.get(*place), Some(Ok(one)) if std::ptr::eq(*one, region));
    let place = (0..case.regions.len()).find(is_this);
    answer.region = place.and_then(|place| case.traces.regions.get(place)).map(file);
    answer.layout = Some(region.layout);
    answer.region_processes =
        region.procs.as_ref().map(|all| all.iter().filter(|entry| entry.in_range).count());
    answer.priority = region.priority;
    answer.blocked = region.recent_kernel.map(|recent| recent == -1);
    let at = region.last_kernel_time.filter(|at| *at > 0).and_then(|at| i64::try_from(at).ok());
    answer.last_launch = at.and_then(|at| Timestamp::from_second(at).ok()).map(Time::from);
}

/// The number under which the use of a device is booked; `None` where that is
/// not known.
fn booked(registered: &Registered<'_>, order: &Result<Order, LimitVerdict>, device: usize) -> Option<usize> {
    // The builds of 2024 book use under CUDA's number, whatever was first.
    if registered.region.layout.has_no_version() {
        return Some(device);
    }
    let order = order.as_ref().ok()?;
    match (order, order.first(registered)) {
        (Order::Same, _) | (Order::Other(_), First::Cuda) => Some(device),
        (Order::Other(_), First::Nvml) => order.booked_nvml_first(device),
        (Order::Other(_), First::Unknown) => {
            order.booked_nvml_first(device).filter(|number| *number == device)
        }
        (Order::Unknown, _) => None,
    }
}

fn at(all: Option<&[u64]>, device: usize) -> Option<u64> {
    all.and_then(|all| all.get(device).copied())
}

fn uuid(region: &Region, device: usize) -> Option<&str> {
    let uuid = region.uuids.as_ref()?.get(device)?;
    (!uuid.is_empty()).then_some(uuid.as_str())
}

/// Memory that the region counts on a device: of one entry, or of all.
fn used(region: &Region, device: usize, only: Option<usize>) -> u64 {
    let entries = region.procs.iter().flatten().filter(|entry| entry.in_range);
    let entries = entries.filter(|entry| only.is_none_or(|only| entry.index == only));
    let devices = entries.flat_map(|entry| &entry.devices).filter(|one| one.device == device);
    devices.map(|one| one.total).fold(0, u64::saturating_add)
}

fn file(mapped: &MappedFile) -> VgpuFile {
    let facts = mapped.file.known();
    VgpuFile {
        path: mapped.path.lossy().into_owned(),
        path_hex: mapped.path.hex(),
        dev: mapped.dev,
        inode: mapped.inode,
        deleted: mapped.deleted,
        uid: facts.map(|facts| facts.uid),
        mode: facts.map(|facts| facts.mode),
    }
}

/// The worst of the verdicts on all devices. A device without a limit counts only
/// where no device has one.
fn least<'a>(all: impl Iterator<Item = &'a LimitVerdict> + Clone) -> LimitVerdict {
    let rank = |verdict: &&LimitVerdict| match verdict.in_force {
        InForce::No => 0,
        InForce::Partly => 1,
        InForce::Unknown => 2,
        InForce::Yes => 3,
    };
    let limited = all.clone().filter(|verdict| verdict.code != LimitCode::NoLimit);
    limited.min_by_key(rank).or_else(|| all.clone().next()).cloned().unwrap_or_default()
}
