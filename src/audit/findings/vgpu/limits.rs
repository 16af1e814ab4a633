//! Limits that were meant for a process and do not hold, or are missing.

use super::faults::{About, report};
use crate::audit::facts::Facts;
use crate::audit::kind::Kind;
use crate::model::{InForce, LimitCode, OwnerKind, Severity};
use crate::observation::{Answer, Preload, VgpuTraces};
use crate::report::{Finding, LimitVerdict, Process, Vgpu};

pub(super) const NOT_IN_FORCE: Kind = Kind {
    id: "vgpu-not-in-force",
    severity: Severity::Critical,
    title: "a limit of libvgpu.so or SoftMig was meant and is not in force",
    page: "\
A process was meant to have a memory or SM limit on a GPU that it shares, and nothing holds it to that. It \
can take all of the GPU's memory, and other tenants' with it.

Causes: the program is static or made for musl, so that nothing is preloaded; it looks CUDA's functions up \
by itself; it was started before /etc/ld.so.preload was written; its environment was wiped (su -, env -i), \
so that the library made a region without limits; its entry in the region was moved by another process; it \
initialized NVML before CUDA with devices in another order; the library never found its pid on the node, \
which the SM limit takes.

Excuses: the process has no GPU open and no entry in a region. An SM limit that the region switches off: \
HAMi's monitor does so while a container has the GPU to itself.

What to do: gpumap vgpu --pid PID says which of these it is. End the process, and start it so that the \
library is in between.",
};

pub(super) const MIXED: Kind = Kind {
    id: "vgpu-mixed-builds",
    severity: Severity::Warning,
    title: "different builds of libvgpu.so share a region",
    page: "\
Processes use one region with different files of the library, or two builds of different layouts have \
written to it. Depending on which two, limits are lost, new processes hang or crash, or all is well; \
nothing outside of the process says which build a file is.

Causes: the library is one file on the node, and an upgrade replaces it under containers that run.

Excuses: nothing.

What to do: end all processes of the container and remove the region.",
};

pub(super) const HOST_PID: Kind = Kind {
    id: "vgpu-foreign-pid",
    severity: Severity::Warning,
    title: "libvgpu.so takes another process for this one",
    page: "\
The entry of a process in its region names the pid of another process on the node. The library then \
compares the other's utilization with the SM limit: this process is held back for what the other does.

Causes: the library takes the first process that appears in NVML while its own context is made. Since March \
2026 nothing keeps two containers from doing that at the same moment.

Excuses: the entry has no pid on the node at all, as that of a program which only asks NVML.

What to do: start them one after the other.",
};

pub(super) const SLICE: Kind = Kind {
    id: "slice-without-limit",
    severity: Severity::Critical,
    title: "a Slurm job has a slice of a GPU without SoftMig's limit",
    page: "\
A job was given shards of a GPU, SoftMig is set up on the node, and no limit is in force for the job's \
process: it has the whole GPU.

Causes: SoftMig limits nothing where it finds no file /var/run/softmig/JOB.conf. Versions before May 2026 \
looked for JOB_TASK.conf alone in tasks of an array, and the prolog wrote JOB.conf. A file that is no \
regular file of root's is not taken, and neither is one that is seen from a user namespace (Apptainer).

Excuses: the job has no shards; the process has no GPU open.

What to do: let the prolog write the file for every job with shards, and fail where it cannot.",
};

pub(super) const PRELOAD: Kind = Kind {
    id: "vgpu-preload-missing",
    severity: Severity::Warning,
    title: "a loader is told to load a library that is not there",
    page: "\
/etc/ld.so.preload below the root of a process names libvgpu.so or libsoftmig.so, and there is no such file \
below that root. The loader says so on standard error and goes on without it: no limit is in force.

Causes: the file is mounted into a container and the library is not (Apptainer, a changed mount path), or \
an update of the library removed it for a moment.

Excuses: the process has the library loaded.

What to do: mount the library, or remove the line.",
};

const ABOUT_NOT_IN_FORCE: About = About {
    kind: &NOT_IN_FORCE,
    summary: "a limit was meant and is not in force",
    excuses: &[
        "it has a GPU open, or the library has it in a region: what uses no GPU needs no limit",
        "it is not HAMi's own monitor that has switched the SM limit off",
    ],
    advice: "End the process and see why: gpumap vgpu --pid PID says it in one sentence for each limit.",
};

const ABOUT_MIXED: About = About {
    kind: &MIXED,
    summary: "builds of libvgpu.so that do not understand each other share a region",
    excuses: &["the region or the mapped files of the library show it: no version was guessed"],
    advice: "End all processes of the container and remove the region: they make it anew with the new \
             library.",
};

const ABOUT_HOST_PID: About = About {
    kind: &HOST_PID,
    summary: "the library takes another process for it",
    excuses: &["the entry names a pid on the node, and it is not the one that this process has there"],
    advice: "Start the processes of a GPU's containers one after the other, or use a build that serialises \
             them.",
};

pub(super) fn not_held(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &ABOUT_NOT_IN_FORCE, not_in_force);
    found.extend(report(facts, &ABOUT_MIXED, mixed));
    found.extend(report(facts, &ABOUT_HOST_PID, host_pid));
    found
}

fn not_in_force(_: &Process, limits: &Vgpu) -> Option<String> {
    if !limits.may_use_gpu() {
        return None;
    }
    let fails = |verdict: &LimitVerdict| {
        let others = [LimitCode::NoLimit, LimitCode::LimitHigher, LimitCode::SwitchedOff];
        verdict.in_force == InForce::No && !others.contains(&verdict.code)
    };
    limits.devices.iter().find_map(|device| {
        let memory = device.memory_meant.is_some_and(|meant| meant > 0) && fails(&device.memory);
        let sm = device.sm_meant.is_some_and(|meant| (1..100).contains(&meant)) && fails(&device.sm);
        match (memory, sm) {
            (true, true) if device.memory == device.sm => {
                Some(format!("memory and SM: {}", device.memory.why))
            }
            (true, _) => Some(format!("memory: {}", device.memory.why)),
            (false, true) => Some(format!("SM: {}", device.sm.why)),
            (false, false) => None,
        }
    })
}

fn mixed(_: &Process, limits: &Vgpu) -> Option<String> {
    let is_mixed = matches!(limits.memory.code, LimitCode::MixedRegion | LimitCode::MixedLibraries);
    is_mixed.then(|| limits.memory.why.clone())
}

fn host_pid(_: &Process, limits: &Vgpu) -> Option<String> {
    let device = limits.devices.iter().find(|device| device.sm.code == LimitCode::HostPidOfAnother)?;
    Some(device.sm.why.clone())
}

const ABOUT_SLICE: About = About {
    kind: &SLICE,
    summary: "a slice of a GPU without a limit",
    excuses: &[
        "its job was given shards, no whole GPU",
        "SoftMig is set up here: its library is loaded, or the loader is told to load it",
    ],
    advice: "See that the prolog writes /var/run/softmig/JOB.conf for every job with shards, for each task \
             of an \
             array and of a requeued job too, as a regular file of root's; hold such jobs until it does.",
};

const ABOUT_PRELOAD: About = About {
    kind: &PRELOAD,
    summary: "its loader is told to load a library that is not there",
    excuses: &["the path was looked up below the process's own root"],
    advice: "Mount the library at the path that /etc/ld.so.preload names, or take the line out of that file.",
};

pub(super) fn missing(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = report(facts, &ABOUT_SLICE, |process, limits| slice(facts, process, limits));
    found.extend(report(facts, &ABOUT_PRELOAD, |process, limits| preload(facts, process, limits)));
    found
}

fn traces<'a>(facts: &Facts<'a>, process: &Process) -> Option<&'a VgpuTraces> {
    facts.observed(process)?.detail.as_ref()?.vgpu.as_deref()
}

fn slice(facts: &Facts<'_>, process: &Process, limits: &Vgpu) -> Option<String> {
    let observed = facts.observed(process)?;
    let environment = observed.detail.as_ref()?.at_exec.known()?;
    let is_slice = environment.get("SLURM_SHARDS_ON_NODE").is_some();
    let owners = facts.place_of(process)?.cgroup.owner.as_ref();
    let is_job = owners.is_some_and(|owner| owner.kind == OwnerKind::Slurm);
    let has_none = matches!(limits.memory.code, LimitCode::NoJobFile | LimitCode::JobFileRefused)
        || limits.memory.code == LimitCode::NoLimit;
    (is_slice && is_job && has_none && limits.may_use_gpu()).then(|| limits.memory.why.clone())
}

fn preload(facts: &Facts<'_>, process: &Process, limits: &Vgpu) -> Option<String> {
    let Answer::Known(Some(Preload { missing, .. })) = &traces(facts, process)?.preload else { return None };
    let path = missing.first().filter(|_| limits.library.is_none())?;
    Some(format!("/etc/ld.so.preload names {}, which is not there", path.lossy()))
}
