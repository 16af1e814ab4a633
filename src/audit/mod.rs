//! Audits GPU isolation: takes the facts and verdicts of a node and returns
//! findings.
//!
//! `findings` has one file for each family of findings, with their ids,
//! severities, manual pages and the function that looks for them. The other
//! files here are what all of them use. A finding names the facts it rests on;
//! whatever would excuse it is checked before it is reported. Nothing here
//! makes a system call.

mod config;
mod config_reader;
mod facts;
mod finding;
mod findings;
mod free;
mod kind;
mod outcome;
mod several;
mod tenants;
mod wording;

use crate::analyse::{self, AnalyseError, CallerAllocation, CommandAnswer, Inspection, TimeLimit, ToVerify};
use crate::model::InOrder as _;
use crate::observation::{Observation, Verification};
use crate::report::{Audit, AuditAnswer, AuditOptions, Checked, Finding, NodeAnswer};

pub use config::{ActivityLimits, Config, Daemon, Ignore, Mig, Sharing};
pub use config_reader::{ConfigError, no_such_id};
pub use findings::{ACCESS_LOST, kind, kinds};
pub use free::free;
pub use kind::Kind;
pub use outcome::{AuditScope, Baseline, compare, judge};

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
) -> Result<AuditAnswer, AnalyseError> {
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
) -> Result<AuditAnswer, AnalyseError> {
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
) -> Result<AuditAnswer, AnalyseError> {
    let inspection = Inspection::new(observation, granted, limit)?;
    let facts = Facts::new(&inspection, config);
    let mut found = find(&facts);
    let verified = ask(analyse::questions(&inspection));
    found.extend(findings::mismatches(&facts, &verified));
    Ok(answer(&facts, found, granted, scope))
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
) -> Result<(AuditAnswer, NodeAnswer), AnalyseError> {
    let inspection = Inspection::new(observation, granted, limit)?;
    let facts = Facts::new(&inspection, config);
    let audit = answer(&facts, find(&facts), granted, &AuditScope::default());
    Ok((audit, inspection.into_payload()))
}

fn find(facts: &Facts<'_>) -> Vec<Finding> {
    findings::FAMILIES.iter().flat_map(|family| (family.find)(facts)).collect()
}

fn answer(
    facts: &Facts<'_>,
    mut found: Vec<Finding>,
    granted: &CallerAllocation,
    scope: &AuditScope,
) -> AuditAnswer {
    let config = facts.config;
    let without_driver = findings::gpus_without_driver(facts);
    found.retain(|one| !findings::is_only_about(one, &without_driver));
    found.retain(|one| scope.contains(one, facts.inspection.payload()));
    // What is accepted of one GPU hides nothing of another.
    outcome::mark_ignored(&mut found, config, &facts.observation().taken_at);
    found.iter_mut().for_each(|one| finding::settle(one, config));
    let mut found = several::join(found);
    found.order_by(finding::order);
    let audit = summary(facts, granted, scope);
    let gpus = facts.gpus().to_vec();
    AuditAnswer { gpus, findings: found, audit, observation: None }
}

fn summary(facts: &Facts<'_>, granted: &CallerAllocation, scope: &AuditScope) -> Audit {
    let payload = facts.inspection.payload();
    let mut remarks = facts.config.expired(&facts.observation().taken_at);
    if !scope.is_here(payload) {
        remarks.push("the job has no cgroup here".to_owned());
    }
    remarks.extend(analyse::unknown_parts(payload).into_iter().map(|what| format!("it is not known {what}")));
    remarks.extend(findings::refusals_lost(facts));
    Audit {
        checked: Checked {
            cgroups: facts.places.len(),
            tenants: facts.tenants.len(),
            processes: facts.processes().count(),
            gpus: facts.gpus().len(),
        },
        unknown: payload.has_unknown(),
        remarks,
        options: AuditOptions { allocated: granted.list.clone(), ..AuditOptions::default() },
        ..Audit::default()
    }
}
