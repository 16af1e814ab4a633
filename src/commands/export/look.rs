//! Makes an exposition: one look at the node, and the metrics that it gives.

use crate::audit;
use crate::cli::ExportArgs;
use crate::commands::files::saved;
use crate::commands::invocation::{Failure, Invocation};
use crate::commands::resident::look::{Look, Looker};
use crate::export::{self, Answers, Family, JobMapping};
use crate::observation::Problem;
use crate::report::{FindingKind, NodeAnswer};

/// Looks at the node, and makes its metrics.
pub(super) struct Collector<'a> {
    args: &'a ExportArgs,
    pub(super) looker: Looker,
    kinds: Vec<FindingKind>,
}

/// The metrics of one look (what Prometheus calls an exposition), and the files that go with them.
pub(super) struct Exposition {
    /// The metrics.
    pub families: Vec<Family>,
    /// Which jobs have which GPUs.
    pub mapping: JobMapping,
    /// The answer of `node` that all of it was made from.
    pub node: NodeAnswer,
    /// Whether all could be seen and every verdict is known.
    pub complete: bool,
    /// What could not be seen, and what is to be said besides.
    pub errors: Vec<Problem>,
}

impl<'a> Collector<'a> {
    /// Reads the configuration.
    pub(super) fn new(invocation: &mut Invocation<'_>, args: &'a ExportArgs) -> Result<Self, Failure> {
        let config = args.config.as_deref();
        let looker = Looker::new(invocation, config, args.state.clone(), args.runs_on())?;
        Ok(Self { args, looker, kinds: audit::kinds().map(audit::Kind::document).collect() })
    }

    /// Looks at the live node, or at the saved one that the caller names.
    pub(super) fn look(&self, invocation: &mut Invocation<'_>) -> Result<Exposition, Failure> {
        let is_live = invocation.global.from.is_none();
        let look = match saved::from_option(invocation)? {
            Some(observation) => self.looker.judge(invocation, observation)?,
            None => self.looker.look(invocation)?,
        };
        Ok(self.exposition(look, is_live))
    }

    /// The metrics of a look.
    pub(super) fn exposition(&self, look: Look, is_live: bool) -> Exposition {
        let families = export::families(&Answers {
            node: &look.node,
            audit: &look.audit,
            kinds: &self.kinds,
            duration: is_live.then_some(look.duration),
            owner_limit: self.args.owners,
        });
        let mapping = JobMapping::of(&look.node.payload);
        let errors = look.node.errors.into_iter().chain(look.remark).collect();
        Exposition { families, mapping, complete: look.node.complete, errors, node: look.node.payload }
    }
}
