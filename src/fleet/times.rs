//! When the nodes were looked at, and which say another time than the rest.

use jiff::{SignedDuration, Timestamp};

use super::gather::Gatherer;
use super::hostlist;
use crate::report::FleetTimes;

/// Answers that are further from the one in the middle are of another time.
const APART: SignedDuration = SignedDuration::from_mins(10);

/// The times; `None` without nodes.
pub(super) fn of(gatherer: &Gatherer) -> Option<FleetTimes> {
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
