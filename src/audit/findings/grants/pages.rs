//! The manual's pages of these findings.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const OPEN_TO_ALL: Kind = Kind {
    id: "gpu-open-to-all",
    severity: Severity::Critical,
    title: "a GPU that every constrained job may open because no rule names it",
    page: "\
The programs of constrained jobs deny some GPUs, but let this one through by the instruction that lets through every device nobody \
names. Every job on the node can use it, whether or not it was allocated a GPU.

Slurm writes rules for the devices of gres.conf alone, and its program allows everything else. A GPU that was added to the node, or \
left out of gres.conf, or that got another minor, is open to every job. Schedulers that hide devices one by one leave open what they \
do not know.

It fires for a Slurm job that is denied another GPU; for any job that was certainly not allocated this one; and elsewhere when two \
unrelated owners may both open it. It is excused where the configuration shares the GPU (sharing.gpus) or gives whole nodes to jobs \
(sharing.whole_node). A job without any program is another finding.

List every GPU in gres.conf, also those no partition offers, restart slurmd, and start new jobs: the programs of running jobs stay as \
they are.",
};

pub(super) const DOUBLE_GRANT: Kind = Kind {
    id: "double-grant",
    severity: Severity::Critical,
    title: "one GPU or MIG instance that two owners may open",
    page: "\
Two jobs, containers or machines that have nothing to do with each other may both open the same GPU, or both capabilities of the same \
MIG instance. They can disturb each other, and one may see what the other leaves in memory.

It comes about by two managers that do not know of each other (Slurm and Docker, two slurmd), by a device that is listed twice, by \
minors that changed while jobs ran, and by a container started by hand with all GPUs.

It is excused if both share by shard or both by MPS (Slurm's variables in their environment, or an MPS daemon among their processes), \
if they are parts of one job or pod or one is inside the other, if one has no processes left, if the GPU has MIG and they open \
different instances, and where the configuration says so (sharing.gpus; needed for Kubernetes time slicing, which leaves no trace). \
Privileged containers, which may open every device there is, and jobs without a program were granted nothing and do not count; nor \
does a GPU that no rule names (gpu-open-to-all), nor a capability that no rule names.

Ask the scheduler whose GPU it is, end or confine the other, and keep the GPUs of each manager apart.",
};

pub(super) const GRANT_WITHOUT_ALLOC: Kind = Kind {
    id: "grant-without-alloc",
    severity: Severity::Critical,
    title: "a job that may open a GPU it was not allocated",
    page: "\
Device rules are in force on the job, and they let it open a GPU that the scheduler did not allocate to it.

The allocation is told by the environment of Prolog or Epilog (--from-env) or by the caller (--allocated). Without them it is read off \
the environment of the job's processes, which the user can fake: the finding is a warning then, and its confidence is claimed. What \
Slurm's numbers mean is told by gres.conf; assumptions stand in the evidence.

It comes about by a program that another one replaced, by a container runtime that grants what it likes, and by minors that changed. \
It is excused where the allocation of that GPU is not known, and where the configuration shares the GPU (sharing.gpus) or gives whole \
nodes (sharing.whole_node). A GPU that is open to all or granted twice is reported as that alone; a job without any program is another \
finding.

Look at the deciding instruction (gpumap explain), and at who loaded the program and when.",
};

pub(super) const ALLOC_WITHOUT_GRANT: Kind = Kind {
    id: "alloc-without-grant",
    severity: Severity::Warning,
    title: "a job that may not open a GPU it was allocated",
    page: "\
The scheduler allocated a GPU to the job, and every cgroup of the job is denied it: what the job starts there fails, or runs without \
it. Isolation holds.

It comes about by systemctl daemon-reload, after which systemd adds its own, narrower program; by an agent that narrows; by a GPU whose \
minor changed or whose node is gone; and by a gres.conf whose numbers are not those of slurmd.

A step that has less than its job is no finding: the job's own cgroup counts too. Where the allocation is read off the environment of \
the job's processes, confidence is claimed.

Compare the rules in force (gpumap cgroup) with gres.conf, and start the job again on healthy rules.",
};
