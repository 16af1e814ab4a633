//! Metrics of a node, from its answers: what `gpumap export` gives Prometheus.
//!
//! Names follow the rules of the field: `gpumap_` first, base units, `_total` for
//! counters, `_info` for facts that are labels. No label has a pid, a path or free
//! text. Owners and GPUs are the only things that there are many of; owners have a
//! limit, and how many it left out is a metric. Nothing here reads or writes
//! anything; `render` makes text of it.

mod activity;
mod answers;
mod changes;
mod dcgm;
mod metric;
mod node;
mod own_process;
mod owners;

pub use answers::Answers;
pub use changes::Changes;
pub use dcgm::JobMapping;
pub use metric::{CATALOGUE, Family, Metric, MetricKind, Sample};
pub use own_process::own_process;

use owners::OwnerNames;

/// Every metric that the answers give, in the order of [`CATALOGUE`]. Those without a
/// sample are left out.
pub fn families(answers: &Answers<'_>) -> Vec<Family> {
    let payload = &answers.node.payload;
    let names = OwnerNames::new(payload.owners.as_deref().unwrap_or_default(), answers.owner_limit);
    let parts = [
        node::look_families(answers),
        node::gpu_families(payload),
        owners::families(&names),
        node::finding_families(answers),
        activity::families(payload.activity.as_deref(), &names),
        owners::limit_families(payload, &names),
    ];
    parts.into_iter().flatten().filter(|family| !family.samples.is_empty()).collect()
}

#[cfg(test)]
mod tests;
