//! GPUs and boots that several nodes claim: a copied image, a cloned virtual machine, a
//! document that was played back.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Identity;
use super::gather::Gatherer;
use super::hostlist;
use crate::report::ClaimedTwice;

/// Sets of nodes that are listed.
const SETS: usize = 100;

/// What several nodes claim, by the nodes that do.
pub(super) fn of(gatherer: &Gatherer) -> Vec<ClaimedTwice> {
    let mut claimed: BTreeMap<Identity, BTreeSet<&str>> = BTreeMap::new();
    for (name, node) in &gatherer.nodes {
        for identity in node.state.iter().flat_map(|state| &state.what.identities) {
            claimed.entry(*identity).or_default().insert(name);
        }
    }
    let mut by_nodes: BTreeMap<BTreeSet<&str>, (usize, bool)> = BTreeMap::new();
    for (identity, nodes) in claimed.into_iter().filter(|(_, nodes)| nodes.len() > 1) {
        let (gpus, boot) = by_nodes.entry(nodes).or_default();
        match identity {
            Identity::Gpu(_) => *gpus += 1,
            Identity::Boot(_) => *boot = true,
        }
    }
    let one = |(nodes, (gpus, boot)): (BTreeSet<&str>, (usize, bool))| ClaimedTwice {
        gpus,
        boot,
        on: hostlist::set(nodes),
    };
    by_nodes.into_iter().take(SETS).map(one).collect()
}
