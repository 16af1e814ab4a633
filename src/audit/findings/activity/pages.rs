//! The kinds of findings about what is done with GPUs, with their manual pages.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const FOREIGN: Kind = Kind {
    id: "foreign-gpu-used",
    severity: Severity::Critical,
    title: "a process works on a GPU that is not its job's",
    page: "\
A process handed work to a GPU which its job was not allocated, or which its rules deny by now. Others suspect this from what a \
job could open; here the driver itself told the process the UUID of the device that its context is on, and calls on it were \
counted.

Causes: rules that let the job open more than it was allocated, and a CUDA_VISIBLE_DEVICES that was changed; a GPU \
opened before the rules were in force; a number of one order taken for one of another.

Excuses: an allocation that is not known; a GPU of which only the process's variables or the device that it has open \
tell; GPUs that the configuration shares (sharing.gpus, sharing.whole_node); GPUs with MIG, of which the instance counts.

What to do: find out with gpumap explain why the job may open the GPU; end the process if the GPU is somebody else's. The \
confidence is `claimed` where the job's own environment alone tells the allocation.",
};

pub(super) const TWO: Kind = Kind {
    id: "gpu-used-by-two",
    severity: Severity::Critical,
    title: "two owners work on one exclusive GPU",
    page: "\
Processes of two jobs, containers or pods handed work to the same GPU within the last ten minutes. Each is slower by the other, and \
one can take all the memory.

Causes: a double grant; a process that left its job; two schedulers on one node.

Excuses: both share GPUs by shard or both by MPS; they are one job's or one pod's, or one is inside the other; GPUs \
with MIG; a GPU that the configuration shares (sharing.gpus).

What to do: find out whose it is (scontrol show job -d, kubectl describe node), and end or confine the other.",
};

pub(super) const DEAD: Kind = Kind {
    id: "gpu-error-sticky",
    severity: Severity::Warning,
    title: "a process cannot use its GPU any more after an error",
    page: "\
A call of a process returned an error after which every further call of this process fails, as the header of CUDA or HIP says: \
an illegal address, a failed launch, an assertion, an uncorrectable memory error. The process may go on for hours without doing \
anything.

Causes: a fault of the program (codes 700 to 721), or of the hardware (214, an uncorrectable ECC error; 220, of \
NVLink; 226, an error that was contained).

Excuses: the process has ended, or calls of its user found no room in the kernel's tables. Errors that leave it usable, such as 2 (no memory left), are no finding. Errors that \
launches return are seen in a sample; those that waits return are all seen.

What to do: end the process, which frees the GPU; look into the kernel's log for Xid messages where the code is one of the \
hardware.",
};

pub(super) const IDLE: Kind = Kind {
    id: "gpu-idle",
    severity: Severity::Note,
    title: "a GPU is held and nothing is done with it",
    page: "\
A job, container or pod holds a GPU, and no call that hands work to it was counted for three hours (idle_hours in the section \
[activity] of the configuration): no launch, no copy, no fill.

Causes: an interactive session that was left open; a program that waits for data; a \
process that died on its GPU (see gpu-error-sticky).

Excuses: calls are counted for less than that long, or not for the whole node; one of the processes that hold the GPU is \
younger, or its calls are not counted; a call whose GPU is not known; a thread that waits in a call (see gpu-hang); calls of the \
owner's user that found no room in the kernel's tables.

What to do: ask the user, or end the job. A program that uses the GPU without the driver's library (see gpumap-activity(1)) is \
not seen: the confidence is `likely`.",
};

pub(super) const HANG: Kind = Kind {
    id: "gpu-hang",
    severity: Severity::Note,
    title: "a process waits for a GPU in one call for a long time",
    page: "\
A thread of a process has been in one call that waits for the GPU for an hour (hang_minutes in the section [activity] of the \
configuration): a synchronisation, or a copy that waits. No other thread of the process called the driver in that time. A process \
that waits is not idle (gpu-idle): its thread may use a whole CPU meanwhile.

Causes: a collective operation of which one rank is gone (NCCL); a kernel that does not end; a GPU that has fallen off the bus; \
a debugger.

Excuses: another thread makes calls; the process has ended; calls of its user found no room in the kernel's tables, so \
that some may be missing. A call that was entered before counting began is not seen.

What to do: look at the other ranks and at the kernel's log for Xid messages. A kernel may take hours on purpose: the \
confidence is `likely`.",
};

pub(super) const UNUSED: Kind = Kind {
    id: "gpus-unused",
    severity: Severity::Note,
    title: "a job was allocated more GPUs than it uses",
    page: "\
The processes of a job handed work to some of its GPUs for more than ten minutes, and to others of them none at all: it asks for \
four and uses one.

Causes: a program for one GPU in a job for several; a CUDA_VISIBLE_DEVICES that hides some; ranks that all take \
device 0.

Excuses: an allocation that is not known; a GPU that a use of which the device is not known may be on; processes whose \
calls are not counted, or found no room in the kernel's tables; calls that are counted for less than ten minutes.

What to do: tell the user. What processes did that have ended is not in it, so a job that uses its GPUs one after the other is \
found too: the confidence is `likely`.",
};
