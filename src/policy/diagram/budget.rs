//! What work on a diagram may cost: steps, nodes and time.

use super::super::time_limit::TimeLimit;
use super::{Diagram, MAX_NODES};

/// One of so many parts of the budget and of the room is what [`Diagram::attempt`]
/// may cost, and it never costs more than so many operations.
const PARTS: u64 = 32;
const MOST_ATTEMPTED: u64 = 10_000;

impl Diagram {
    /// An empty diagram that gives up when the time is over.
    pub fn within(limit: &TimeLimit) -> Self {
        Self { limit: limit.clone(), ..Self::default() }
    }

    /// The same with room for so many times as much.
    pub fn with_room(limit: &TimeLimit, factor: u32) -> Self {
        let most = MAX_NODES * factor as usize;
        Self { most, room: most, ..Self::within(limit) }
    }

    /// The time limit for work on this diagram.
    pub fn limit(&self) -> &TimeLimit {
        &self.limit
    }

    /// Allows `steps` recursion steps from now on; `u64::MAX` is no bound.
    pub fn set_budget(&mut self, steps: u64) {
        self.budget = steps;
        self.room = self.most;
    }

    /// Sets the budget, and limits nodes to a part of all, so that room is left to
    /// work with the result.
    pub fn set_budget_with_reserve(&mut self, steps: u64) {
        self.budget = steps;
        self.room = self.most / 4 * 3;
    }

    /// What `work` returns, if it costs no more than a small part of what is left of
    /// the budget and of the room.
    pub fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let before = self.budget;
        let room = self.room.saturating_sub(self.nodes.len()) as u64;
        let part = before.min(room).min(MOST_ATTEMPTED * PARTS) / PARTS;
        self.budget = part;
        let result = work(self);
        let is_done = self.budget > 0 && !self.full;
        let is_full = self.full || self.nodes.len() >= self.room;
        self.budget = if is_full { 0 } else { before - (part - self.budget) };
        is_done.then_some(result)
    }

    /// Ends the budget.
    pub fn exhaust(&mut self) {
        self.budget = 0;
    }

    /// How many nodes another diagram may have to be copied into this one without
    /// filling it.
    pub fn room(&self) -> usize {
        (self.most - self.nodes.len().min(self.most)) / 4
    }

    /// Whether the budget ran out, so that results since are worthless.
    pub fn exhausted(&self) -> bool {
        self.budget == 0 || self.full
    }

    /// Makes [`Diagram::exhausted`] true for ever.
    pub fn give_up(&mut self) {
        self.full = true;
        self.budget = 0;
    }
}
