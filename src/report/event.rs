//! The events of `gpumap watch`: one JSON document on one line each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Asked, Change, Effective, Omitted, Step};
use crate::model::{EventCause, EventKind, GpuKey, Owner, SharedRole, Time, ValueState, Writer};
use crate::observation::{HeldDevice, Problem};

/// One event. Fields that do not apply to its kind are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Always [`super::SCHEMA`].
    pub schema: String,
    /// `watch` or `denials`.
    pub command: String,
    /// When it happened, RFC 3339.
    pub at: Time,
    /// Its kind.
    pub event: EventKind,
    /// The process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<EventProcess>,
    /// The cgroup of the process, or the one whose programs changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Hex of the cgroup's path if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_hex: Option<String>,
    /// The owner of that cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The cause of the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<EventCause>,
    /// The variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// Its value before; left out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// Its value now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// What the process asked for earlier: before the change, or before it executed
    /// its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_before: Option<Asked>,
    /// What it asks for now, inside the set its cgroup allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asked>,
    /// Whether the change can have an effect: false after the process has
    /// initialised its driver's library, which reads the variables once; left
    /// out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<bool>,
    /// The change of a cgroup's programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyEvent>,
    /// From which cgroup a process was moved, and what that changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<MoveEvent>,
    /// Which devices a process opened or closed, or which one it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<DevicesEvent>,
    /// How a process was refused a device: the one in `devices`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<DeniedEvent>,
    /// Number of events that were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
    /// The processes whose events were lost, and how many of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_by: Vec<LostBy>,
    /// The kernel interfaces that these events come from (`uprobe`, `fanotify`, …),
    /// in `start`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<String>,
    /// What this watch cannot see, a sentence each, in `start`; this includes
    /// processes that it found and does not cover.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_seen: Vec<String>,
    /// How long it took to begin, in milliseconds, in `start` and `ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_after_ms: Option<u64>,
    /// How many of the processes that were running are not covered, in `ready`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncovered: Option<usize>,
    /// What cannot be watched, in `problem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Why something is not known or not covered; in `visible` and `process` also
    /// why the value selects no GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Events of one user that were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LostBy {
    /// The user who answers for them: the real uid of the processes, or, in a
    /// user namespace, who made the outermost one; null for users who are not
    /// counted by themselves.
    pub uid: Option<u32>,
    /// The number of events.
    pub events: u64,
}

/// The process of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventProcess {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot; null if it ended before that
    /// could be read.
    pub start_time: Option<u64>,
    /// Effective uid.
    pub uid: Option<u32>,
    /// Name of that user, as the node has it; left out where it has none or was
    /// not found soon enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Hex of the user's name if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_hex: Option<String>,
    /// Command name.
    pub comm: String,
    /// Hex of the command name if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comm_hex: Option<String>,
}

/// A variable's value at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// Whether it is set.
    pub state: ValueState,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Hex of the value if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_hex: Option<String>,
    /// Whether the value is longer than the part that was kept (4 KiB).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A move from one cgroup to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MoveEvent {
    /// The cgroup of before; left out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Hex of that path if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_hex: Option<String>,
    /// The owner of that cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_owner: Option<Owner>,
    /// Whether the process left the job, container, pod or virtual machine that
    /// it was in; left out where one of the cgroups is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<bool>,
    /// The one thread that moved, where the process stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// GPUs and MIG instances that it can open now and could not before; left
    /// out, as `lost`, where the rules of one of the cgroups are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gained: Option<Vec<GpuKey>>,
    /// GPUs that it can no longer open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Vec<GpuKey>>,
    /// GPUs for which that is unknown on one side alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<GpuKey>,
    /// Whether this move was told before, when programs of one of the cgroups were
    /// not decoded yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// Equal refusals of one device to one process, in about a second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeniedEvent {
    /// What was asked for: `r`, `w` or `rw` (open, access, execve), `m` (mknod), `f` (none of
    /// these).
    pub request: String,
    /// How often it was refused.
    pub count: u64,
    /// When it was refused last, RFC 3339; `at` of the event is the first time.
    pub last: Time,
    /// What the kernel answered, such as `EPERM`.
    pub error: String,
    /// The GPU of the device, or whose MIG instance it is, by all of its numbers; left out
    /// for a device that is no single GPU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuIndexes>,
    /// The program in force that refuses it; left out where that is not known, as `why` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<DenyingProgram>,
    /// Whether the devices controller of cgroup v1 refuses it: the programs allow it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub devices_v1: bool,
}

/// A GPU in every index space.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuIndexes {
    /// UUID, else PCI address, else `major:minor`.
    pub key: GpuKey,
    /// `GPU-…`, if the driver tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// PCI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Minor number of the node that gates access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// NVML index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvml_index: Option<u32>,
    /// Slurm's number, where that is determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_index: Option<u32>,
}

/// The program that refuses a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DenyingProgram {
    /// The program.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The cgroup that it is attached to.
    pub attached_at: String,
    /// The instruction that sets what it returns; left out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<Step>,
}

/// Devices of GPUs that a process opened or closed between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DevicesEvent {
    /// Their numbers, with the descriptors that there are or were.
    pub numbers: Vec<HeldDevice>,
    /// The GPUs, by key.
    pub held: Vec<GpuKey>,
    /// MIG instances, `KEY/GI/CI`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_instances: Vec<GpuKey>,
    /// Nodes that all GPUs share (`nvidiactl`, `nvidia-uvm`, `kfd`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_shared: Vec<SharedRole>,
    /// Which of `held` and `held_instances` the process's rules deny now; left out
    /// if that is not known, and when they were closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_denied: Option<Vec<GpuKey>>,
}

/// A change of the programs in force on a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyEvent {
    /// Programs that are in force now and were not.
    pub attached: Vec<PolicyProgram>,
    /// Programs that are no longer in force.
    pub gone: Vec<PolicyProgram>,
    /// Whether exactly the same is allowed as before: programs were exchanged
    /// for others that say the same, as Slurm does with every step.
    #[serde(default)]
    pub equal: bool,
    /// Whether the cgroup is new: then it is compared with the nearest one above it that there
    /// was, and no process lost or gained anything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub created: bool,
    /// Whether the cgroup was removed and its programs with it; then no process lost
    /// anything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
    /// Maps whose contents changed and that programs in force read, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<u32>,
    /// The exact difference between the rules.
    pub changes: Vec<Change>,
    /// If some of the difference has no short form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
    /// GPUs that can no longer be opened, by key.
    pub lost: Vec<GpuKey>,
    /// GPUs that can be opened now and could not.
    pub gained: Vec<GpuKey>,
    /// GPUs for which that is unknown on one side alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<GpuKey>,
    /// The program of `gpumap repair --apply` that is of no use any more: systemd has
    /// made its own again beside it, as at a reload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair_undone: Option<u32>,
    /// How many further cgroups had the same change at the same time.
    #[serde(default)]
    pub also: usize,
}

/// A program that came or went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyProgram {
    /// Where it is or was attached.
    #[serde(flatten)]
    pub place: Effective,
    /// Its name.
    pub name: String,
    /// Software whose programs have this shape.
    pub writer: Option<Writer>,
    /// When it was loaded, RFC 3339.
    pub loaded_at: Time,
}
