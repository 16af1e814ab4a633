//! Is GPU isolation on this node what its owner thinks it is?
//!
//! One file for each family of findings: it declares their ids, severities and
//! documentation, and the function that looks for them. A finding rests on
//! facts that stand in it; what would excuse it is looked for first. Nothing
//! here touches the system.

mod catalogue;
mod config;
mod facts;
mod finding;
mod ignored;
mod units;
mod verified;

use crate::analyse::{AnalyseError, Granted};
use crate::observation::Observation;
use crate::report::Payload;

pub use catalogue::{Kind, Severity, kind, kinds};
pub use config::{Config, Daemon, Ignore, Sharing};

use facts::Facts;

/// The findings of a node, the most severe first, those of one id by cgroup.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn audit(observation: &Observation, granted: &Granted, config: &Config) -> Result<Payload, AnalyseError> {
    let mut facts = Facts::new(observation, granted, config)?;
    let found = catalogue::FAMILIES.iter().flat_map(|family| (family.find)(&mut facts));
    let mut findings: Vec<_> = found.collect();
    findings.iter_mut().for_each(|finding| finding::settle(finding, config));
    ignored::mark(&mut findings, config, &observation.taken_at);
    findings.sort_by(finding::order);
    let gpus = facts.inspection.gpus().to_vec();
    Ok(Payload { findings: Some(findings), gpus: Some(gpus), ..Payload::default() })
}
