//! The kinds of these findings: their pages in the manual, what to do, and what
//! was ruled out.

use crate::audit::kind::Kind;
use crate::model::Severity;

/// A kind of finding about environments, with what each of its findings says.
#[derive(Clone, Copy, Debug)]
pub(super) struct EnvironmentKind {
    /// Its id, severity and page.
    pub(super) kind: Kind,
    /// What is wrong, in one sentence, with places for `{the variable}`, `{the process}`, `{the job}` and
    /// `{the gpus}`.
    pub(super) summary: &'static str,
    /// What to do, in short.
    pub(super) advice: &'static str,
    /// What was checked and ruled out.
    pub(super) excuse: &'static str,
}

const LEAVE_IT_TO_THE_SCHEDULER: &str =
    "Leave the variable to the scheduler: ordinals count from 0 among the GPUs that the job may open.";
const HAS_A_GPU: &str = "the process may open a GPU, and the value does not only hide all of them";

/// The summary of a list that names a GPU which this node does not have.
pub(super) const NAMES_NONE: &str = "{the variable} of {the process} of {the job} names a GPU that it cannot open or that this node does not have";

/// The reason why a finding is `likely` and not certain.
pub(super) const MODELLED: &str =
    "no document settles it: independent models of the driver agree on it, or it rests on an assumption";

pub(super) const OUT_OF_RANGE: EnvironmentKind = EnvironmentKind {
    kind: Kind {
        id: "env-out-of-range",
        severity: Severity::Note,
        title: "a list of visible devices with an ordinal that does not exist here",
        page: "\
An ordinal in CUDA_VISIBLE_DEVICES (or a similar variable) is as large as the number of GPUs that the \
process may open, or larger. CUDA ends the list there without a message: the process sees fewer GPUs, or \
none. Isolation holds.

Causes: a list copied from the node's numbers, from another job or from Slurm's IDX. Inside a device cgroup \
ordinals count from 0 among the GPUs that may be opened.

Excuses: -1 and words, which hide all GPUs on purpose; a process that may open no GPU, for which the value \
means nothing.

What to do: let the scheduler set the variable, or use UUIDs.",
    },
    summary: "{the variable} of {the process} of {the job} counts beyond the GPUs that the job may open",
    advice: LEAVE_IT_TO_THE_SCHEDULER,
    excuse: HAS_A_GPU,
};

pub(super) const FOREIGN_UUID: EnvironmentKind = EnvironmentKind {
    kind: Kind {
        id: "env-foreign-uuid",
        severity: Severity::Warning,
        title: "a list of visible devices that names a GPU which is not there for it",
        page: "\
A UUID in CUDA_VISIBLE_DEVICES names a GPU that the rules deny, or that this node does not have. CUDA ends \
the list there: the process sees fewer GPUs, or none. Isolation holds. It is a warning if the rules deny a \
GPU of this node, because the process asks for a GPU outside of its job, and a note if the node has no such \
GPU.

Causes: a list carried over from another job, another node or the time before a GPU was replaced.

Excuses: a process that may open no GPU. MIG ids are judged by instance.

What to do: let the scheduler set the variable.",
    },
    summary: "{the variable} of {the process} names {the gpus}, which {the job} may not open",
    advice: LEAVE_IT_TO_THE_SCHEDULER,
    excuse: HAS_A_GPU,
};

pub(super) const DUPLICATE: EnvironmentKind = EnvironmentKind {
    kind: Kind {
        id: "env-duplicate",
        severity: Severity::Note,
        title: "a list of visible devices that names a GPU twice",
        page: "\
CUDA_VISIBLE_DEVICES names the same GPU twice. CUDA then shows no GPU at all. No document says so; the \
models of the driver in PyTorch and nvitop agree on it (ROCm keeps the entries before the second one).

Causes: scripts that join lists.

Excuses: a process that may open no GPU.

What to do: name each GPU once.",
    },
    summary: "{the variable} of {the process} of {the job} names a GPU twice",
    advice: "Name each GPU once in the variable.",
    excuse: HAS_A_GPU,
};

pub(super) const MIXED_KINDS: EnvironmentKind = EnvironmentKind {
    kind: Kind {
        id: "env-mixed-kinds",
        severity: Severity::Note,
        title: "a list of visible devices that mixes ordinals and UUIDs",
        page: "\
The first entry of CUDA_VISIBLE_DEVICES decides whether the list has ordinals, UUIDs of GPUs or MIG ids; an \
entry of another kind ends the list. No document says so; independent models of the driver agree on it.

Causes: scripts that join lists.

Excuses: a process that may open no GPU. ROCR_VISIBLE_DEVICES may mix kinds.

What to do: use one kind.",
    },
    summary: "{the variable} of {the process} of {the job} mixes numbers and UUIDs",
    advice: "Use either ordinals or UUIDs in the variable.",
    excuse: HAS_A_GPU,
};

pub(super) const CHANGED: EnvironmentKind = EnvironmentKind {
    kind: Kind {
        id: "env-changed",
        severity: Severity::Note,
        title: "a choice of devices that changed after the start",
        page: "\
The environment in the process's memory selects other GPUs than the one it was started with. CUDA reads the \
environment once, when it starts, so the moment decides which of the two counts. Tools that read \
/proc/PID/environ show the first. Isolation holds.

Causes: workers of Ray and similar programs choose their GPU in this way, rightly.

Excuses: the change selects the same GPUs; the process may open no GPU.

What to do: look at what the process holds (gpumap pid) rather than at its environment.",
    },
    summary: "{the variable} of {the process} of {the job} chooses other GPUs than at its start",
    advice: "See what the process holds (gpumap pid): its environment does not tell what it uses.",
    excuse: "the new value selects other GPUs; it is not the same choice written differently",
};

pub(super) const UNSET_BUT_GPU: EnvironmentKind = EnvironmentKind {
    kind: Kind {
        id: "env-unset-but-gpu",
        severity: Severity::Note,
        title: "a process that sees all GPUs where only the variable keeps jobs apart",
        page: "\
No device rules confine the job, it was allocated some of the node's GPUs, and one of its processes that \
uses GPUs has no CUDA_VISIBLE_DEVICES: CUDA shows it the GPUs of other jobs too.

Causes: without ConstrainDevices only the variable keeps jobs apart, and a session or script that drops it \
has no limit left.

Excuses: a constrained node, on which an unset variable is right (an adopted ssh session has none); an \
allocation that is not known; the configuration shares the GPUs (sharing.gpus) or gives whole nodes \
(sharing.whole_node).

What to do: set ConstrainDevices=yes in cgroup.conf.",
    },
    summary: "{the process} of {the job} sees GPUs of others ({the gpus}): CUDA_VISIBLE_DEVICES is not set",
    advice: "Set ConstrainDevices=yes in cgroup.conf: the variable alone keeps nobody apart.",
    excuse: "no rules confine the job, and the process uses GPUs",
};

pub(super) const INDEX_SPACE: EnvironmentKind = EnvironmentKind {
    kind: Kind {
        id: "env-index-space",
        severity: Severity::Warning,
        title: "Slurm's numbers select other GPUs than were allocated",
        page: "\
No device rules confine the job, and CUDA_VISIBLE_DEVICES holds Slurm's numbers of the allocated GPUs. CUDA \
counts in another order (PCI), so the numbers select GPUs of other jobs. The user made no mistake.

Causes: Slurm counts by its own list, which is sorted by file name without AutoDetect=nvml. The number of a \
file is the driver's minor, which need not follow PCI order. The finding is certain only if gres.conf was \
read and all GPUs are of one model.

Excuses: both orders select the same GPUs; rules confine the job (then numbers count from 0); the \
configuration shares the GPUs or gives whole nodes. A list with other numbers than Slurm's was chosen by \
the user and is not this finding.

What to do: set ConstrainDevices=yes, or AutoDetect=nvml, or Flags=env_uuid if Slurm has it.",
    },
    summary: "{the variable} of {the process} holds Slurm's numbers, which select GPUs that {the job} was not allocated: {the gpus}",
    advice: "Set ConstrainDevices=yes in cgroup.conf, or AutoDetect=nvml in gres.conf.",
    excuse: "no rules confine the job, and the numbers are those that Slurm gave it",
};
