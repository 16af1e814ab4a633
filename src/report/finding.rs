//! Findings of an audit: what is wrong with the isolation of a node, with
//! everything it takes to check it by hand.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Confidence, Severity, Verdict};
use crate::model::{Owner, ProcessState};

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
    pub started_at: Option<String>,
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
    pub gpu: Option<String>,
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
