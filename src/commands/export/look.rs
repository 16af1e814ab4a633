//! Makes an exposition: one look at the node, and the metrics that it gives.

use std::time::Instant;

use crate::audit;
use crate::cli::ExportArgs;
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::look;
use crate::export::{self, Answers, Family, JobMapping};
use crate::observation::Problem;
use crate::report::{FindingKind, Payload};

/// Looks at the node, and makes its metrics.
pub(super) struct Collector<'a> {
    args: &'a ExportArgs,
    looker: look::Looker,
    kinds: Vec<FindingKind>,
}

/// The metrics of one look (what Prometheus calls an exposition), and the files that go with them.
pub(super) struct Exposition {
    /// The metrics.
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

impl<'a> Collector<'a> {
    /// Reads the configuration.
    pub(super) fn new(invocation: &mut Invocation<'_>, args: &'a ExportArgs) -> Result<Self, Failure> {
        let config = args.config.as_deref();
        let looker = look::Looker::new(invocation, config, args.state.clone(), args.runs_on())?;
        Ok(Self { args, looker, kinds: audit::kinds().map(audit::Kind::document).collect() })
    }

    /// Looks at the live node, or at the saved one that the caller names.
    pub(super) fn look(&mut self, invocation: &mut Invocation<'_>) -> Result<Exposition, Failure> {
        let begun = Instant::now();
        let is_live = invocation.global.from.is_none();
        let look = match saved::from_option(invocation)? {
            Some(observation) => self.looker.judge(invocation, observation)?,
            None => self.looker.look(invocation)?,
        };
        let families = export::families(&Answers {
            node: &look.node,
            audit: &look.audit,
            kinds: &self.kinds,
            duration: is_live.then(|| begun.elapsed().as_secs_f64()),
            owner_limit: self.args.owners,
        });
        let mapping = JobMapping::of(&look.node.payload);
        let errors = look.node.errors.into_iter().chain(look.remark).collect();
        Ok(Exposition { families, mapping, complete: look.node.complete, errors, node: look.node.payload })
    }

    /// The same again, with a time limit of its own.
    pub(super) fn look_again(&mut self, invocation: &mut Invocation<'_>) -> Result<Exposition, Failure> {
        invocation.begin_again();
        self.look(invocation)
    }
}
