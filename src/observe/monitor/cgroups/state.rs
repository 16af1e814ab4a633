//! What is kept of the cgroups that are followed, and what one look found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::lists::Lists;
use super::nodes::Nodes;
use super::notification::Notifier;
use crate::observation::{Cgroup, Map, Observation, Problem, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::query::ListQuery;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::programs::cache::ProgramCache;

/// However well being told works, everything is listed anew this often.
pub(super) const RESCAN: Duration = Duration::from_secs(60);
/// Problems that are kept until they are fetched.
const MAX_PROBLEMS: usize = 1000;
/// The revision of a list that was never changed.
pub(super) const FIRST_REVISION: u64 = 1;

/// What is known of the cgroups that are followed.
#[derive(Debug)]
pub(super) struct MonitoredCgroups {
    pub(super) options: Options,
    pub(super) hierarchy: Hierarchy,
    pub(super) blank: Observation,
    pub(super) nodes: Nodes,
    pub(super) notifier: Notifier,
    pub(super) lists: Lists,
    pub(super) list_query: ListQuery,
    pub(super) cache: ProgramCache,
    pub(super) problems: Vec<Problem>,
    pub(super) has_revisions: bool,
    pub(super) rescan_at: Instant,
    pub(super) facts_at: Option<Instant>,
    /// The map that was read again last.
    pub(super) map_turn: u32,
}

/// What one look found.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Cgroups as they were, if they changed or are gone.
    pub(super) before: BTreeMap<Text, Cgroup>,
    /// Cgroups that came.
    pub(super) fresh: BTreeSet<Text>,
    /// Cgroups whose own programs changed, with the number of changes that the
    /// kernel has counted.
    pub(super) changed: BTreeMap<Text, u64>,
    /// Cgroups whose children are to be listed.
    pub(super) stale: BTreeSet<Text>,
    /// Maps that were read again, as they were.
    pub(super) old_maps: BTreeMap<u32, Map>,
    /// Cgroups on which programs are in force that read one of them.
    pub(super) touched: BTreeSet<Text>,
}

impl MonitoredCgroups {
    /// Keeps the problems until they are fetched, each once.
    pub(super) fn tidy(&mut self, log: Log) {
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        let known = |problem: &Problem| self.problems.contains(problem);
        let new: Vec<Problem> =
            log.problems.into_iter().filter(|problem| !known(problem)).take(room).collect();
        self.problems.extend(new);
    }
}

impl Differences {
    pub(super) fn is_nothing(&self) -> bool {
        self.before.is_empty() && self.fresh.is_empty() && self.changed.is_empty() && self.touched.is_empty()
    }
}
