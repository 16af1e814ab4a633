//! What an audit says beside its findings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{FailOn, Severity};

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
