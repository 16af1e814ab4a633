//! Turns the changes of one check into events: the same change in a whole subtree is one
//! event.

use std::collections::HashMap;

use crate::analyse::NodeComparison;
use crate::model::{CgroupPath, EventKind};
use crate::observation::Text;
use crate::observe::monitor::cgroups::ProgramsChange;
use crate::owner::Directory;
use crate::report::{Event, PolicyEvent};

/// Said of changes that were counted and not seen.
const UNSEEN: &str =
    "programs were attached here and gone again, or put in place of themselves, between two looks";

/// The events of a step, outer cgroups first.
pub(super) fn events(step: &ProgramsChange, comparison: &mut NodeComparison<'_>) -> Vec<Event> {
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
