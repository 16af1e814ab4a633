//! The manual's pages of these findings.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const NOT_IN_FORCE: Kind = Kind {
    id: "vgpu-not-in-force",
    severity: Severity::Critical,
    title: "a limit of libvgpu.so or SoftMig was meant and is not in force",
    page: "\
A process was meant to have a memory or SM limit on a GPU that it shares, and nothing holds it to that. It can take \
all of the GPU's memory, and other tenants' with it.

Causes: the program is static or made for musl, so that nothing is preloaded; it looks CUDA's functions up \
by itself; it was started before /etc/ld.so.preload was written; its environment was wiped (su -, env -i), so that the \
library made a region without limits; its entry in the region was moved by another process; it initialized NVML before \
CUDA with devices in another order; the library never found its pid on the node, which the SM limit takes.

Excuses: the process has no GPU open and no entry in a region. An SM limit that the region switches off: HAMi's \
monitor does so while a container has the GPU to itself.

What to do: gpumap vgpu --pid PID says which of these it is. End the process, and start it so that the library is in \
between.",
};

pub(super) const SLICE: Kind = Kind {
    id: "slice-without-limit",
    severity: Severity::Critical,
    title: "a Slurm job has a slice of a GPU without SoftMig's limit",
    page: "\
A job was given shards of a GPU, SoftMig is set up on the node, and no limit is in force for the job's process: it has \
the whole GPU.

Causes: SoftMig limits nothing where it finds no file /var/run/softmig/JOB.conf. Versions before May 2026 \
looked for JOB_TASK.conf alone in tasks of an array, and the prolog wrote JOB.conf. A file that is no regular file of \
root's is not taken, and neither is one that is seen from a user namespace (Apptainer).

Excuses: the job has no shards; the process has no GPU open.

What to do: let the prolog write the file for every job with shards, and fail where it cannot.",
};

pub(super) const STALE: Kind = Kind {
    id: "vgpu-stale-region",
    severity: Severity::Warning,
    title: "a region has other limits than its processes were meant to have",
    page: "\
The environment at exec, or SoftMig's file of the job, names one limit, and the shared region another. The region's is \
the one that counts.

Causes: HAMi-core writes limits when it makes the region, and never again. A region that outlives its \
container keeps the limits of the one before; a process can have another environment than the first. The process's \
own user can also write the region.

Excuses: no limit was meant, or the region has none (which is vgpu-not-in-force).

What to do: end the container's processes and remove the region.",
};

pub(super) const OVER: Kind = Kind {
    id: "vgpu-over-limit",
    severity: Severity::Warning,
    title: "a region counts more memory than its limit",
    page: "\
The processes of a region use more memory of a device than the region's limit, by the region's own count.

Causes: the limit was lowered while they ran; SoftMig goes by a cached number, so that bursts pass until the \
next allocation; contexts and modules count and are not refused.

Excuses: nothing.

What to do: gpumap vgpu shows who uses how much. New allocations are refused until the use is below the limit.",
};

pub(super) const SUM: Kind = Kind {
    id: "vgpu-oversubscribed",
    severity: Severity::Note,
    title: "memory limits on a GPU are together over its memory",
    page: "\
Each region on a GPU has a memory limit below the GPU's memory, and their sum is above it. Each tenant was promised \
memory that all of them together cannot have.

Causes: memory scaling in HAMi's device plugin (deviceMemoryScaling), or regions that outlived their \
containers.

Excuses: a GPU whose memory is not known from the name of its model; a limit that is not below it.

What to do: nothing where it is meant so; else lower the limits.",
};

pub(super) const MIXED: Kind = Kind {
    id: "vgpu-mixed-builds",
    severity: Severity::Warning,
    title: "different builds of libvgpu.so share a region",
    page: "\
Processes use one region with different files of the library, or two builds of different layouts have written to it. \
Depending on which two, limits are lost, new processes hang or crash, or all is well; nothing outside of the \
process says which build a file is.

Causes: the library is one file on the node, and an upgrade replaces it under containers that run.

Excuses: nothing.

What to do: end all processes of the container and remove the region.",
};

pub(super) const HOST_PID: Kind = Kind {
    id: "vgpu-foreign-pid",
    severity: Severity::Warning,
    title: "libvgpu.so takes another process for this one",
    page: "\
The entry of a process in its region names the pid of another process on the node. The library then compares the \
other's utilization with the SM limit: this process is held back for what the other does.

Causes: the library takes the first process that appears in NVML while its own context is made. Since March \
2026 nothing keeps two containers from doing that at the same moment.

Excuses: the entry has no pid on the node at all, as that of a program which only asks NVML.

What to do: start them one after the other.",
};

pub(super) const DEAD: Kind = Kind {
    id: "vgpu-dead-entries",
    severity: Severity::Note,
    title: "memory of processes that are gone counts as used",
    page: "\
A region counts memory for processes that are gone. The others get less than their limit.

Causes: a process that is killed leaves its entry; since March 2026 one that exits does too. The next process \
that registers, or an allocation at the limit, clears it.

Excuses: the entry counts no memory, or the node was not looked at as a whole and the entry may be somebody's.

What to do: nothing in most cases.",
};

pub(super) const WRITABLE: Kind = Kind {
    id: "vgpu-region-writable",
    severity: Severity::Warning,
    title: "every user can write a shared region",
    page: "\
A region outside of any container has permission to write for everybody. Limits, use and priority stand in it: every \
user of the node can change them, for others too.

Causes: HAMi-core makes the file with mode 0666 and sets the umask of the process to 0. In a container that \
concerns the container alone; on a node with users of its own it does not.

Excuses: the process is in a container or pod; the file was removed, so that nobody can open it any more.

What to do: keep the region where other users cannot reach it.",
};

pub(super) const PRELOAD: Kind = Kind {
    id: "vgpu-preload-missing",
    severity: Severity::Warning,
    title: "a loader is told to load a library that is not there",
    page: "\
/etc/ld.so.preload below the root of a process names libvgpu.so or libsoftmig.so, and there is no such file below that \
root. The loader says so on standard error and goes on without it: no limit is in force.

Causes: the file is mounted into a container and the library is not (Apptainer, a changed mount path), or an \
update of the library removed it for a moment.

Excuses: the process has the library loaded.

What to do: mount the library, or remove the line.",
};
