//! Metrics of a node, from its answers: what `gpumap export` gives Prometheus.
//!
//! Names follow the rules of the field: `gpumap_` first, base units, `_total` for
//! counters, `_info` for facts that are labels. No label has a pid, a path or free
//! text. Owners and GPUs are the only things that there are many of; owners have a
//! limit, and how many it left out is a metric. Nothing here reads or writes
//! anything; `render` makes text of it.

mod activity;
mod catalogue;
mod changes;
mod dcgm;
mod findings;
mod gpus;
mod look;
mod metric;
mod owner_name;
mod owners;
mod vgpu;

pub use catalogue::CATALOGUE;
pub use changes::Changes;
pub use dcgm::JobMapping;
pub use metric::{Family, Metric, MetricKind, Sample};

use crate::report::{Document, FindingKind, Payload};
use owner_name::OwnerNames;

/// What metrics are made of.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    /// The answer of `node`.
    pub node: &'a Document,
    /// The answer of `audit` for the same facts.
    pub audit: &'a Payload,
    /// Every kind of finding, so that those that were not found are 0.
    pub kinds: &'a [FindingKind],
    /// How long it took to observe and to analyse, in seconds; `None` for a saved
    /// node.
    pub duration: Option<f64>,
    /// How many owners have samples of their own at most.
    pub owner_limit: usize,
}

/// Every metric that the answers give, in the order of [`CATALOGUE`]. Those without a
/// sample are left out.
pub fn families(answers: &Answers<'_>) -> Vec<Family> {
    let payload = &answers.node.payload;
    let names = OwnerNames::new(payload.owners.as_deref().unwrap_or_default(), answers.owner_limit);
    let parts = [
        look::families(answers),
        gpus::families(payload),
        owners::families(&names),
        findings::families(answers),
        activity::families(payload.activity.as_deref(), &names),
        vgpu::families(payload, &names),
    ];
    parts.into_iter().flatten().filter(|family| !family.samples.is_empty()).collect()
}

#[cfg(test)]
mod tests;
