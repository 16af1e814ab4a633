//! Events about programs: the same change in a whole subtree is one event, and each problem
//! is reported once, for every check finds it again.

use std::collections::{HashMap, HashSet};

use crate::analyse::NodeComparison;
use crate::model::{CgroupPath, EventKind, ProblemCode};
use crate::observation::{Problem, Text};
use crate::observe::monitor::cgroups::ProgramsChange;
use crate::owner::Directory;
use crate::report::{Event, PolicyEvent};

/// Said of changes that were counted and not seen.
const UNSEEN: &str =
    "programs were attached here and gone again, or put in place of themselves, between two looks";

/// The events of a step: who began, what changed, outer cgroups first, and who ended. A
/// cgroup of the step whose policy is what it was has an event that says so.
pub(super) fn events(step: &ProgramsChange, comparison: &mut NodeComparison<'_>) -> Vec<Event> {
    let mut changes = Changes::default();
    for path in &step.cgroups {
        if let Some(change) = comparison.compared(path) {
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
    let began = step.came.iter().map(|path| event(EventKind::Began, path));
    let ended = step.went.iter().map(|path| event(EventKind::Ended, path));
    let changed = changes.all.into_iter().map(policy).chain(step.unseen.iter().map(lost));
    began.chain(changed).chain(ended).collect()
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

/// Problems that are reported; the last report says that there are more.
const MOST: usize = 100;

/// The problems that were reported.
#[derive(Debug, Default)]
pub(super) struct ReportedProblems(HashSet<(String, String, String)>);

impl ReportedProblems {
    /// An event for each problem that was not reported before.
    pub(super) fn new_ones(&mut self, problems: Vec<Problem>) -> Vec<Event> {
        problems.into_iter().filter_map(|problem| self.one(problem)).collect()
    }

    fn one(&mut self, problem: Problem) -> Option<Event> {
        let key = (problem.code.to_string(), problem.what.clone(), problem.why.clone());
        if self.0.len() > MOST || !self.0.insert(key) {
            return None;
        }
        let last = || Problem {
            code: ProblemCode::TooMany,
            what: "problems".to_owned(),
            why: format!("more than {MOST} have been told, the rest is not"),
            needs: String::new(),
        };
        let problem = if self.0.len() > MOST { last() } else { problem };
        Some(Event { problem: Some(problem), ..Event::now(EventKind::Problem) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Make sure that a problem is reported once, and that the last report says
    /// that more are not.
    #[test]
    fn once() {
        let problem = |what: usize| Problem {
            code: ProblemCode::Unreadable,
            what: format!("/{what}"),
            why: "no".to_owned(),
            needs: String::new(),
        };
        let mut reported = ReportedProblems::default();
        assert_eq!(reported.new_ones(vec![problem(0), problem(0), problem(1)]).len(), 2);
        assert!(reported.new_ones(vec![problem(1)]).is_empty());
        let rest = reported.new_ones((2..300).map(problem).collect());
        assert_eq!(rest.len(), MOST - 1);
        let last = rest.last().and_then(|event| event.problem.as_ref()).map(|one| one.code.as_str());
        assert_eq!(last, Some("too-many"));
        assert!(reported.new_ones(vec![problem(999)]).is_empty());
    }
}
