//! What every followed cgroup's lists are now: a query for each, or one walk of
//! a BPF iterator over all of them.
//!
//! A walk takes a third of the time of the queries, but loading it takes as
//! long as ten looks at thousands of cgroups. So few cgroups are asked by
//! queries; many by the iterator if it works here, which is found out by trying.

mod iterator;
mod record;
mod self_test;

use super::nodes::{Node, Nodes};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::sys::heap;

pub use iterator::{ListsError, Walk};
pub use record::{Listed, Walked};

/// As many cgroups are walked over, fewer are asked each.
const MANY: usize = 500;
/// The iterator is not used where it would show so many times the cgroups that
/// are followed.
const TIMES: usize = 3;
/// Walks that fail one after the other before the iterator is given up.
const FAILURES: u8 = 3;

/// Where the lists of programs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// `BPF_PROG_QUERY` on every cgroup.
    Queries,
    /// A BPF iterator over cgroups. Needs `CAP_BPF` and `CAP_PERFMON`, and
    /// Linux 6.1 with BTF.
    Iterator,
}

/// The way in use.
#[derive(Debug)]
pub(super) struct Lists {
    walk: Option<Walk>,
    /// Fewer cgroups than this are asked each.
    least: usize,
    failures: u8,
}

impl Lists {
    /// By queries, which work wherever anything does.
    pub(super) fn by_queries() -> Self {
        Self { walk: None, least: MANY, failures: 0 }
    }

    /// The source asked for, else the better one. The iterator only if it can
    /// be loaded and says what the queries say about all of `nodes`.
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
        let walk = tried.ok().filter(|(_, walked)| {
            let is_worth_it = least == 0 || walked.len() <= count.saturating_mul(TIMES);
            is_worth_it && self_test::passes(hierarchy, nodes, walked)
        });
        Self { walk: walk.map(|(walk, _)| walk), least, failures: 0 }
    }

    pub(super) fn source(&self) -> ListSource {
        if self.walk.is_some() { ListSource::Iterator } else { ListSource::Queries }
    }

    /// All lists as they are at this moment, if `count` cgroups are better
    /// walked over than asked each; `None` too if this walk fails.
    pub(super) fn walk(&mut self, count: usize) -> Option<Walked> {
        if count < self.least {
            return None;
        }
        let result = self.walk.as_mut()?.read();
        self.failures = if result.is_ok() { 0 } else { self.failures.saturating_add(1) };
        if self.failures >= FAILURES {
            self.walk = None;
        }
        result.ok()
    }
}

/// Bytes of records, with as much again for cgroups that come.
fn room(nodes: &Nodes) -> usize {
    let ids = |node: &Node| {
        let own = node.cgroup.own.known().map_or(0, |own| own.programs.len());
        own + node.cgroup.effective.known().map_or(0, Vec::len)
    };
    nodes.iter().map(|(_, node)| record::room(ids(node))).sum::<usize>().saturating_mul(2)
}
