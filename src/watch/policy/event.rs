//! Turns the changes of one check into events: the same change in a whole subtree is one
//! event.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::analyse::{NodeComparison, TimeLimit};
use crate::model::{CgroupPath, EventKind};
use crate::observation::Text;
use crate::observe::monitor::cgroups::ProgramsChange;
use crate::owner::Directory;
use crate::report::{Event, Gpu, PolicyEvent};
use crate::watch::NOT_YET;

/// Said of changes that were counted and not seen.
const UNSEEN: &str =
    "programs were attached here and gone again, or put in place of themselves, between two looks";
/// Said of changes that were seen and not decoded.
const TOO_MANY: &str = "programs changed here, and too many changes before it are not decoded yet";

/// A step, decoded.
#[derive(Debug)]
pub(super) struct DecodedStep {
    /// Its events, outer cgroups first.
    pub(super) events: Vec<Event>,
    /// The GPUs that they speak of.
    pub(super) gpus: Vec<Gpu>,
    /// Whether the time was over before everything was decoded.
    pub(super) is_late: bool,
}

/// Decodes a step, for no longer than this.
pub(super) fn decode(step: &ProgramsChange, limit: Duration) -> DecodedStep {
    let limit = TimeLimit::at(Instant::now().checked_add(limit));
    let mut comparison = NodeComparison::new(&step.before, &step.after, &limit);
    let events = events(step, &mut comparison);
    DecodedStep { events, gpus: comparison.gpus().to_vec(), is_late: limit.was_missed() }
}

/// Says that the policies of a step are not known yet.
pub(super) fn not_yet(step: &ProgramsChange) -> Vec<Event> {
    let one = |path: &Text| Event::now(EventKind::Decoding).in_cgroup(path, None).because(NOT_YET);
    step.cgroups.first().map(one).into_iter().collect()
}

/// The changes of a step that nobody decodes any more: too many others wait.
pub(super) fn given_up(step: &ProgramsChange) -> Vec<Event> {
    let lost = |path: &Text| Event {
        lost: Some(1),
        ..Event::at(EventKind::Lost, step.after.taken_at.clone()).in_cgroup(path, None).because(TOO_MANY)
    };
    step.cgroups.iter().map(lost).collect()
}

fn events(step: &ProgramsChange, comparison: &mut NodeComparison<'_>) -> Vec<Event> {
    let mut changes = Changes::default();
    for path in &step.cgroups {
        if let Some(change) = comparison.change(path) {
            changes.add(path, change);
        }
    }
    let (before, after) = (Directory::new(&step.before), Directory::new(&step.after));
    let event = |kind, path: &Text| {
        let owner = after.of(path).or_else(|| before.of(path)).cloned();
        Event::at(kind, step.after.taken_at.clone()).in_cgroup(path, owner)
    };
    let policy = |(path, change): (&Text, PolicyEvent)| Event {
        policy: Some(change),
        ..event(EventKind::Policy, path)
    };
    let lost = |(path, count): (&Text, &u64)| Event {
        lost: Some(*count),
        ..event(EventKind::Lost, path).because(UNSEEN)
    };
    changes.all.into_iter().map(policy).chain(step.unseen.iter().map(lost)).collect()
}

/// Changes, each with the first cgroup that it happened to.
#[derive(Default)]
struct Changes<'a> {
    all: Vec<(&'a Text, PolicyEvent)>,
    /// Index by the change in JSON.
    index: HashMap<String, usize>,
}

impl<'a> Changes<'a> {
    fn add(&mut self, path: &'a Text, change: PolicyEvent) {
        if change.removed {
            return self.add_removed(path, change);
        }
        let key = serde_json::to_string(&change).unwrap_or_default();
        let place = *self.index.entry(key).or_insert(self.all.len());
        match self.all.get_mut(place) {
            Some((_, same)) => same.also += 1,
            None => self.all.push((path, change)),
        }
    }

    /// What went with a cgroup belongs to the outermost that went.
    fn add_removed(&mut self, path: &'a Text, change: PolicyEvent) {
        let around = |(top, other): &&mut (&Text, PolicyEvent)| {
            other.removed && CgroupPath::new(path).is_below(CgroupPath::new(top))
        };
        match self.all.iter_mut().find(around) {
            Some((_, outer)) => {
                outer.also += 1;
                outer.gone.extend(change.gone);
            }
            None => self.all.push((path, change)),
        }
    }
}
