//! What the monitor keeps of cgroups, and what one check found.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::lists::ListReader;
use super::nodes::Nodes;
use super::notification::Notifier;
use crate::observation::{Cgroup, Map, Observation, Problem, Program, Text};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::query::ListQuery;
use crate::observe::options::Options;
use crate::observe::problems::Log;
use crate::observe::programs::cache::ProgramCache;

/// How often everything is listed again, even if notification works.
pub(super) const RESCAN: Duration = Duration::from_secs(60);
/// Problems that are kept until they are fetched.
const MAX_PROBLEMS: usize = 1000;
/// The revision of a list that was never changed.
pub(super) const FIRST_REVISION: u64 = 1;

/// The state of the monitor.
#[derive(Debug)]
pub(super) struct MonitoredCgroups {
    pub(super) options: Options,
    pub(super) hierarchy: Hierarchy,
    pub(super) blank: Observation,
    pub(super) nodes: Nodes,
    pub(super) notifier: Notifier,
    pub(super) lists: ListReader,
    pub(super) list_query: ListQuery,
    pub(super) cache: ProgramCache,
    pub(super) problems: Vec<Problem>,
    pub(super) has_revisions: bool,
    pub(super) rescan_at: Instant,
    pub(super) facts_at: Option<Instant>,
    /// The map that was read last.
    pub(super) map_turn: u32,
    /// When replaced functions were last asked for.
    pub(super) replacements_at: Instant,
}

/// The differences that one check found.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Changed and removed cgroups as they were before.
    pub(super) before: BTreeMap<Text, Cgroup>,
    /// New cgroups.
    pub(super) fresh: BTreeSet<Text>,
    /// Cgroups whose own programs changed, with the number of changes that the
    /// kernel counted.
    pub(super) changed: BTreeMap<Text, u64>,
    /// Cgroups whose children have to be listed again.
    pub(super) stale: BTreeSet<Text>,
    /// Changed maps as they were before.
    pub(super) old_maps: BTreeMap<u32, Map>,
    /// Programs of which other functions are replaced now, as they were before.
    pub(super) old_programs: BTreeMap<u32, Program>,
    /// Cgroups on which programs are in force that read a changed map, or of which
    /// a function was replaced.
    pub(super) touched: BTreeSet<Text>,
}

impl MonitoredCgroups {
    /// Keeps problems, each once, until the caller fetches them.
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
