//! What gpumap answers, as types: the JSON documents `gpumap/1`.
//!
//! Analysis fills these in, rendering only prints them; the table and the
//! JSON of a command are two views of the same value. Changes within
//! `gpumap/1` are additive. The JSON schema is generated from these types.

mod activity;
mod audit;
mod doctor;
mod event;
mod finding;
mod node_diff;
mod process;
mod repair;
mod sets;
mod unknown;
mod vgpu;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{AttachFlag, InstanceKey, NoteCode, Owner, RuleType, Vendor, Verdict, Verdicts, Writer};
use crate::observation::{Host, Observation, Problem};

pub use activity::{
    ActiveProcess, Activity, CallError, CountedLibrary, DurationClass, GpuUse, MemoryUse, OwnerActivity,
    Rates, StreamUse, Work,
};
pub use audit::{Audit, AuditConfig, AuditOptions, Checked, Counts, FindingKind, FixedFinding};
pub use doctor::DoctorCheck;
pub use event::{DevicesEvent, Event, EventProcess, LostBy, MoveEvent, PolicyEvent, PolicyProgram, Value};
pub use finding::{Decision, Finding, FindingDevice, FindingProcess};
pub use node_diff::{AllocationChange, NodeDiff, OwnerAt, OwnerGpus, PolicyChange, ProgramMove};
pub use process::{Api, Asked, Claim, Cut, Leftover, Process, RawVariable, Visible};
pub use repair::{Denier, Intention, Repair, RepairStep};
pub use sets::{GpuSet, OwnerSets};
pub use vgpu::{LimitVerdict, MappedRegion, Region, RegionDevice, RegionProcess, Vgpu, VgpuDevice, VgpuFile};

/// The schema name of every document.
pub const SCHEMA: &str = "gpumap/1";

/// The envelope around every command's answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The command that answered.
    pub command: String,
    /// gpumap's version.
    pub version: String,
    /// When the facts were observed, RFC 3339.
    pub taken_at: String,
    /// The node they were observed on.
    pub host: Host,
    /// Whether nothing is missing. It is false if there is an error, an `unknown`
    /// verdict or policy, an owner whose allowed or held GPUs are not known, or a
    /// process that could not be looked into.
    pub complete: bool,
    /// What is missing and what would help.
    pub errors: Vec<Problem>,
    /// The answer.
    #[serde(flatten)]
    pub payload: Payload,
}

/// The parts of an answer; a command fills in what its name promises and
/// leaves the others out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// Requested cgroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroups: Option<Vec<Cgroup>>,
    /// Programs by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<BTreeMap<u32, Program>>,
    /// Policies by id; equal ids are equal policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<BTreeMap<String, Policy>>,
    /// The node's GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<Vec<Gpu>>,
    /// Jobs, steps, tasks, pods, containers, units: what each was allocated,
    /// may open, asks for and holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owners: Option<Vec<OwnerSets>>,
    /// Answers of `audit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<Finding>>,
    /// The data of `audit` besides its findings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// The documentation of findings, as `audit --list` and `--explain` give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<FindingKind>>,
    /// The facts that the answer rests on; only `audit --report` fills it in, and
    /// --from reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<Box<Observation>>,
    /// The job that `leftovers` was asked about: its number or SLUID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Answers of `leftovers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leftovers: Option<Vec<Leftover>>,
    /// What processes do with their GPUs, where a gpumap counts their calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<Box<Activity>>,
    /// Limits of every command, which do not make the answer incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notes: Option<Vec<Note>>,
    /// Answers of `check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<Vec<Check>>,
    /// The argument of `explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The file that `vgpu --region` reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// The answer of `repair`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
    /// Answers of `doctor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doctor: Option<Vec<DoctorCheck>>,
    /// Answers of `vgpu`: the processes that have or were meant to have limits
    /// of HAMi-core or SoftMig.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<Vec<Process>>,
    /// The shared regions that they map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regions: Option<Vec<MappedRegion>>,
    /// The answer of `diff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
}

/// A limit of an answer that nothing could lift.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// What it is about.
    pub code: NoteCode,
    /// The limit, a sentence.
    pub text: String,
}

/// One cgroup and what may be opened from it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cgroup {
    /// Relative to the cgroup root, `/` first.
    pub path: String,
    /// Hex of the path's bytes if they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Cgroup id (inode number of the directory).
    pub id: u64,
    /// The owner; null if it was not recognised.
    pub owner: Option<Owner>,
    /// Programs in force, in run order.
    pub programs: Vec<Effective>,
    /// Why the programs in force could not be asked; then `programs` is empty, but
    /// there may be programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_unknown: Option<String>,
    /// Key into `policies`.
    pub policy: String,
    /// Every GPU of the node.
    pub gpus: Vec<GpuVerdict>,
    /// Its processes.
    pub processes: Vec<Process>,
}

/// A program in force on a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Effective {
    /// Key into `programs`.
    pub id: u32,
    /// The cgroup it is attached to; empty if that could not be asked.
    pub attached_at: String,
    /// `multi`, `override`, `preorder`, `link`; none is `[]`.
    pub flags: Vec<AttachFlag>,
}

/// One loaded program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Kernel id (0 for a program from a file).
    pub id: u32,
    /// Name that its loader gave it, often empty.
    pub name: String,
    /// Kernel tag.
    pub tag: String,
    /// Software whose programs have this shape. It is a label and no fact.
    pub writer: Option<Writer>,
    /// Number of instructions (8-byte slots); null if they could not be read.
    pub insns: Option<usize>,
    /// Load time, RFC 3339.
    pub loaded_at: String,
    /// Uid that loaded it.
    pub uid: u32,
    /// Ids of its maps.
    pub maps: Vec<u32>,
    /// Key into `policies`: what this program alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The disassembly; only `prog` fills it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disassembly: Option<Vec<Line>>,
}

/// One instruction of a disassembly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Index of the 8-byte slot.
    pub pc: usize,
    /// As bpftool prints it.
    pub text: String,
    /// What it computes, such as `r4 = major`; empty if that is no more than `text`.
    pub meaning: String,
}

/// What is allowed, as disjoint rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// Equal ids are equal policies.
    pub id: String,
    /// Verdict of everything that no rule names.
    pub default: Verdict,
    /// Whether `default` and `rules` say everything there is to say: no
    /// verdict is unknown and no rule is missing.
    pub exact: bool,
    /// Disjoint exceptions from `default`.
    pub rules: Vec<Rule>,
    /// Why verdicts are unknown, and where.
    pub unknown: Vec<Unknown>,
    /// If the policy has no short form: how many rules were left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
}

/// One rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// The verdict on these requests.
    pub verdict: Verdict,
    /// `char`, `block` or `any`.
    #[serde(rename = "type")]
    pub kind: RuleType,
    /// First and last major number.
    pub major: [u32; 2],
    /// First and last minor number.
    pub minor: [u32; 2],
    /// Which requests, such as `rwm` (see the manual for the notation).
    pub requests: String,
    /// If set, only majors with `major & mask == value` are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_mask: Option<Mask>,
    /// If set, only minors with `minor & mask == value` are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minor_mask: Option<Mask>,
    /// Drivers that have this major on this boot, if the kernel assigns it anew on
    /// each boot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A set of numbers by some of their bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Mask {
    /// The bits that matter.
    pub mask: u32,
    /// The values of these bits.
    pub value: u32,
}

/// Rules that a policy is too irregular to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// Number of (type, major, minor, request) questions whose verdict is not
    /// the default.
    pub questions: u64,
}

/// A region of unknown verdicts, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unknown {
    /// The rules concerned, in rule notation.
    pub rules: Vec<String>,
    /// The reason.
    pub why: String,
}

/// One GPU in every index space the system offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// UUID, else PCI address, else `major:minor`.
    pub key: String,
    /// `nvidia`, `amd`, `intel`, or the driver's name.
    pub vendor: Vendor,
    /// Model name, if the driver tells.
    pub model: Option<String>,
    /// `GPU-…`, if the driver tells.
    pub uuid: Option<String>,
    /// PCI address `dddd:bb:dd.f`.
    pub pci: Option<String>,
    /// Major number of the device that gates access; like `minor` it is known
    /// from the driver even where no node exists, and it is what the kernel
    /// asks device programs about.
    #[serde(default)]
    pub major: Option<u32>,
    /// Minor number of the node that gates access (`/dev/nvidiaN`: N; AMD and
    /// Intel: the render node's).
    pub minor: Option<u32>,
    /// Its device nodes.
    pub nodes: Vec<GpuNode>,
    /// NVML index: position in PCI order among all NVIDIA GPUs that are not
    /// excluded; null where that is not determined.
    pub nvml_index: Option<u32>,
    /// Slurm's number: position in slurmd's list, as `gres.conf` fixes it; left
    /// out where that is not determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_index: Option<u32>,
    /// NUMA node; null if the platform has none.
    pub numa_node: Option<u32>,
    /// MIG instances, if MIG is on.
    pub mig: Vec<MigInstance>,
    /// Excluded by the driver (`GPU Excluded: Yes`): has no device node.
    #[serde(default)]
    pub excluded: bool,
}

/// One device node of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuNode {
    /// Path of the node.
    pub path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Whether opening this node gives access to the GPU.
    pub gate: bool,
}

/// One MIG compute instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MigInstance {
    /// GPU instance.
    pub gi: u32,
    /// Compute instance; null for a GPU instance without one.
    pub ci: Option<u32>,
    /// Minor of the GPU instance's capability node.
    pub gi_minor: Option<u32>,
    /// Minor of the compute instance's capability node.
    pub ci_minor: Option<u32>,
    /// Major of the capability nodes.
    pub major: Option<u32>,
}

impl MigInstance {
    /// `KEY/GI/CI` of this compute instance of a GPU; `None` for a GPU instance
    /// without one.
    pub fn key(&self, gpu: &Gpu) -> Option<String> {
        let ci = Some(self.ci?);
        Some(InstanceKey { gpu: &gpu.key, gi: self.gi, ci }.to_string())
    }
}

/// One GPU as seen from one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuVerdict {
    /// Key into the inventory.
    pub gpu: String,
    /// Major of the node asked about; null if the GPU has no node.
    pub major: Option<u32>,
    /// Minor of the node asked about.
    pub minor: Option<u32>,
    /// Verdict for `rw`, which is what using the GPU takes.
    pub verdict: Verdict,
    /// All requests that are allowed.
    pub requests: String,
    /// Why the verdict is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Its MIG instances, in the order of [`Gpu::mig`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceVerdict>,
}

/// One MIG instance as seen from one cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InstanceVerdict {
    /// `KEY/GI/CI`.
    pub instance: String,
    /// Verdict for using it: for its GPU and the capabilities of both levels.
    pub verdict: Verdict,
}

/// One answer of `check`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// The device as asked.
    pub device: String,
    /// `mixed` where a wildcard's answers differ.
    pub verdict: Verdicts,
    /// Why it is unknown, or which requests and numbers differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// The argument for one verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// The cgroup or program asked about.
    pub target: String,
    /// The device and request, `c 195:3 rw`.
    pub device: String,
    /// The programs in run order with the path each takes.
    pub programs: Vec<ProgramProof>,
    /// How the kernel combines them, one sentence.
    pub rule: String,
    /// The v1 devices controller's part, if it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices_v1: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One program's part in a proof.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramProof {
    /// The program.
    pub id: u32,
    /// Where it is attached.
    pub attached_at: String,
    /// With which flags.
    pub flags: Vec<AttachFlag>,
    /// Its name.
    pub name: String,
    /// The instructions executed, in order.
    pub steps: Vec<Step>,
    /// Slot of the instruction that set the returned value.
    pub decided_at: Option<usize>,
    /// What it returns: `allow` (1), `deny` (0) or `unknown`.
    pub returns: Verdict,
    /// The error in force after it, as a negative errno; 0 is none.
    pub retval: Option<i32>,
    /// Why the program could not be followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One executed instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Index of the 8-byte slot.
    pub pc: usize,
    /// As bpftool prints it.
    pub text: String,
    /// What it computes or decides here, such as `r4 = major = 195`.
    pub meaning: String,
}

/// The difference of two policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The first policy's source, as asked.
    pub a: String,
    /// The second policy's source, as asked.
    pub b: String,
    /// The one cgroup of the first side, if only that was compared and not what
    /// is below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a_cgroup: Option<String>,
    /// The one cgroup of the second side, in the same case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b_cgroup: Option<String>,
    /// Whether the policies are equal, which takes that both are known.
    pub equal: bool,
    /// Whether part of either side is unknown: there may be more differences than
    /// are listed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// Where they differ.
    pub changes: Vec<Change>,
    /// GPUs whose verdict differs.
    pub gpus: Vec<GpuChange>,
    /// If some of the difference has no short form: how many (device, request)
    /// pairs are not listed in `changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
    /// What changed on the node, if both sides are whole observations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeDiff>,
}

/// One region on which two policies differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Verdict in the first policy.
    pub from: Verdict,
    /// Verdict in the second.
    pub to: Verdict,
    /// The devices and requests; its own `verdict` is the second policy's.
    #[serde(flatten)]
    pub rule: Rule,
}

/// One GPU on which two policies differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuChange {
    /// Key into the inventory.
    pub gpu: String,
    /// Verdict in the first policy.
    pub from: Verdict,
    /// Verdict in the second.
    pub to: Verdict,
}
