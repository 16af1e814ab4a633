//! Moves of which it is not known yet which GPUs they give or take, because programs of one
//! of the cgroups take long to decode: each is told at once, and again when that is known.

use std::rc::Rc;

use crate::analyse::MovedReach;
use crate::report::{Event, MoveEvent};
use crate::watch::node::CgroupReach;

/// Moves that are remembered. What others change stays unknown, as they were told.
const MOST: usize = 1024;

/// What a process could open before a move, and what it can open after it.
#[derive(Clone, Debug)]
pub(super) struct BeforeAndAfter {
    pub(super) before: Rc<CgroupReach>,
    pub(super) after: Rc<CgroupReach>,
}

impl BeforeAndAfter {
    /// The event of the move, with the GPUs.
    pub(super) fn told(&self, event: &MoveEvent) -> MoveEvent {
        let MovedReach { gained, lost, unknown } = self.after.difference(&self.before);
        MoveEvent { gained: Some(gained), lost: Some(lost), unknown, ..event.clone() }
    }

    fn is_open(&self) -> bool {
        self.before.open.is_some() || self.after.open.is_some()
    }

    fn learn(&mut self, question: u64, reach: &Rc<CgroupReach>) {
        for side in [&mut self.before, &mut self.after] {
            if side.open == Some(question) {
                side.clone_from(reach);
            }
        }
    }
}

/// The moves.
#[derive(Debug, Default)]
pub(super) struct UndecidedMoves(Vec<(Event, BeforeAndAfter)>);

impl UndecidedMoves {
    /// Remembers a move that is told now, if something of it is open.
    pub(super) fn add(&mut self, event: &Event, reach: BeforeAndAfter) {
        if reach.is_open() && self.0.len() < MOST {
            self.0.push((event.clone(), reach));
        }
    }

    /// Takes the answer to a question: the moves of which nothing is open any more.
    pub(super) fn learn(&mut self, question: u64, reach: &Rc<CgroupReach>) -> Vec<Event> {
        self.0.iter_mut().for_each(|(_, both)| both.learn(question, reach));
        let all = std::mem::take(&mut self.0);
        let (open, known): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, both)| both.is_open());
        self.0 = open;
        known.into_iter().map(|(event, both)| again(event, &both)).collect()
    }
}

fn again(event: Event, reach: &BeforeAndAfter) -> Event {
    let moved = event.moved.as_ref().map(|moved| MoveEvent { again: true, ..reach.told(moved) });
    Event { moved, ..event }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::{CgroupGpus, TimeLimit};
    use crate::model::EventKind;
    use crate::observation::{Observation, Process};
    use std::time::Instant;

    const JOB: &str = "/system.slice/gpu01_slurmstepd.scope/job_1956131/step_0/user/task_0";

    /// What a process may open in a cgroup of a saved node: all that is known, or what is
    /// known without any time.
    fn reach(cgroup: &str, open: Option<u64>) -> Rc<CgroupReach> {
        let node = include_str!("../../../fixtures/nodes/slurm-4gpu.json");
        let observation: Observation = serde_json::from_str(node).unwrap();
        let process = Process { cgroup: cgroup.into(), ..Process::default() };
        let limit = open.map_or_else(TimeLimit::default, |_| TimeLimit::at(Some(Instant::now())));
        let gpus = CgroupGpus::new(&observation, &process, &limit).unwrap();
        Rc::new(CgroupReach::made_up(gpus, open))
    }

    /// Make sure that a move is told again as soon as both its cgroups are decoded, and once;
    /// and that one of which everything is known is not.
    #[test]
    fn told_again() {
        let event =
            Event { moved: Some(MoveEvent::default()), ..Event::at(EventKind::Moved, "then".to_owned()) };
        let mut moves = UndecidedMoves::default();
        let both = |before, after| BeforeAndAfter { before: reach(JOB, before), after: reach("/", after) };
        let known = both(None, None).told(&MoveEvent::default());
        assert!(known.gained.as_ref().is_some_and(|gained| !gained.is_empty()), "{known:?}");
        for (before, after) in [(None, None), (Some(1), None), (None, Some(2)), (Some(1), Some(2))] {
            moves.add(&event, both(before, after));
        }
        let open = both(Some(1), None).told(&MoveEvent::default());
        assert!(open.gained.unwrap().is_empty() && !open.unknown.is_empty());
        let first = moves.learn(1, &reach(JOB, None));
        let second = moves.learn(2, &reach("/", None));
        assert_eq!((first.len(), second.len(), moves.learn(1, &reach("/", None)).len()), (1, 2, 0));
        for told in first.iter().chain(&second) {
            assert_eq!(told.moved, Some(MoveEvent { again: true, ..known.clone() }));
            assert_eq!((told.event, told.at.as_str()), (EventKind::Moved, "then"));
        }
    }
}
