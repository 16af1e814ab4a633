//! Cgroups followed over time: what is attached to each, kept up to date at
//! the cost of one query a cgroup, or of one walk over all of them.
//!
//! Attaching a program tells nobody. So every [`Follower::check`] asks each
//! cgroup for its own list, which since Linux 6.17 carries a revision (before,
//! lists are compared), and looks at its link count, which tells of children.
//! Where fanotify or inotify work they tell of cgroups that come and go, so
//! that a caller can wait for them instead of the next tick; fanotify leaves
//! none out, so that link counts are not asked for then.
//!
//! What is kept is bounded by the number of cgroups that exist. Maps that can
//! change are read again too, for programs decide by what they hold. The v1
//! controller is not followed.

mod children;
mod contents;
mod engine;
mod lists;
mod look;
mod nodes;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::ask::Asker;
use super::hierarchy::Hierarchy;
use super::log::Log;
use super::programs::Library;
use super::walk::Plan;
use super::{ObserveError, Options, Target, host};
use crate::observation::{Cgroup, Map, Observation, Problem, Text};
use engine::Teller;
use lists::Lists;
use nodes::Nodes;

pub use engine::Engine;
pub use lists::{Listed, ListsError, Source, Walk, Walked};
pub use step::Step;

/// However well being told works, everything is listed anew this often.
const RESCAN: Duration = Duration::from_secs(60);
/// Problems that are kept until they are fetched.
const MAX_PROBLEMS: usize = 1000;
/// The revision of a list that was never changed.
const FIRST_REVISION: u64 = 1;

/// Follows cgroups.
#[derive(Debug)]
pub struct Follower {
    options: Options,
    hierarchy: Hierarchy,
    blank: Observation,
    nodes: Nodes,
    teller: Teller,
    lists: Lists,
    asker: Asker,
    library: Library,
    problems: Vec<Problem>,
    has_revisions: bool,
    rescan_at: Instant,
    facts_at: Option<Instant>,
    /// The map that was read again last.
    map_turn: u32,
}

/// What one look found.
#[derive(Debug, Default)]
struct Found {
    /// Cgroups as they were, if they changed or are gone.
    before: BTreeMap<Text, Cgroup>,
    /// Cgroups that came.
    fresh: BTreeSet<Text>,
    /// Cgroups whose own programs changed, with the number of changes that the
    /// kernel has counted.
    changed: BTreeMap<Text, u64>,
    /// Cgroups whose children are to be listed.
    stale: BTreeSet<Text>,
    /// Maps that were read again, as they were.
    old_maps: BTreeMap<u32, Map>,
    /// Cgroups on which programs are in force that read one of them.
    touched: BTreeSet<Text>,
}

impl Follower {
    /// Starts to follow `targets` and their ancestors, told by `engine`, or by
    /// the best that works here. Without the right to query programs it
    /// follows nothing but says so in [`Self::problems`].
    ///
    /// # Errors
    ///
    /// As [`super::cgroups`].
    pub fn start(
        options: &Options,
        targets: &[Target],
        engine: Option<Engine>,
    ) -> Result<Self, ObserveError> {
        Self::start_with(options, targets, engine, None)
    }

    /// The same, with lists read from `source`, or from the better one.
    ///
    /// # Errors
    ///
    /// As [`super::cgroups`].
    pub fn start_with(
        options: &Options,
        targets: &[Target],
        engine: Option<Engine>,
        source: Option<Source>,
    ) -> Result<Self, ObserveError> {
        let hierarchy = Hierarchy::find(options)?;
        let (_, scope) = Plan::new(&hierarchy, targets)?;
        let mut follower = Self {
            options: options.clone(),
            blank: Observation { scope: scope.clone(), ..host::blank(options, Some(&hierarchy)) },
            nodes: Nodes::new(scope),
            // Before anything is listed: what comes from now on is told.
            teller: Teller::new(&hierarchy, engine),
            lists: Lists::by_queries(),
            asker: Asker::new(hierarchy.is_legacy()),
            hierarchy,
            library: Library::new(),
            problems: Vec::new(),
            has_revisions: false,
            rescan_at: Instant::now() + RESCAN,
            facts_at: None,
            map_turn: 0,
        };
        if !follower.hierarchy.is_legacy() {
            let mut found = Found::default();
            let mut log = Log::new(None);
            follower.admit(&"/".into(), &mut found, &mut log);
            follower.read(&mut found, &mut log);
            follower.tidy(log);
            follower.lists = Lists::choose(&follower.hierarchy, &follower.nodes, source);
        }
        Ok(follower)
    }

    /// Who tells: `revision+fanotify`, `revision+inotify`, the same with
    /// `lists` where the kernel counts no revisions, `polling`; then
    /// `, cgroup iterator` where lists are not asked for one by one.
    pub fn engine(&self) -> String {
        let teller = match (self.teller.engine(), self.has_revisions) {
            (Engine::Fanotify, true) => "revision+fanotify",
            (Engine::Fanotify, false) => "lists+fanotify",
            (Engine::Inotify, true) => "revision+inotify",
            (Engine::Inotify, false) => "lists+inotify",
            (Engine::Polling, _) => "polling",
        };
        match self.lists.source() {
            Source::Queries => teller.to_owned(),
            Source::Iterator => format!("{teller}, cgroup iterator"),
        }
    }

    /// Readable when cgroups came or went; `None` when polling.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.teller.fd()
    }

    /// What could not be seen since the last call.
    pub fn problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }

    /// Looks at every cgroup; `None` if no programs changed anywhere. Does not
    /// wait.
    pub fn check(&mut self) -> Option<Step> {
        if self.hierarchy.is_legacy() {
            return None;
        }
        let mut found = Found::default();
        let mut log = Log::new(None);
        self.listen(&mut found);
        self.sweep(&mut found);
        self.look_above(&mut found, &mut log);
        self.relist(&mut found, &mut log);
        self.reread_maps(&mut found, &mut log);
        let step = if found.is_nothing() { None } else { self.step(found, &mut log) };
        self.tidy(log);
        step
    }

    /// Keeps the problems until they are fetched, each once.
    fn tidy(&mut self, log: Log) {
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        let known = |problem: &Problem| self.problems.contains(problem);
        let new: Vec<Problem> =
            log.problems.into_iter().filter(|problem| !known(problem)).take(room).collect();
        self.problems.extend(new);
    }
}

impl Found {
    fn is_nothing(&self) -> bool {
        self.before.is_empty() && self.fresh.is_empty() && self.changed.is_empty() && self.touched.is_empty()
    }
}
