//! The manual's pages of these findings.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const HELD_NOT_ALLOWED: Kind = Kind {
    id: "held-not-allowed",
    severity: Severity::Critical,
    title: "a process that holds a GPU its present rules deny",
    page: "\
A process has a GPU's node open or mapped, and the rules of its cgroup allow no way of opening that number.

The kernel asks device programs when a device is opened, and never again. An open descriptor stays when the process \
moves to another cgroup, executes another program, forks, or passes it on.

Causes: the process opened the GPU before it was moved here, or before the program was attached; another process \
passed it the descriptor; the rule changed later. Only a later rule is certainly harmless, if the GPU belonged to the \
process before.

Excuses: a daemon that may hold any GPU (see held-by-foreign). The finding is a warning if no other job or container \
is known to have the GPU. Without the right to read the process's descriptors there is no finding.

What to do: compare the load time of the program that denies with the start of the process, and end the process if it \
must not use the GPU.",
};

pub(super) const PROCESS_OUTSIDE_JOB: Kind = Kind {
    id: "process-outside-job",
    severity: Severity::Warning,
    title: "a process of a job outside of the job's cgroup",
    page: "\
The environment of a process names a Slurm job (SLURM_JOB_ID), but the process is in no job's cgroup: no rule of the \
job applies to it, it is not accounted, and it stays when the job ends. If it holds a GPU the finding is critical.

Causes: ssh sessions that pam_slurm_adopt did not adopt, or that pam_systemd moved away again; containers that a \
daemon (Docker) started for the job; user services; daemons that left the cgroup.

Excuses: slurmd, slurmstepd and sshd of root with their hooks; jobs of other schedulers. Users can write any \
environment, so confidence is never certain: it is likely if the job has processes of the same user here, else \
claimed. A process that names a job which is not on this node is reported only if it holds a GPU, because a shell of \
salloc is such a process.

In a container that runs a Slurm of its own an environment names a job of that Slurm, and is compared with the names \
of cgroups inside the container.

What to do: put pam_slurm_adopt last in the account stack and remove pam_systemd from it, start containers inside of \
the job, and end what a finished job left (gpumap leftovers).",
};

pub(super) const HELD_BY_FOREIGN: Kind = Kind {
    id: "held-by-foreign",
    severity: Severity::Critical,
    title: "a process of no job that holds a GPU which is a job's",
    page: "\
A process has a GPU open that was allocated to another owner, or that another owner's rules grant. The process is \
outside of every job, pod, container and machine, or in a container of an ordinary user that nothing confines.

Causes: logins on a node that nothing confines; services; containers of engines that cannot confine (rootless).

Excuses, in directories of the system: nvidia-persistenced, nv-hostengine, dcgm-exporter, nv-fabricmanager and \
nvidia-imex in system.slice, as root or in their own unit; nvidia-smi of root; MPS daemons of root or of a user who \
has a job or container here; display servers in user.slice or system.slice, as root or without nvidia-uvm; slurmd and \
slurmstepd in their own cgroups; what the configuration names as a [[daemon]] by executable, uid and cgroup; GPUs that \
the configuration shares. A command name alone excuses nothing. With MIG only a process with an instance of the other \
owner counts. A GPU that no rule names is reported as gpu-open-to-all.

What to do: end the process, or move its work into a job; if it belongs there, name it in the configuration.",
};

pub(super) const HELD_BY_OTHER_JOB: Kind = Kind {
    id: "held-by-other-job",
    severity: Severity::Critical,
    title: "a process of one job that holds a GPU of another",
    page: "\
A process of a job, pod or container without device rules has a GPU open that was allocated to another owner, and not \
to its own: two jobs compete for one GPU, and each sees the other's memory use and errors. Where device rules are in \
force, double-grant and held-not-allowed say what is wrong.

Causes: CUDA_VISIBLE_DEVICES was changed or unset in the job, and the site does not constrain devices \
(ConstrainDevices=no); a program that numbers GPUs by itself.

Excuses: a GPU, or all of the node, that the configuration shares (sharing.gpus); jobs that share by shard, MPS or \
libvgpu.so; owners of one job or pod; the driver's daemons, display servers and monitoring. An owner of which it is not \
known what was allocated to it is left out. With MIG only an instance of the other counts.

What to do: end the process or have it use its own GPUs, and let the scheduler constrain devices.",
};

pub(super) const JOB_CLAIM_MISMATCH: Kind = Kind {
    id: "job-claim-mismatch",
    severity: Severity::Note,
    title: "a process whose environment names another job than its cgroup",
    page: "\
SLURM_JOB_ID (or SLURM_JOB_SLUID) in the environment of a process is not the job whose cgroup the process is in. Only \
the cgroup decides about access and accounting; tools that trust the environment count the process for the wrong job.

Causes: variables that were inherited (srun inside a login to another job, a server that one job started and the next \
one uses), and users who set them. It is a warning if the job it names is on this node.

Excuses: a component of a heterogeneous job, which names its leader; a job whose number is known from the environment \
alone.

What to do: nothing, isolation holds.",
};
