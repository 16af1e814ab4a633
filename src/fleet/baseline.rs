//! A former report, whose findings are left out of the next one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::report::SCHEMA;

/// The fingerprints that a former report had, by node.
pub(super) type Known = BTreeMap<String, BTreeSet<u64>>;

/// The findings of a former `fleet --json`, and the jobs that had unlike GPUs.
#[derive(Debug, Default)]
pub struct Baseline {
    known: Known,
    jobs: BTreeSet<String>,
}

/// Why a file is no former report.
#[derive(Debug, thiserror::Error)]
pub enum BadBaseline {
    /// It is not what `fleet --json` printed.
    #[error("not a report of gpumap fleet: {0}")]
    Json(#[from] serde_json::Error),
    /// It is another document.
    #[error("not a report of gpumap fleet")]
    Other,
}

#[derive(Deserialize)]
struct Document {
    schema: String,
    fleet: Option<Report>,
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    fingerprints: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    jobs: Jobs,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Jobs {
    differing: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    job: String,
}

impl Baseline {
    /// Reads what `fleet --json` printed.
    ///
    /// # Errors
    ///
    /// Anything else.
    pub fn read(bytes: &[u8]) -> Result<Self, BadBaseline> {
        let document: Document = serde_json::from_slice(bytes)?;
        let report = document.fleet.filter(|_| document.schema == SCHEMA).ok_or(BadBaseline::Other)?;
        let number = |text: &String| u64::from_str_radix(text, 16).ok();
        let nodes = report.fingerprints.into_iter();
        let known = nodes.map(|(node, texts)| (node, texts.iter().filter_map(number).collect()));
        let jobs = report.jobs.differing.into_iter().map(|job| job.job);
        Ok(Self { known: known.collect(), jobs: jobs.collect() })
    }

    /// The fingerprints by node.
    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    /// Whether a job had unlike GPUs on its nodes already.
    pub(super) fn has_job(&self, job: &str) -> bool {
        self.jobs.contains(job)
    }
}
