//! The manual's pages of these findings.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const OPEN_TO_ALL: Kind = Kind {
    id: "gpu-open-to-all",
    severity: Severity::Critical,
    title: "a GPU that every constrained job may open because no rule names it",
    page: "\
The programs of constrained jobs deny some GPUs, but no rule names this one: the instruction that allows every other \
device allows it too. Every job on the node can use it, whether or not it was allocated a GPU.

Causes: Slurm writes rules only for the devices of gres.conf, and its program allows everything else. A GPU that was \
added to the node, was left out of gres.conf, or got another minor is open to every job. Schedulers that deny devices \
one by one leave open what they do not know.

Excuses: the configuration shares the GPU (sharing.gpus) or gives whole nodes to jobs (sharing.whole_node). The \
finding needs a Slurm job that is denied another GPU, a job that was certainly not allocated this one, or two \
unrelated owners that may both open it. A job without any program is another finding.

What to do: list every GPU in gres.conf, also those that no partition offers, restart slurmd, and start new jobs. The \
programs of running jobs do not change.",
};

pub(super) const DOUBLE_GRANT: Kind = Kind {
    id: "double-grant",
    severity: Severity::Critical,
    title: "one GPU or MIG instance that two owners may open",
    page: "\
Two jobs, containers or machines that have nothing to do with each other may both open the same GPU, or both \
capabilities of the same MIG instance. They can disturb each other, and one may see what the other leaves in memory.

Causes: two managers that do not know of each other (Slurm and Docker, two slurmd); a device that is listed twice; \
minors that changed while jobs ran; a container that was started by hand with all GPUs.

Excuses: both share by shard or both by MPS (Slurm's variables in their environment, or an MPS daemon among their \
processes); they are parts of one job or pod, or one is inside the other; one has no processes left; the GPU has MIG \
and they open different instances; the configuration shares the GPU (sharing.gpus; needed for Kubernetes time slicing, \
which leaves no trace). Privileged containers, which may open every device, and jobs without a program were granted \
nothing and do not count. Neither does a GPU that no rule names (gpu-open-to-all), nor a capability that no rule \
names.

What to do: ask the scheduler to which owner it allocated the GPU, end or confine the other, and keep the GPUs of each \
manager apart.",
};

pub(super) const GRANT_WITHOUT_ALLOC: Kind = Kind {
    id: "grant-without-alloc",
    severity: Severity::Critical,
    title: "a job that may open a GPU it was not allocated",
    page: "\
Device rules are in force on the job, and they let it open a GPU that the scheduler did not allocate to it.

The allocation comes from the environment of Prolog or Epilog (--from-env) or from the caller (--allocated). Without \
them it is read from the environment of the job's processes, which the user can fake: then the finding is a warning, \
and its confidence is claimed. gres.conf says which GPUs Slurm's numbers mean; the evidence names assumptions.

Causes: another program replaced the job's; a container runtime grants GPUs by itself; minors changed.

Excuses: the allocation of that GPU is not known; the configuration shares the GPU (sharing.gpus) or gives whole nodes \
(sharing.whole_node). A GPU that is open to all or granted twice has a finding of its own, and so has a job without \
any program.

What to do: look at the deciding instruction (gpumap explain), and at who loaded the program and when.",
};

pub(super) const ALLOC_WITHOUT_GRANT: Kind = Kind {
    id: "alloc-without-grant",
    severity: Severity::Warning,
    title: "a job that may not open a GPU it was allocated",
    page: "\
The scheduler allocated a GPU to the job, but every cgroup of the job is denied it: programs of the job fail, or run \
without the GPU. Isolation holds.

Causes: systemctl daemon-reload, after which systemd adds its own, narrower program; an agent that takes devices away; \
a GPU whose minor changed or whose node is gone; a gres.conf whose numbers are not those of slurmd.

Excuses: the job's own cgroup may open the GPU, and only a step may not. If the allocation is read from the \
environment of the job's processes, confidence is claimed.

What to do: compare the rules in force (gpumap cgroup) with gres.conf, and start the job again once the rules are \
right.",
};
