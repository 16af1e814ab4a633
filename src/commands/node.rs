//! `gpumap node`: the node's GPUs and whose they are.

use std::path::Path;

use super::files::{self, activity_state, saved};
use super::invocation::{Failure, Invocation};
use super::own_access;
use super::subject::allocation;
use crate::analyse::{CallerAllocation, CommandAnswer};
use crate::audit::{self, Config};
use crate::cli::{Exit, NodeArgs};
use crate::model::{FailOn, ProblemCode};
use crate::observation::Observation;
use crate::observe::{self, CgroupTarget};
use crate::report::{AuditAnswer, AuditOptions, CompactAnswer, NodeAnswer};
use crate::{analyse, fleet, render};

/// Runs the command. A saved observation answers for all that it was taken
/// for.
pub(super) fn run(invocation: &mut Invocation<'_>, args: &NodeArgs) -> Result<Exit, Failure> {
    if args.compact && !invocation.global.json {
        let why = "there is no table of it";
        return Err(Failure::new(ProblemCode::Usage, "--compact", why, "add --json"));
    }
    allocation::request(invocation, &args.allocation.slurm)?;
    // What the audit needs.
    invocation.wanted_facts.units = !invocation.global.json || args.audit;
    let observation = whole(invocation, args.state.as_deref())?;
    let granted = allocation::granted(&args.allocation);
    if !invocation.global.json {
        return with_findings(invocation, &observation, &granted);
    }
    if args.audit {
        let (config, file) = files::config(invocation, None, None)?;
        let (mut found, payload) =
            audit::audit_and_node(&observation, &granted, &config, &invocation.decoding)?;
        audit::judge(&mut found, FailOn::Never);
        found.audit.options =
            AuditOptions { allocated: granted.list, config: file, ..AuditOptions::default() };
        return compact(invocation, observation, &payload, Some(found));
    }
    let mut payload = analyse::node(&observation, &granted, &invocation.decoding)?;
    if args.compact {
        return compact(invocation, observation, &payload, None);
    }
    own_access::add(invocation, &mut payload, |asked, own| own.is_at_or_below(asked));
    invocation.answer(&observation, payload, render::node)
}

/// Prints the node, and below it how much an audit finds.
fn with_findings(
    invocation: &mut Invocation<'_>,
    observation: &Observation,
    granted: &CallerAllocation,
) -> Result<Exit, Failure> {
    let (config, not_judged) = match files::config(invocation, None, None) {
        Ok((config, _)) => (config, None),
        Err(failure) => (Config::default(), Some(failure.to_string())),
    };
    let (mut found, mut payload) =
        audit::audit_and_node(observation, granted, &config, &invocation.decoding)?;
    audit::judge(&mut found, FailOn::Never);
    own_access::add(invocation, &mut payload, |asked, own| own.is_at_or_below(asked));
    invocation.answer(observation, payload, |out, style, payload| match &not_judged {
        None => render::node_with_findings(out, style, payload, &found),
        Some(why) => {
            render::node(out, style, payload)?;
            writeln!(out, "\ngpumap audit cannot work: {}", render::sanitize::text(why))
        }
    })
}

/// All that is observed of the node, or saved of one.
pub(super) fn whole(invocation: &mut Invocation<'_>, state: Option<&Path>) -> Result<Observation, Failure> {
    let mut observation = match saved::from_option(invocation)? {
        Some(observation) => observation,
        None => observe::cgroups(&invocation.options(), &[CgroupTarget::all()])?,
    };
    activity_state::add(invocation, state, &mut observation)?;
    Ok(observation)
}

/// Prints the compact form, with the findings of an audit if there was one. It is as
/// complete as the whole answer.
fn compact(
    invocation: &mut Invocation<'_>,
    mut observation: Observation,
    payload: &NodeAnswer,
    found: Option<AuditAnswer>,
) -> Result<Exit, Failure> {
    let compact = fleet::compact(&observation, payload);
    observation.errors = fleet::first_problems(&observation.errors);
    let is_unknown = payload.has_unknown();
    let (findings, audit) = found.map(|found| (found.findings, found.audit)).unzip();
    invocation.answer_about(
        &observation,
        CompactAnswer { compact, findings, audit },
        is_unknown,
        |_, _, _| Ok(()),
    )
}
