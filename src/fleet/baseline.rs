//! A former report, whose findings are left out of the next one.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::findings::Known;
use crate::report::SCHEMA;

/// The findings of a former `fleet --json`.
#[derive(Debug, Default)]
pub struct Baseline(Known);

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
        Ok(Self(nodes.map(|(node, texts)| (node, texts.iter().filter_map(number).collect())).collect()))
    }

    /// The fingerprints by node.
    pub(super) fn known(&self) -> &Known {
        &self.0
    }
}
