//! Is GPU isolation on this node what its owner thinks it is?
//!
//! One file for each family of findings: it declares their ids, severities and
//! documentation, and the function that looks for them. A finding rests on
//! facts that stand in it; what would excuse it is looked for first. Nothing
//! here touches the system.

mod absent;
mod access;
mod catalogue;
mod config;
mod doors;
mod dropped;
mod dynamic;
mod environment;
mod facts;
mod finding;
mod forged;
mod grants;
mod holders;
mod ignored;
mod instances;
mod outcome;
mod parse;
mod permissions;
mod stale;
mod start;
mod tenants;
mod undone;
mod units;
mod unknowns;
mod unloaded;
mod verified;
mod within;
mod words;

#[cfg(test)]
mod tests;

use crate::analyse::{AnalyseError, Granted};
use crate::observation::Observation;
use crate::report::{Audit, AuditOptions, Checked, Payload};

pub use catalogue::{Kind, kind, kinds};
pub use config::{Config, Daemon, Ignore, Sharing};
pub use outcome::{FailOn, compare, judge};
pub use parse::{ConfigError, no_such_id};
pub use within::Within;

use facts::Facts;

/// The findings of a node, the most severe first, those of one id by cgroup.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn audit(observation: &Observation, granted: &Granted, config: &Config) -> Result<Payload, AnalyseError> {
    audit_within(observation, granted, config, &Within::default())
}

/// Those that concern a part of the node.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn audit_within(
    observation: &Observation,
    granted: &Granted,
    config: &Config,
    within: &Within,
) -> Result<Payload, AnalyseError> {
    let mut facts = Facts::new(observation, granted, config)?;
    let found = catalogue::FAMILIES.iter().flat_map(|family| (family.find)(&mut facts));
    let mut findings: Vec<_> = found.collect();
    let idle = unloaded::keys(&facts);
    findings.retain(|finding| !unloaded::is_idle(finding, &idle));
    findings.retain(|finding| within.holds(finding, facts.inspection.payload()));
    findings.iter_mut().for_each(|finding| finding::settle(finding, config));
    ignored::mark(&mut findings, config, &observation.taken_at);
    findings.sort_by(finding::order);
    let audit = summary(&facts, granted, within);
    let gpus = facts.inspection.gpus().to_vec();
    Ok(Payload { findings: Some(findings), gpus: Some(gpus), audit: Some(audit), ..Payload::default() })
}

fn summary(facts: &Facts<'_>, granted: &Granted, within: &Within) -> Audit {
    let payload = facts.inspection.payload();
    let mut remarks = facts.config.expired(&facts.inspection.observation().taken_at);
    if !within.is_here(payload) {
        remarks.push("the job has no cgroup here".to_owned());
    }
    remarks.extend(payload.unknown_parts().into_iter().map(|what| format!("it is not known {what}")));
    Audit {
        checked: Checked {
            cgroups: facts.cgroups().len(),
            tenants: facts.tenants.len(),
            processes: facts.processes().count(),
            gpus: facts.inspection.gpus().len(),
        },
        unknown: payload.has_unknown(),
        remarks,
        options: AuditOptions { allocated: granted.list.clone(), ..AuditOptions::default() },
        ..Audit::default()
    }
}
