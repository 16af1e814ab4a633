//! Reads the lists of programs of all monitored cgroups: by one query for each
//! cgroup, or by one walk of a BPF iterator over all of them.
//!
//! A walk takes a third of the time of the queries, but loading the iterator takes
//! as long as ten checks of thousands of cgroups. So few cgroups are queried, and
//! many are read by the iterator if it works here.

mod iterator;
mod record;
mod self_test;

use super::nodes::{CgroupNode, Nodes};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::heap;

pub use iterator::{ListsError, Walk};
pub use record::{Listed, Walked};

/// From this many cgroups on the iterator is used; fewer are queried one by one.
const MANY: usize = 500;
/// The iterator is not used if it would show this many times the monitored
/// cgroups.
const TIMES: usize = 3;
/// After this many failed walks in a row the iterator is not used any more.
const FAILURES: u8 = 3;

/// How the lists of programs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// `BPF_PROG_QUERY` on every cgroup.
    Queries,
    /// A BPF iterator over cgroups. Needs `CAP_BPF` and `CAP_PERFMON`, and
    /// Linux 6.1 with BTF.
    Iterator,
}

/// The way that is in use.
#[derive(Debug)]
pub(super) struct ListReader {
    walk: Option<Walk>,
    /// Fewer cgroups than this are queried one by one.
    least: usize,
    failures: u8,
}

impl ListReader {
    /// Queries, which always work if anything does.
    pub(super) fn by_queries() -> Self {
        Self { walk: None, least: MANY, failures: 0 }
    }

    /// The way that the caller names, or else the better one. The iterator is used
    /// only if it loads and agrees with the queries about all of `nodes`.
    pub(super) fn choose(hierarchy: &Hierarchy, nodes: &Nodes, wanted: Option<ListSource>) -> Self {
        let least = if wanted == Some(ListSource::Iterator) { 0 } else { MANY };
        let count = nodes.len();
        if wanted == Some(ListSource::Queries) || count < least {
            return Self::by_queries();
        }
        let tried = Walk::load(&hierarchy.handle, room(nodes)).and_then(|mut walk| {
            let walked = walk.read()?;
            Ok((walk, walked))
        });
        heap::give_back();
        // Without the iterator the queries answer the same.
        let walk = tried.ok().filter(|(_, walked)| {
            let is_worth_it = least == 0 || walked.len() <= count.saturating_mul(TIMES);
            is_worth_it && self_test::passes(hierarchy, nodes, walked)
        });
        Self { walk: walk.map(|(walk, _)| walk), least, failures: 0 }
    }

    pub(super) fn source(&self) -> ListSource {
        if self.walk.is_some() { ListSource::Iterator } else { ListSource::Queries }
    }

    /// All lists at this moment, if a walk is better than `count` queries; `None` too
    /// if the walk fails.
    pub(super) fn walk(&mut self, count: usize) -> Option<Walked> {
        if count < self.least {
            return None;
        }
        let result = self.walk.as_mut()?.read();
        // The queries answer the same.
        self.failures = if result.is_ok() { 0 } else { self.failures.saturating_add(1) };
        if self.failures >= FAILURES {
            self.walk = None;
        }
        // The queries answer the same.
        result.ok()
    }
}

/// Bytes that the records take, and as many again for new cgroups.
fn room(nodes: &Nodes) -> usize {
    let ids = |node: &CgroupNode| {
        let own = node.cgroup.own.known().map_or(0, |own| own.programs.len());
        own + node.cgroup.effective.known().map_or(0, Vec::len)
    };
    nodes.iter().map(|(_, node)| record::room(ids(node))).sum::<usize>().saturating_mul(2)
}
