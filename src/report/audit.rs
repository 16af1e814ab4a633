//! The answer of `audit`: findings, which say what is wrong with the isolation of a node,
//! with everything it takes to check them by hand; and how the audit was made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Confidence, FailOn, GpuKey, Owner, ProcessState, Severity, Time, Verdict};

/// How an audit was made, and which of its findings count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// From which severity on a finding makes the exit status 1: `critical`,
    /// `warning`, `note`, or `never`.
    pub fail_on: FailOn,
    /// Whether a finding that counts is as severe as that.
    pub failed: bool,
    /// Findings that count, by severity.
    pub counts: Counts,
    /// Findings that the configuration accepts; `findings` has them with the reason.
    pub ignored: usize,
    /// Findings left out because the baseline has them.
    pub known: usize,
    /// Their fingerprints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known_fingerprints: Vec<String>,
    /// Findings of the baseline that are no more, or not seen any more if the
    /// answer is incomplete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed: Vec<FixedFinding>,
    /// The numbers of things that were examined.
    pub checked: Checked,
    /// Whether a verdict, a policy, a set or a process in it is unknown.
    pub unknown: bool,
    /// Remarks on how the audit was made, for its readers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// The options that make the same audit again.
    pub options: AuditOptions,
}

/// Findings by severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Isolation does not hold.
    pub critical: usize,
    /// Something does not work as somebody expects.
    pub warning: usize,
    /// Worth knowing.
    pub note: usize,
}

/// A finding of the baseline that is no more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FixedFinding {
    /// Its id.
    pub id: String,
    /// Its fingerprint.
    pub fingerprint: String,
    /// What was wrong.
    pub summary: String,
}

/// The numbers of things that an audit examined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checked {
    /// Cgroups.
    pub cgroups: usize,
    /// Jobs, containers, pods, virtual machines: owners with GPUs of their own.
    pub tenants: usize,
    /// Processes.
    pub processes: usize,
    /// GPUs.
    pub gpus: usize,
}

/// The options of an audit, besides the observation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditOptions {
    /// `--allocated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocated: Option<String>,
    /// Only what concerns these cgroups and those below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Only what concerns this job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// The configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<AuditConfig>,
}

/// A configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditConfig {
    /// Where it was.
    pub path: String,
    /// What it says.
    pub text: String,
}

/// The documentation of one kind of finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingKind {
    /// Stable id.
    pub id: String,
    /// Severity unless the configuration says otherwise.
    pub severity: Severity,
    /// A short description.
    pub title: String,
    /// Paragraphs separated by empty lines.
    pub page: String,
}

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Stable id in kebab-case; `gpumap audit --explain ID` documents it.
    pub id: String,
    /// Its severity.
    pub severity: Severity,
    /// Names the same finding in another audit of the same node: id, owner,
    /// place and devices, without pids, program ids and times.
    pub fingerprint: String,
    /// Of a finding about several devices, the fingerprints of the same finding about each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_fingerprints: Vec<String>,
    /// What is wrong, one sentence.
    pub summary: String,
    /// The cgroup it is about, if it is about one.
    pub cgroup: Option<String>,
    /// Hex of the cgroup's path if it is not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup_hex: Option<String>,
    /// The owner of that cgroup.
    pub owner: Option<Owner>,
    /// Further owners concerned, such as the other one of a double grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Owner>,
    /// Processes concerned.
    pub processes: Vec<FindingProcess>,
    /// Devices concerned, in every index space.
    pub devices: Vec<FindingDevice>,
    /// The decision: the programs in force and the instruction of each.
    pub programs: Vec<Decision>,
    /// How certain it is.
    pub confidence: Confidence,
    /// Facts it rests on, one clause each.
    pub evidence: Vec<String>,
    /// Excuses that were checked and do not apply, one clause each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub excuses: Vec<String>,
    /// What to do about it.
    pub advice: String,
    /// A line for a shell that mends it at once, as `gpumap repair` prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Why the configuration says to ignore it; such findings are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored: Option<String>,
}

/// A process of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FindingProcess {
    /// Pid.
    pub pid: u32,
    /// Start time in clock ticks since boot.
    pub start_time: u64,
    /// The same as a time of day, RFC 3339; left out if the time of the boot is not
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// How many seconds before the observation that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
    /// Effective uid.
    pub uid: u32,
    /// Name of that user, as the node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Its state, with the words of `processes` of a cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ProcessState>,
    /// Command name.
    pub comm: String,
}

/// A device of a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct FindingDevice {
    /// Key of the GPU, or `KEY/GI/CI` of a MIG instance; null for a device that
    /// belongs to none.
    pub gpu: Option<GpuKey>,
    /// Device number as in rules, `c 195:3`; null where it has none.
    pub number: Option<String>,
    /// Name of its node without `/dev/`.
    pub name: Option<String>,
    /// PCI address.
    pub pci: Option<String>,
    /// NVML index.
    pub nvml_index: Option<u32>,
}

/// A program in force and what it decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The program.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Where it is attached.
    pub attached_at: String,
    /// What it returns for the finding's first device.
    pub returns: Verdict,
    /// Slot of the instruction that set the returned value.
    pub decided_at: Option<usize>,
}
