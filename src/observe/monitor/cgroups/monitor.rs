//! Keeps up to date what is attached to cgroups, at the cost of one query for each
//! cgroup or of one walk over all of them.
//!
//! The kernel notifies nobody when a program is attached. So every
//! [`CgroupMonitor::check`] queries each cgroup for its own list, which has a
//! revision since Linux 6.17 (before, lists are compared), and reads its link count,
//! which changes with its children. Where fanotify or inotify work they report
//! cgroups that come and go, so that a caller can wait for them instead of the next
//! tick. fanotify misses none, so link counts are not read with it.
//!
//! What is kept is bounded by the number of cgroups that exist. Maps that can
//! change are read again too, because programs decide by their contents, and so is
//! which functions of programs were replaced. The v1 controller is not monitored.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::change::ProgramsChange;
use super::lists::{ListReader, ListSource};
use super::nodes::Nodes;
use super::state::{Differences, MonitoredCgroups, Notification, Notifier, RESCAN};
use crate::observation::{Observation, Problem};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::query::ListQuery;
use crate::observe::cgroups::walk::WalkPlan;
use crate::observe::error::ObserveError;
use crate::observe::host;
use crate::observe::options::{CgroupTarget, Options};
use crate::observe::problems::Log;
use crate::observe::programs::cache::ProgramCache;

/// How often the root is tried to be opened at the start.
const TRIES: usize = 3;

/// Keeps the lists of programs of cgroups up to date.
#[derive(Debug)]
pub struct CgroupMonitor {
    cgroups: MonitoredCgroups,
}

impl CgroupMonitor {
    /// Starts to monitor `targets` and their ancestors, notified by `engine` or by the
    /// best backend that works here. Without the right to query programs it
    /// monitors nothing and says so in [`Self::problems`].
    ///
    /// # Errors
    ///
    /// As [`crate::observe::cgroups()`].
    pub fn start(
        options: &Options,
        targets: &[CgroupTarget],
        engine: Option<Notification>,
    ) -> Result<Self, ObserveError> {
        Self::start_with(options, targets, engine, None)
    }

    /// Starts a monitor that reads lists from `source`, or from the better one.
    ///
    /// # Errors
    ///
    /// As [`crate::observe::cgroups()`].
    pub fn start_with(
        options: &Options,
        targets: &[CgroupTarget],
        engine: Option<Notification>,
        source: Option<ListSource>,
    ) -> Result<Self, ObserveError> {
        let mut monitor = Self::list(options, targets, engine)?;
        monitor.choose_lists(source);
        Ok(monitor)
    }

    /// The first half of [`Self::start_with`]: lists the cgroups and reads their
    /// programs, by queries. It loads nothing into the kernel, so it may run in a
    /// thread that has no loader.
    ///
    /// # Errors
    ///
    /// As [`crate::observe::cgroups()`].
    pub fn list(
        options: &Options,
        targets: &[CgroupTarget],
        engine: Option<Notification>,
    ) -> Result<Self, ObserveError> {
        let hierarchy = Hierarchy::find(options)?;
        let (_, scope) = WalkPlan::new(&hierarchy, targets)?;
        let mut blank = Observation { scope: scope.clone(), ..host::blank(options, Some(&hierarchy)) };
        let problems = std::mem::take(&mut blank.errors);
        let mut cgroups = MonitoredCgroups {
            options: options.clone(),
            blank,
            nodes: Nodes::new(scope, options.most_cgroups),
            // This comes before the first list, so that no later change is missed.
            notifier: Notifier::new(&hierarchy, engine),
            lists: ListReader::by_queries(),
            list_query: ListQuery::new(&hierarchy),
            hierarchy,
            cache: ProgramCache::new(),
            problems,
            has_revisions: false,
            rescan_at: Instant::now() + RESCAN,
            facts_at: None,
            map_turn: 0,
            replacements_at: Instant::now(),
        };
        if !cgroups.hierarchy.is_legacy() {
            let mut found = Differences::default();
            let mut log = Log::new(None);
            // Without the root there is no list that later ones could be compared with.
            (0..TRIES).for_each(|_| cgroups.add_root(&mut found, &mut log));
            cgroups.read_first(&mut found, &mut log);
            cgroups.tidy(log);
        }
        Ok(Self { cgroups })
    }

    /// The second half: how lists are read from now on, from `source` or from the
    /// better one.
    pub fn choose_lists(&mut self, source: Option<ListSource>) {
        let cgroups = &mut self.cgroups;
        if !cgroups.hierarchy.is_legacy() {
            cgroups.lists = ListReader::choose(&cgroups.hierarchy, &cgroups.nodes, source);
        }
    }

    /// The ways in which changes are found: `revision+fanotify` or
    /// `revision+inotify`, with `lists` instead of `revision` where the kernel
    /// counts no revisions, or `polling`; then `, cgroup iterator` where lists are
    /// not queried one by one.
    pub fn engine(&self) -> String {
        let notification = match (self.cgroups.notifier.engine(), self.cgroups.has_revisions) {
            (Notification::Fanotify, true) => "revision+fanotify",
            (Notification::Fanotify, false) => "lists+fanotify",
            (Notification::Inotify, true) => "revision+inotify",
            (Notification::Inotify, false) => "lists+inotify",
            (Notification::Polling, _) => "polling",
        };
        match self.cgroups.lists.source() {
            ListSource::Queries => notification.to_owned(),
            ListSource::Iterator => format!("{notification}, cgroup iterator"),
        }
    }

    /// A descriptor that is readable when cgroups came or went; `None` when polling.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.cgroups.notifier.fd()
    }

    /// The problems since the last call.
    pub fn problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.cgroups.problems)
    }

    /// Checks every cgroup; `None` if no programs changed anywhere. Does not block.
    pub fn check(&mut self) -> Option<ProgramsChange> {
        if self.cgroups.hierarchy.is_legacy() {
            return None;
        }
        let cgroups = &mut self.cgroups;
        let mut found = Differences::default();
        let mut log = Log::new(None);
        cgroups.take_notices(&mut found);
        cgroups.add_root(&mut found, &mut log);
        cgroups.check_all(&mut found, &mut log);
        cgroups.check_above_root(&mut found, &mut log);
        cgroups.compare_children(&mut found, &mut log);
        cgroups.reread_maps(&mut found, &mut log);
        cgroups.ask_replacements(&mut found, &mut log);
        let step = if found.is_nothing() { None } else { cgroups.step(found, &mut log) };
        cgroups.tidy(log);
        step
    }
}
