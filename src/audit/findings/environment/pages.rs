//! The kinds of these findings: their pages in the manual, what to do, and what
//! was ruled out.

use crate::audit::kind::Kind;
use crate::model::Severity;

/// A kind of finding about environments, with what each of its findings says.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnvironmentKind {
    /// Its id, severity and page.
    pub(super) kind: Kind,
    /// What to do, in short.
    pub(super) advice: &'static str,
    /// What was checked and ruled out.
    pub(super) excuse: &'static str,
}

const LEAVE_IT_TO_THE_SCHEDULER: &str =
    "Leave the variable to the scheduler: ordinals count from 0 among the GPUs that the job may open.";
const HAS_A_GPU: &str = "the process may open a GPU, and the value does not only hide all of them";

/// The reason why a finding is `likely` and not certain.
pub(super) const MODELLED: &str =
    "no document settles it: independent models of the driver agree on it, or it rests on an assumption";

pub(super) const OUT_OF_RANGE: EnvironmentKind = EnvironmentKind {
    kind: Kind {
    id: "env-out-of-range",
    severity: Severity::Note,
    title: "a list of visible devices with an ordinal that does not exist here",
    page: "\
An ordinal in CUDA_VISIBLE_DEVICES (or its kin) is as large as the number of GPUs that the process may open, or larger. The list ends \
there without a word: the process sees fewer GPUs, or none. Isolation holds.

Inside a device cgroup ordinals count from 0 among the GPUs that may be opened. A list copied from the node's numbers, from another \
job or from Slurm's IDX does not fit.

Excused are -1 and words, which hide all GPUs on purpose, and processes that may open no GPU at all, to whom the value means nothing.

Let the scheduler set the variable, or use UUIDs.",
},
    advice: LEAVE_IT_TO_THE_SCHEDULER,
    excuse: HAS_A_GPU,
};

pub(super) const FOREIGN_UUID: EnvironmentKind = EnvironmentKind {
    kind: Kind {
    id: "env-foreign-uuid",
    severity: Severity::Warning,
    title: "a list of visible devices that names a GPU which is not there for it",
    page: "\
A UUID in CUDA_VISIBLE_DEVICES names a GPU that the rules deny, or that this node does not have. The list ends there: the process sees \
fewer GPUs, or none. Isolation holds. It is a warning where the rules deny a GPU of this node, which reaches for what is outside of the \
job, and a note where the node has no such GPU.

It comes about by a list carried over from another job, another node or the time before a GPU was replaced.

Processes that may open no GPU at all are excused. MIG ids are judged by instance.

Let the scheduler set the variable.",
},
    advice: LEAVE_IT_TO_THE_SCHEDULER,
    excuse: HAS_A_GPU,
};

pub(super) const DUPLICATE: EnvironmentKind = EnvironmentKind {
    kind: Kind {
    id: "env-duplicate",
    severity: Severity::Note,
    title: "a list of visible devices that names a GPU twice",
    page: "\
CUDA_VISIBLE_DEVICES names the same GPU twice. CUDA then shows none at all; this is not documented, and is what the models of the \
driver in PyTorch and nvitop agree on (ROCm keeps what stands before).

It comes about by scripts that put lists together. Processes that may open no GPU are excused.

Name each GPU once.",
},
    advice: "Name each GPU once in the variable.",
    excuse: HAS_A_GPU,
};

pub(super) const MIXED_KINDS: EnvironmentKind = EnvironmentKind {
    kind: Kind {
    id: "env-mixed-kinds",
    severity: Severity::Note,
    title: "a list of visible devices that mixes ordinals and UUIDs",
    page: "\
The first entry of CUDA_VISIBLE_DEVICES decides whether ordinals, UUIDs of GPUs or MIG ids are meant; an entry of another kind ends the \
list. This is not documented, and is what independent models of the driver agree on.

Processes that may open no GPU are excused, and ROCR_VISIBLE_DEVICES may mix.

Use one kind.",
},
    advice: "Use either ordinals or UUIDs in the variable.",
    excuse: HAS_A_GPU,
};

pub(super) const CHANGED: EnvironmentKind = EnvironmentKind {
    kind: Kind {
    id: "env-changed",
    severity: Severity::Note,
    title: "a choice of devices that changed after the start",
    page: "\
The environment in the process's memory selects other GPUs than the one it was started with. CUDA reads it once, when it starts: which \
of the two counts depends on the moment. Tools that read /proc/PID/environ show the first. Isolation holds.

Workers of Ray and similar programs choose their GPU in this way, rightly. A change that selects the same GPUs is no finding, nor is one \
without any GPU to open.

Look at what the process holds (gpumap pid) rather than at its environment.",
},
    advice: "See what the process holds (gpumap pid): its environment does not tell what it uses.",
    excuse: "other GPUs result, not only another spelling",
};

pub(super) const UNSET_BUT_GPU: EnvironmentKind = EnvironmentKind {
    kind: Kind {
    id: "env-unset-but-gpu",
    severity: Severity::Note,
    title: "a process that sees all GPUs where only the variable keeps jobs apart",
    page: "\
No device rules confine the job, it was allocated some of the node's GPUs, and a process of it that uses GPUs has no \
CUDA_VISIBLE_DEVICES: CUDA shows it those of other jobs too.

Without ConstrainDevices the variable is advice, and a session or script that drops it is without advice. On a constrained node an unset \
variable is right (an adopted ssh session has none) and no finding; nor is it one where the allocation is not known, or where the \
configuration shares the GPUs (sharing.gpus) or gives whole nodes (sharing.whole_node).

Set ConstrainDevices=yes in cgroup.conf.",
},
    advice: "Set ConstrainDevices=yes in cgroup.conf: the variable alone keeps nobody apart.",
    excuse: "no rules confine the job, and the process uses GPUs",
};

pub(super) const INDEX_SPACE: EnvironmentKind = EnvironmentKind {
    kind: Kind {
    id: "env-index-space",
    severity: Severity::Warning,
    title: "Slurm's numbers select other GPUs than were allocated",
    page: "\
No device rules confine the job, and CUDA_VISIBLE_DEVICES holds Slurm's numbers of the allocated GPUs; CUDA counts in another order \
(PCI), so that the numbers select GPUs of other jobs. Nobody did anything wrong but the numbering.

Slurm counts by its own list, which is by file name without AutoDetect=nvml; a file's number is the driver's minor, which need not \
follow PCI order. It is certain only as far as gres.conf was read and all GPUs are of one model.

It is excused where the sets are equal in spite of it, where rules confine the job (numbers count from 0 then), and where the \
configuration shares the GPUs or gives whole nodes. A list with other numbers than Slurm's was chosen by the user and is no such case.

Set ConstrainDevices=yes, or AutoDetect=nvml, or Flags=env_uuid where Slurm has it.",
},
    advice: "Set ConstrainDevices=yes in cgroup.conf, or AutoDetect=nvml in gres.conf.",
    excuse: "no rules confine the job, and the numbers are those that Slurm gave it",
};
