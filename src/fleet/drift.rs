//! Lists how nodes differ: each property with its values, the value of most nodes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::answer::State;
use super::gather::Gatherer;
use super::hostlist;
use crate::model::InOrder as _;
use crate::report::{Drift, DriftValue};

/// Values of one property that are listed.
const VALUES: usize = 100;
/// Properties that are listed.
const PROPERTIES: usize = 200;
/// Properties that a node is without where it does not name them.
const ALSO_NONE: [&str; 2] = ["slurm cluster", "MIG instances"];

/// Properties of all nodes, those in which they differ first.
pub(super) fn of(gatherer: &Gatherer) -> Vec<Drift> {
    let words = &gatherer.tables.words;
    let mut found: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for (name, node) in &gatherer.nodes {
        let state = node.state.iter().flat_map(|state| &state.what.properties).copied();
        let config = node.audit.as_ref().map(|audit| (("audit configuration"), words.get(audit.what.config)));
        let properties = state.map(|(what, value)| (words.get(what), words.get(value))).chain(config);
        for (what, value) in properties {
            found.entry(what).or_default().entry(value).or_default().push(name);
        }
    }
    for (what, values) in &mut found {
        lacking(gatherer, what, values);
    }
    let mut all: Vec<Drift> = found.into_iter().map(|(what, values)| one(what, values)).collect();
    all.order_by(|a, b| (a.values.len() < 2, &a.what).cmp(&(b.values.len() < 2, &b.what)));
    all.truncate(PROPERTIES);
    all
}

/// Adds the nodes that lack what others have: a driver, MIG instances, a Slurm cluster. Of
/// another driver than NVIDIA's a node tells the version only if its setup was saved.
fn lacking<'a>(gatherer: &'a Gatherer, what: &str, values: &mut BTreeMap<&'a str, Vec<&'a str>>) {
    let is_driver = what.starts_with("driver ");
    let value = if is_driver && what != "driver nvidia" { "not told" } else { "none" };
    if !is_driver && !ALSO_NONE.contains(&what) {
        return;
    }
    let have: BTreeSet<&str> = values.values().flatten().copied().collect();
    let states = gatherer.nodes.iter().filter_map(|(name, node)| Some((name, &node.state.as_ref()?.what)));
    let tells = |state: &State| state.has_drivers || !is_driver;
    let lack: Vec<&str> = states
        .filter(|(name, state)| tells(state) && !have.contains(name.as_str()))
        .map(|(name, _)| name.as_str())
        .collect();
    if !lack.is_empty() {
        values.entry(value).or_default().extend(lack);
    }
}

fn one(what: &str, values: BTreeMap<&str, Vec<&str>>) -> Drift {
    let mut values: Vec<(&str, Vec<&str>)> = values.into_iter().collect();
    values.order_by(|(a, x), (b, y)| (Reverse(x.len()), a).cmp(&(Reverse(y.len()), b)));
    let rest = values.split_off(values.len().min(VALUES));
    Drift {
        what: what.to_owned(),
        values: values
            .into_iter()
            .map(|(value, nodes)| DriftValue { value: value.to_owned(), on: hostlist::set(nodes) })
            .collect(),
        omitted: rest.iter().map(|(_, nodes)| nodes.len()).sum(),
    }
}
