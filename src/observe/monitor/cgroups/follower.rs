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

use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::change::Step;
use super::followed::{Followed, Found, RESCAN};
use super::lists::{Lists, Source};
use super::nodes::Nodes;
use super::notification::{Engine, Teller};
use crate::observation::{Observation, Problem};
use crate::observe::cgroups::hierarchy::Hierarchy;
use crate::observe::cgroups::query::Asker;
use crate::observe::cgroups::walk::Plan;
use crate::observe::error::ObserveError;
use crate::observe::host;
use crate::observe::options::{Options, Target};
use crate::observe::problems::Log;
use crate::observe::programs::library::Library;

/// Follows cgroups.
#[derive(Debug)]
pub struct Follower {
    followed: Followed,
}

impl Follower {
    /// Starts to follow `targets` and their ancestors, told by `engine`, or by
    /// the best that works here. Without the right to query programs it
    /// follows nothing but says so in [`Self::problems`].
    ///
    /// # Errors
    ///
    /// As [`crate::observe::cgroups()`].
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
    /// As [`crate::observe::cgroups()`].
    pub fn start_with(
        options: &Options,
        targets: &[Target],
        engine: Option<Engine>,
        source: Option<Source>,
    ) -> Result<Self, ObserveError> {
        let hierarchy = Hierarchy::find(options)?;
        let (_, scope) = Plan::new(&hierarchy, targets)?;
        let mut followed = Followed {
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
        if !followed.hierarchy.is_legacy() {
            let mut found = Found::default();
            let mut log = Log::new(None);
            followed.admit(&"/".into(), &mut found, &mut log);
            followed.read(&mut found, &mut log);
            followed.tidy(log);
            followed.lists = Lists::choose(&followed.hierarchy, &followed.nodes, source);
        }
        Ok(Self { followed })
    }

    /// Who tells: `revision+fanotify`, `revision+inotify`, the same with
    /// `lists` where the kernel counts no revisions, `polling`; then
    /// `, cgroup iterator` where lists are not asked for one by one.
    pub fn engine(&self) -> String {
        let teller = match (self.followed.teller.engine(), self.followed.has_revisions) {
            (Engine::Fanotify, true) => "revision+fanotify",
            (Engine::Fanotify, false) => "lists+fanotify",
            (Engine::Inotify, true) => "revision+inotify",
            (Engine::Inotify, false) => "lists+inotify",
            (Engine::Polling, _) => "polling",
        };
        match self.followed.lists.source() {
            Source::Queries => teller.to_owned(),
            Source::Iterator => format!("{teller}, cgroup iterator"),
        }
    }

    /// Readable when cgroups came or went; `None` when polling.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.followed.teller.fd()
    }

    /// What could not be seen since the last call.
    pub fn problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.followed.problems)
    }

    /// Looks at every cgroup; `None` if no programs changed anywhere. Does not
    /// wait.
    pub fn check(&mut self) -> Option<Step> {
        if self.followed.hierarchy.is_legacy() {
            return None;
        }
        let followed = &mut self.followed;
        let mut found = Found::default();
        let mut log = Log::new(None);
        followed.listen(&mut found);
        followed.sweep(&mut found);
        followed.look_above(&mut found, &mut log);
        followed.relist(&mut found, &mut log);
        followed.reread_maps(&mut found, &mut log);
        let step = if found.is_nothing() { None } else { followed.step(found, &mut log) };
        followed.tidy(log);
        step
    }
}
