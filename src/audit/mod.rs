//! Audits GPU isolation: takes the facts and verdicts of a node and returns
//! findings.
//!
//! `findings` has one file for each family of findings, with their ids,
//! severities, manual pages and the function that looks for them. The other
//! files here are what all of them use. A finding names the facts it rests on;
//! whatever would excuse it is checked before it is reported. Nothing here
//! makes a system call.

mod access;
mod catalogue;
mod config;
mod config_reader;
mod facts;
mod finding;
mod findings;
mod kind;
mod outcome;
mod permissions;
mod scope;
mod tenants;
mod wording;

use crate::analyse::{self, AnalyseError, CallerAllocation, TimeLimit, ToVerify};
use crate::observation::{Observation, Verification};
use crate::report::{Audit, AuditOptions, Checked, Finding, Payload};

pub use catalogue::{kind, kinds};
pub use config::{ActivityLimits, Config, Daemon, Ignore, Sharing};
pub use config_reader::{ConfigError, no_such_id};
pub use kind::Kind;
pub use outcome::{compare, judge};
pub use scope::AuditScope;

use facts::Facts;

/// The findings of a node, the most severe first, those of one id by cgroup.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn audit(
    observation: &Observation,
    granted: &CallerAllocation,
    config: &Config,
    limit: &TimeLimit,
) -> Result<Payload, AnalyseError> {
    audit_within(observation, granted, config, &AuditScope::default(), limit)
}

/// The findings that concern a part of the node.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn audit_within(
    observation: &Observation,
    granted: &CallerAllocation,
    config: &Config,
    scope: &AuditScope,
    limit: &TimeLimit,
) -> Result<Payload, AnalyseError> {
    audit_asking(observation, granted, config, scope, limit, |_| Vec::new())
}

/// The same; `ask` puts questions to the kernel (`--verify`). Everything is decoded by then,
/// so that however long the answers take, decoding has its time.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn audit_asking(
    observation: &Observation,
    granted: &CallerAllocation,
    config: &Config,
    scope: &AuditScope,
    limit: &TimeLimit,
    ask: impl FnOnce(ToVerify) -> Vec<Verification>,
) -> Result<Payload, AnalyseError> {
    let mut facts = Facts::new(observation, granted, config, limit)?;
    let mut found = find(&mut facts);
    let verified = ask(analyse::questions(&facts.inspection));
    found.extend(findings::mismatches(&mut facts, &verified));
    Ok(answer(&mut facts, found, granted, scope))
}

/// The answer of [`audit`], and that of [`crate::analyse::node()`] for the same facts,
/// at little more than the cost of one.
///
/// # Errors
///
/// As [`crate::analyse::node()`].
pub fn audit_and_node(
    observation: &Observation,
    granted: &CallerAllocation,
    config: &Config,
    limit: &TimeLimit,
) -> Result<(Payload, Payload), AnalyseError> {
    let mut facts = Facts::new(observation, granted, config, limit)?;
    let found = find(&mut facts);
    let audit = answer(&mut facts, found, granted, &AuditScope::default());
    Ok((audit, facts.inspection.into_payload()))
}

fn find(facts: &mut Facts<'_>) -> Vec<Finding> {
    findings::FAMILIES.iter().flat_map(|family| (family.find)(facts)).collect()
}

fn answer(
    facts: &mut Facts<'_>,
    mut found: Vec<Finding>,
    granted: &CallerAllocation,
    scope: &AuditScope,
) -> Payload {
    let config = facts.config;
    let without_driver = findings::gpus_without_driver(facts);
    found.retain(|one| !findings::is_only_about(one, &without_driver));
    found.retain(|one| scope.contains(one, facts.inspection.payload()));
    found.iter_mut().for_each(|one| finding::settle(one, config));
    outcome::mark_ignored(&mut found, config, &facts.inspection.observation().taken_at);
    found.sort_by(finding::order);
    let audit = summary(facts, granted, scope);
    let gpus = facts.inspection.gpus().to_vec();
    Payload { findings: Some(found), gpus: Some(gpus), audit: Some(audit), ..Payload::default() }
}

fn summary(facts: &Facts<'_>, granted: &CallerAllocation, scope: &AuditScope) -> Audit {
    let payload = facts.inspection.payload();
    let mut remarks = facts.config.expired(&facts.inspection.observation().taken_at);
    if !scope.is_here(payload) {
        remarks.push("the job has no cgroup here".to_owned());
    }
    remarks.extend(analyse::unknown_parts(payload).into_iter().map(|what| format!("it is not known {what}")));
    Audit {
        checked: Checked {
            cgroups: facts.cgroups().len(),
            tenants: facts.tenants.len(),
            processes: facts.processes().count(),
            gpus: facts.inspection.gpus().len(),
        },
        unknown: analyse::has_unknown(payload),
        remarks,
        options: AuditOptions { allocated: granted.list.clone(), ..AuditOptions::default() },
        ..Audit::default()
    }
}
