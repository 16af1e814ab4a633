//! The manual's pages of these findings.

use crate::audit::kind::Kind;
use crate::model::Severity;

pub(super) const HELD_NOT_ALLOWED: Kind = Kind {
    id: "held-not-allowed",
    severity: Severity::Critical,
    title: "a process that holds a GPU its present rules deny",
    page: "\
A process has a GPU's node open or mapped, and no way of opening that number is allowed where the process is now.

The kernel asks device programs when a device is opened, and never again: a descriptor survives a move to another cgroup, a new \
program, fork and being passed on. So the process opened the GPU before it was moved here or before the program was attached, was \
handed the descriptor by another process, or the rule changed later. Only the last is harmless for sure if the GPU was its own before.

It is a warning where no other job or container is known to have the GPU. It is excused for daemons that may hold any GPU (see \
held-by-foreign). Where the process's descriptors could not be read, nothing is said.

Compare the load time of the program that denies with the start of the process, and end the process if it must not use the GPU.",
};

pub(super) const PROCESS_OUTSIDE_JOB: Kind = Kind {
    id: "process-outside-job",
    severity: Severity::Warning,
    title: "a process of a job outside of the job's cgroup",
    page: "\
A process's environment names a Slurm job (SLURM_JOB_ID), and the process is in no job's cgroup: no rule of the job binds it, it is \
not accounted, and it stays when the job ends. If it holds a GPU the finding is critical.

It comes about by ssh sessions that pam_slurm_adopt did not adopt, or that pam_systemd moved away again; by containers that a daemon \
(Docker) started for the job; by user services and by daemons that got away.

The environment is the user's to write, so confidence is never certain: likely if the job has processes of the same user here, else \
claimed. Excused are slurmd, slurmstepd and sshd of root with their hooks, and jobs of other schedulers. A process that names a job \
which is not on this node is reported only if it holds a GPU: a shell of salloc is such a process.

Put pam_slurm_adopt last in the account stack and take pam_systemd out of it, start containers inside of the job, and end what a \
finished job left (gpumap leftovers).",
};

pub(super) const HELD_BY_FOREIGN: Kind = Kind {
    id: "held-by-foreign",
    severity: Severity::Critical,
    title: "a process of no job that holds a GPU which is a job's",
    page: "\
A process outside of every job, pod, container and machine, or in a container of an ordinary user that nothing confines, has a GPU \
open that was allocated to another, or that another's rules grant to it.

It comes about by logins on a node that nothing confines, by services, and by containers of engines that cannot confine (rootless).

Excused are, in directories of the system: nvidia-persistenced, nv-hostengine, dcgm-exporter, nv-fabricmanager and nvidia-imex in \
system.slice, as root or in their own unit; nvidia-smi of root; MPS daemons of root or of a user who has a job or container here; \
display servers in user.slice or system.slice, as root or without nvidia-uvm; slurmd and slurmstepd in their own cgroups; what the \
configuration names as a [[daemon]] by executable, uid and cgroup; and GPUs that the configuration shares. A command name excuses \
nothing. With MIG only a process with an instance of the other counts. A GPU that no rule names is reported as gpu-open-to-all.

End the process, or move its work into a job; name it in the configuration if it belongs there.",
};

pub(super) const JOB_CLAIM_MISMATCH: Kind = Kind {
    id: "job-claim-mismatch",
    severity: Severity::Note,
    title: "a process whose environment names another job than its cgroup",
    page: "\
SLURM_JOB_ID (or SLURM_JOB_SLUID) in the process's environment is not the job whose cgroup the process is in. The cgroup is what \
counts for access and accounting; tools that trust the environment count the process for the wrong job.

It comes about by variables carried along (srun inside a login to another job, a server started by one job and found by the next), and \
by users who set them. It is a warning if the job it names is on this node.

Components of a heterogeneous job name their leader and are excused, as is a job whose number is known from the environment alone.

Nothing needs to be done for isolation.",
};
