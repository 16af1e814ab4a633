//! What could not be seen on the nodes, by code; when they were looked at, and which say
//! another time than the rest.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::answer::Gaps;
use super::gather::{GatheredNode, Gatherer};
use super::hostlist;
use super::limits::Words;
use crate::model::InOrder as _;
use crate::report::{FleetNodeProblem, FleetProblem, FleetTimes, NodeSet};

/// Codes that are listed.
const CODES: usize = 200;

/// The code of nodes that are not complete and name no problem.
const UNKNOWN: &str = "unknown";

fn gaps(node: &GatheredNode) -> impl Iterator<Item = &Gaps> {
    let state = node.state.as_ref().map(|part| &part.gaps);
    state.into_iter().chain(node.audit.as_ref().map(|part| &part.gaps))
}

/// Whether everything could be seen on a node.
pub(super) fn is_complete(node: &GatheredNode) -> bool {
    gaps(node).all(|gaps| gaps.complete && gaps.problems.is_empty())
}

/// Nodes of which something could not be seen.
pub(super) fn incomplete(gatherer: &Gatherer) -> NodeSet {
    let names = gatherer.nodes.iter().filter(|(_, node)| !is_complete(node)).map(|(name, _)| name.as_str());
    hostlist::set(names)
}

/// The problems of one node by code: how many, and one of them. A node with two documents
/// names the same problems twice.
fn by_code<'a>(words: &'a Words, node: &GatheredNode) -> BTreeMap<&'a str, (usize, &'a str)> {
    let mut own: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for gaps in gaps(node) {
        for (code, (count, example)) in &gaps.problems {
            let entry = own.entry(words.get(*code)).or_insert((0, words.get(*example)));
            *entry = ((*count).max(entry.0), entry.1.min(words.get(*example)));
        }
        if !gaps.complete && gaps.problems.is_empty() {
            own.insert(UNKNOWN, (1, "a verdict, a set or a process is unknown"));
        }
    }
    own
}

/// The problems of one node.
pub(super) fn of_node(words: &Words, node: &GatheredNode) -> Vec<FleetNodeProblem> {
    let one = |(code, (count, example)): (&str, (usize, &str))| FleetNodeProblem {
        code: code.to_owned(),
        count,
        example: example.to_owned(),
    };
    by_code(words, node).into_iter().map(one).collect()
}

/// The problems of one code.
#[derive(Debug, Default)]
struct Group<'a> {
    count: usize,
    nodes: Vec<&'a str>,
    example: Option<&'a str>,
}

/// Problems, that of most nodes first.
pub(super) fn of(gatherer: &Gatherer) -> Vec<FleetProblem> {
    let words = &gatherer.tables.words;
    let mut found: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for (name, node) in &gatherer.nodes {
        for (code, (count, example)) in by_code(words, node) {
            let group = found.entry(code).or_default();
            group.count = group.count.saturating_add(count);
            group.nodes.push(name);
            group.example = Some(group.example.map_or(example, |former| former.min(example)));
        }
    }
    let one = |(code, group): (&str, Group<'_>)| FleetProblem {
        code: code.to_owned(),
        count: group.count,
        on: hostlist::set(group.nodes),
        example: group.example.unwrap_or_default().to_owned(),
    };
    let mut all: Vec<FleetProblem> = found.into_iter().map(one).collect();
    all.order_by(|a, b| (b.on.count, &a.code).cmp(&(a.on.count, &b.code)));
    all.truncate(CODES);
    all
}

/// Answers that are further from the one in the middle are of another time.
const APART: SignedDuration = SignedDuration::from_mins(10);

/// The times; `None` without nodes.
pub(super) fn times(gatherer: &Gatherer) -> Option<FleetTimes> {
    let mut all: Vec<(Timestamp, &str)> = Vec::new();
    for (name, node) in &gatherer.nodes {
        let state = node.state.as_ref().map(|part| part.taken_at);
        let audit = node.audit.as_ref().map(|part| part.taken_at);
        all.extend([state, audit].into_iter().flatten().map(|at| (at, name.as_str())));
    }
    all.sort_unstable();
    let (first, last) = (all.first()?.0, all.last()?.0);
    let middle = all.get(all.len() / 2)?.0;
    let is_apart = |at: Timestamp| at.duration_since(middle).abs() > APART;
    let apart = all.iter().filter(|(at, _)| is_apart(*at)).map(|(_, name)| *name);
    Some(FleetTimes {
        first: first.into(),
        last: last.into(),
        middle: middle.into(),
        apart: hostlist::set(apart),
    })
}
