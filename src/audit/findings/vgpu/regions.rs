//! Shared regions: limits that are not those that were meant or that others can change, use
//! over the limit, and use of processes that are gone.

use std::collections::{BTreeMap, BTreeSet};

use super::faults::{About, report};
use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::audit::{finding, wording};
use crate::model::{Confidence, Severity};
use crate::observation::Observation;
use crate::report::{Finding, Gpu, Process, RegionProcess, Vgpu, VgpuDevice};
use crate::vgpu::{Survey, memory_of};

pub(super) const STALE: Kind = Kind {
    id: "vgpu-stale-region",
    severity: Severity::Warning,
    title: "a region has other limits than its processes were meant to have",
    page: "\
The environment at exec, or SoftMig's file of the job, names one limit, and the shared region another. The \
region's is the one that counts.

Causes: HAMi-core writes limits when it makes the region, and never again. A region that outlives its \
container keeps the limits of the one before; a process can have another environment than the first. The \
process's own user can also write the region.

Excuses: no limit was meant, or the region has none (which is vgpu-not-in-force).

What to do: end the container's processes and remove the region.",
};

pub(super) const WRITABLE: Kind = Kind {
    id: "vgpu-region-writable",
    severity: Severity::Warning,
    title: "every user can write a shared region",
    page: "\
A region outside of any container has permission to write for everybody. Limits, use and priority stand in \
it: every user of the node can change them, for others too.

Causes: HAMi-core makes the file with mode 0666 and sets the umask of the process to 0. In a container that \
concerns the container alone; on a node with users of its own it does not.

Excuses: the process is in a container or pod; the file was removed, so that nobody can open it any more.

What to do: keep the region where other users cannot reach it.",
};

pub(super) const SUM: Kind = Kind {
    id: "vgpu-oversubscribed",
    severity: Severity::Note,
    title: "memory limits on a GPU are together over its memory",
    page: "\
Each region on a GPU has a memory limit below the GPU's memory, and their sum is above it. Each tenant was \
promised memory that all of them together cannot have.

Causes: memory scaling in HAMi's device plugin (deviceMemoryScaling), or regions that outlived their \
containers.

Excuses: a GPU whose memory is not known from the name of its model; a limit that is not below it.

What to do: nothing where it is meant so; else lower the limits.",
};

pub(super) const OVER: Kind = Kind {
    id: "vgpu-over-limit",
    severity: Severity::Warning,
    title: "a region counts more memory than its limit",
    page: "\
The processes of a region use more memory of a device than the region's limit, by the region's own count.

Causes: the limit was lowered while they ran; SoftMig goes by a cached number, so that bursts pass until \
the next allocation; contexts and modules count and are not refused.

Excuses: nothing.

What to do: gpumap vgpu shows who uses how much. New allocations are refused until the use is below the \
limit.",
};

pub(super) const DEAD: Kind = Kind {
    id: "vgpu-dead-entries",
    severity: Severity::Note,
    title: "memory of processes that are gone counts as used",
    page: "\
A region counts memory for processes that are gone. The others get less than their limit.

Causes: a process that is killed leaves its entry; since March 2026 one that exits does too. The next \
process that registers, or an allocation at the limit, clears it.

Excuses: the entry counts no memory, or the node was not looked at as a whole and the entry may be \
somebody's.

What to do: nothing in most cases.",
};

const ABOUT_STALE: About = About {
    kind: &STALE,
    summary: "its region has other limits than it was meant to have",
    excuses: &["the environment at exec or the job's file names a limit, and the region another"],
    advice: "End the container's processes and remove the region: limits are written when it is made.",
};

const ABOUT_WRITABLE: About = About {
    kind: &WRITABLE,
    summary: "every user of the node can write its region, and so its limits",
    excuses: &["it is in no container: the file lies where all users of the node are"],
    advice: "Keep the region in a directory of the job's own (SLURM_TMPDIR, a private /tmp), with mode 0600.",
};

/// Permission to write for everybody.
const OTHERS_WRITE: u16 = 0o002;

pub(super) fn limits(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &ABOUT_STALE, stale);
    found.extend(report(facts, &ABOUT_WRITABLE, |process, limits| writable(facts, process, limits)));
    found.extend(facts.gpus().iter().filter_map(|gpu| sum(facts, gpu)));
    found
}

fn stale(_: &Process, limits: &Vgpu) -> Option<String> {
    limits.devices.iter().find_map(|device| {
        let memory = device.memory_meant.zip(device.memory_limit);
        let sm = device.sm_meant.zip(device.sm_limit);
        match (memory, sm) {
            (Some((meant, limit)), _) if meant > 0 && limit > 0 && meant != limit => {
                Some(format!("device {}: {meant} bytes were meant, the region has {limit}", device.device))
            }
            (_, Some((meant, limit)))
                if (1..100).contains(&meant) && (1..100).contains(&limit) && meant != limit =>
            {
                Some(format!(
                    "device {}: {meant} % of the SMs were meant, the region has {limit} %",
                    device.device
                ))
            }
            _ => None,
        }
    })
}

fn writable(facts: &Facts<'_>, process: &Process, limits: &Vgpu) -> Option<String> {
    let region = limits.region.as_ref()?;
    let cgroup = facts.place_of(process)?.cgroup;
    let mut around = std::iter::successors(cgroup.owner.as_ref(), |owner| owner.outer.as_deref());
    let is_inside = around.any(|owner| owner.kind.is_container());
    let is_open = region.mode? & OTHERS_WRITE != 0 && !region.deleted;
    (is_open && !is_inside).then(|| format!("{} has mode {:04o}", region.path, region.mode.unwrap_or(0)))
}

/// The memory limits of all regions on a GPU, if together they are over what it
/// has.
fn sum(facts: &Facts<'_>, gpu: &Gpu) -> Option<Finding> {
    let total = gpu.model.as_deref().and_then(memory_of)?;
    let mut by_region: BTreeMap<([u32; 2], u64), (u64, &Process)> = BTreeMap::new();
    for process in facts.processes() {
        let Some(limits) = process.vgpu.as_deref() else { continue };
        let Some(region) = &limits.region else { continue };
        let is_this = |device: &&VgpuDevice| device.gpu.as_ref() == Some(&gpu.key);
        let limit = limits.devices.iter().find(is_this).and_then(|device| device.memory_limit);
        if let Some(limit) = limit.filter(|limit| *limit > 0 && *limit < total) {
            by_region.entry((region.dev, region.inode)).or_insert((limit, process));
        }
    }
    let sum = by_region.values().map(|(limit, _)| *limit).fold(0, u64::saturating_add);
    if sum <= total || by_region.len() < 2 {
        return None;
    }
    let evidence =
        by_region.values().map(|(limit, process)| format!("process {}: {limit} bytes", process.pid));
    let name = wording::gpu(gpu);
    let summary =
        format!("the memory limits of {} regions on {name} are together over its memory", by_region.len());
    Some(Finding {
        devices: vec![finding::gpu(gpu)],
        processes: finding::processes(by_region.values().map(|(_, process)| *process)),
        evidence: wording::clauses(evidence.collect()),
        excuses: vec!["each limit by itself is below the GPU's memory".to_owned()],
        advice: "Lower the limits or the device plugin's memory scaling: whoever comes last is refused \
                 memory that \
                 its limit promises."
            .to_owned(),
        confidence: Confidence::Certain,
        ..finding::new(&SUM, summary)
    })
}

const ABOUT_OVER: About = About {
    kind: &OVER,
    summary: "its region counts more memory than the limit",
    excuses: &["the region's own count is compared with the region's own limit"],
    advice: "See gpumap vgpu -v: a limit that was lowered holds for what is asked for from now on, not for \
             what \
             is there.",
};

const ABOUT_DEAD: About = About {
    kind: &DEAD,
    summary: "memory of processes that are gone counts as used in its region",
    excuses: &["the whole node was looked at, and nobody has the pid of the entry"],
    advice: "Start a process in the container or let one ask for memory up to the limit: both clear such \
             entries; \
             or end all of its processes and remove the region.",
};

pub(super) fn entries(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &ABOUT_OVER, over);
    let survey = Survey::new(facts.observation());
    let observation = facts.observation();
    let is_whole = observation.scope.iter().any(|scope| scope.recursive && scope.path.as_bytes() == b"/");
    let users = Users::of(observation);
    found.extend(report(facts, &ABOUT_DEAD, |_, limits| dead(&survey, limits, is_whole, &users)));
    found
}

fn over(_: &Process, limits: &Vgpu) -> Option<String> {
    limits.devices.iter().find_map(|device| {
        let (limit, counted) = device.memory_limit.zip(device.memory_counted)?;
        (limit > 0 && counted > limit)
            .then(|| format!("device {}: {counted} bytes are counted, the limit is {limit}", device.device))
    })
}

/// The processes of the node.
struct Users {
    /// Their pids on the node.
    pids: BTreeSet<u32>,
    /// The regions that they map, each with the pid in their own namespace.
    inside: BTreeSet<([u32; 2], u64, u32)>,
}

impl Users {
    fn of(observation: &Observation) -> Self {
        let pids = observation.processes.iter().map(|process| process.pid).collect();
        let details = observation.processes.iter().filter_map(|process| process.detail.as_ref());
        let inside = details.filter_map(|detail| detail.vgpu.as_ref()).flat_map(|traces| {
            let own = traces.pids.last().copied().unwrap_or(0);
            traces.regions.iter().map(move |region| (region.dev, region.inode, own))
        });
        Self { pids, inside: inside.collect() }
    }
}

/// An entry that is counted and whose process is gone.
fn dead(survey: &Survey, limits: &Vgpu, is_whole: bool, users: &Users) -> Option<String> {
    let file = limits.region.as_ref().filter(|_| limits.entry.is_some())?;
    let region = survey.region(file.dev, file.inode)?.ok()?;
    let used =
        |entry: &RegionProcess| entry.devices.iter().map(|device| device.total).fold(0, u64::saturating_add);
    let is_gone = |entry: &&RegionProcess| {
        let host = u32::try_from(entry.hostpid).unwrap_or(0);
        let ended = entry.pid == 0 && entry.status == 0;
        let here = (file.dev, file.inode, u32::try_from(entry.pid).unwrap_or(0));
        ended || is_whole && host != 0 && !users.pids.contains(&host) && !users.inside.contains(&here)
    };
    let entries = region.procs.iter().flatten().filter(|entry| entry.in_range && used(entry) > 0);
    let gone: Vec<&RegionProcess> = entries.filter(is_gone).collect();
    let bytes = gone.iter().map(|entry| used(entry)).fold(0, u64::saturating_add);
    (!gone.is_empty()).then(|| format!("{} of the entries in {} hold {bytes} bytes", gone.len(), file.path))
}
