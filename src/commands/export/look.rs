//! One look at the node, and the metrics that it gives.

use std::path::PathBuf;
use std::time::Instant;

use crate::analyse::CallerAllocation;
use crate::audit::{self, Config};
use crate::cli::ExportArgs;
use crate::commands::files::{self, activity_state, saved};
use crate::commands::invocation::{Failure, Invocation, envelope, late};
use crate::export::{self, Answers, Family, JobMapping};
use crate::observation::{Observation, Problem};
use crate::observe::{self, CgroupTarget};
use crate::policy::deadline;
use crate::report::{FindingKind, Payload};

/// Looks at the node.
pub(super) struct Looker<'a> {
    args: &'a ExportArgs,
    config: Config,
    kinds: Vec<FindingKind>,
}

/// The result of one look.
pub(super) struct Look {
    /// Its metrics.
    pub families: Vec<Family>,
    /// Which jobs have which GPUs.
    pub mapping: JobMapping,
    /// The answer of `node` that all of it was made from.
    pub node: Payload,
    /// Whether all could be seen and every verdict is known.
    pub complete: bool,
    /// What could not be seen, and what is to be said besides.
    pub errors: Vec<Problem>,
}

impl<'a> Looker<'a> {
    /// Reads the configuration.
    pub(super) fn new(invocation: &mut Invocation<'_>, args: &'a ExportArgs) -> Result<Self, Failure> {
        invocation.wanted_facts.detail = true;
        invocation.wanted_facts.units = true;
        let (config, _) = files::config(invocation, args.config.as_deref(), None)?;
        Ok(Self { args, config, kinds: audit::kinds().map(audit::Kind::document).collect() })
    }

    /// Looks at the live node, or at the saved one that the caller names.
    pub(super) fn look(&mut self, invocation: &mut Invocation<'_>) -> Result<Look, Failure> {
        let begun = Instant::now();
        let mut observation = match saved::from_option(invocation)? {
            Some(observation) => observation,
            None => {
                let all = CgroupTarget { path: PathBuf::from("/"), recursive: true };
                observe::cgroups(&invocation.options(), &[all])?
            }
        };
        let remark = self.add_activity(invocation, &mut observation)?;
        let granted = CallerAllocation::default();
        let (audit, node) = audit::audit_and_node(&observation, &granted, &self.config)?;
        let mut node = envelope::document("node", &observation, node);
        if deadline::was_missed() {
            node.errors.push(late());
            node.complete = false;
        }
        let families = export::families(&Answers {
            node: &node,
            audit: &audit,
            kinds: &self.kinds,
            duration: invocation.global.from.is_none().then(|| begun.elapsed().as_secs_f64()),
            owner_limit: self.args.owners,
        });
        let mapping = JobMapping::of(&node.payload);
        let errors = node.errors.into_iter().chain(remark).collect();
        Ok(Look { families, mapping, complete: node.complete, errors, node: node.payload })
    }

    /// Adds the counts of a running `gpumap activity`. One that runs on copes with a
    /// file that is not there yet.
    fn add_activity(
        &self,
        invocation: &mut Invocation<'_>,
        observation: &mut Observation,
    ) -> Result<Option<Problem>, Failure> {
        match activity_state::add_silently(invocation, self.args.state.as_deref(), observation) {
            Err(Failure::Problem(problem)) if self.args.runs_on() => {
                observation.errors.push(*problem);
                Ok(None)
            }
            added => added,
        }
    }
}
