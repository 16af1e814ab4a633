//! Notices processes that are in another cgroup than before: moved there by somebody who
//! wrote into its `cgroup.procs`, or born there.

use std::rc::Rc;

use super::Tracker;
use crate::analyse::{MovedReach, left_owner};
use crate::model::{EventCause, EventKind};
use crate::report::{Event, MoveEvent};
use crate::watch::EventSubject;
use crate::watch::node::{CgroupReach, OwnedCgroup};

/// A move, as the kernel tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    /// When, in nanoseconds since boot.
    pub(super) at: u64,
    /// Id of the cgroup of before, if that is known.
    pub(super) from: Option<u64>,
    /// The one thread that moved; `None`: the whole process.
    pub(super) thread: Option<u32>,
    /// Whether it is new, and began elsewhere than its parent.
    pub(super) born: bool,
}

impl Tracker {
    /// A process is in the cgroup that `subject` names now. `None` if that is
    /// where it was, or if neither place is watched.
    pub(super) fn moved(&mut self, subject: &EventSubject, moved: Move) -> Option<Event> {
        if moved.from == Some(subject.cgroup) {
            return None;
        }
        let from = self.departed(subject, moved);
        let to = self.node.cgroup(subject.cgroup);
        let is_named = self.scope.all || self.scope.pids.contains(&subject.pid);
        // One that is gone and was never seen says nothing: schedulers make and
        // remove cgroups with every step of every job.
        let is_inside = |place: &Option<Rc<OwnedCgroup>>| {
            place.as_ref().is_some_and(|place| self.scope.has_cgroup(&self.root, &place.path))
        };
        if !(is_named || is_inside(&from) || is_inside(&to)) {
            return None;
        }
        let reach = self.reach_of_both(subject, from.as_deref(), to.as_deref());
        let event = move_event(moved, from.as_deref(), to.as_deref(), reach.as_ref());
        if let Some(state) = self.state(subject) {
            state.reported = true;
            if moved.thread.is_none() {
                state.place.clone_from(&to);
            }
        }
        let at = self.time(moved.at);
        let about = Event::at(EventKind::Moved, at).of_process(subject);
        let about = match to {
            Some(to) => about.in_cgroup(&to.path, to.owner.clone()),
            None => about.because("the cgroup that it was moved to is gone or not seen from here"),
        };
        let how = if moved.born { EventCause::Clone3 } else { EventCause::CgroupProcs };
        let event = Event { how: Some(how), moved: Some(event), ..about };
        if let Some(reach) = reach {
            self.undecided.add(&event, reach);
        }
        Some(event)
    }

    /// Where it was: what the kernel reported, or where it was seen last.
    fn departed(&mut self, subject: &EventSubject, moved: Move) -> Option<Rc<OwnedCgroup>> {
        let state = self.processes.get(&subject.pid);
        let state = state.filter(|state| state.subject.start_time == subject.start_time);
        let last = state.and_then(|state| Some((state.subject.cgroup, state.place.clone()?)));
        match moved.from {
            Some(id) => {
                let last = last.filter(|(seen, _)| *seen == id).map(|(_, place)| place);
                self.node.cgroup(id).or(last)
            }
            None if moved.thread.is_none() => last.map(|(_, place)| place),
            None => None,
        }
    }

    /// What it could open before, and what it can open now.
    fn reach_of_both(
        &mut self,
        subject: &EventSubject,
        from: Option<&OwnedCgroup>,
        to: Option<&OwnedCgroup>,
    ) -> Option<BeforeAndAfter> {
        let (from, to) = from.zip(to)?;
        // That of before first: its cgroup may go at any moment.
        let before = self.node.reach(subject, from)?;
        Some(BeforeAndAfter { before, after: self.node.reach(subject, to)? })
    }
}

fn move_event(
    moved: Move,
    from: Option<&OwnedCgroup>,
    to: Option<&OwnedCgroup>,
    reach: Option<&BeforeAndAfter>,
) -> MoveEvent {
    let owner = |place: &OwnedCgroup| place.owner.clone();
    let event = MoveEvent {
        from: from.map(|place| place.path.lossy().into_owned()),
        from_hex: from.and_then(|place| place.path.hex()),
        from_owner: from.and_then(owner),
        left: from.zip(to).map(|(from, to)| left_owner(from.owner.as_ref(), to.owner.as_ref())),
        thread: moved.thread,
        ..MoveEvent::default()
    };
    reach.map_or_else(|| event.clone(), |reach| reach.reported(&event))
}

/// Moves that are remembered. What others change stays unknown, as they were reported.
const MOST: usize = 1024;

/// What a process could open before a move, and what it can open after it.
#[derive(Clone, Debug)]
pub(super) struct BeforeAndAfter {
    pub(super) before: Rc<CgroupReach>,
    pub(super) after: Rc<CgroupReach>,
}

impl BeforeAndAfter {
    /// The event of the move, with the GPUs.
    pub(super) fn reported(&self, event: &MoveEvent) -> MoveEvent {
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
    /// Remembers a move that is reported now, if something of it is open.
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
    let moved = event.moved.as_ref().map(|moved| MoveEvent { again: true, ..reach.reported(moved) });
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

    /// Make sure that a move is reported again as soon as both its cgroups are decoded, and once;
    /// and that one of which everything is known is not.
    #[test]
    fn told_again() {
        let event = Event { moved: Some(MoveEvent::default()), ..Event::at(EventKind::Moved, "then".into()) };
        let mut moves = UndecidedMoves::default();
        let both = |before, after| BeforeAndAfter { before: reach(JOB, before), after: reach("/", after) };
        let known = both(None, None).reported(&MoveEvent::default());
        assert!(known.gained.as_ref().is_some_and(|gained| !gained.is_empty()), "{known:?}");
        for (before, after) in [(None, None), (Some(1), None), (None, Some(2)), (Some(1), Some(2))] {
            moves.add(&event, both(before, after));
        }
        let open = both(Some(1), None).reported(&MoveEvent::default());
        assert!(open.gained.unwrap().is_empty() && !open.unknown.is_empty());
        let first = moves.learn(1, &reach(JOB, None));
        let second = moves.learn(2, &reach("/", None));
        assert_eq!((first.len(), second.len(), moves.learn(1, &reach("/", None)).len()), (1, 2, 0));
        for reported in first.iter().chain(&second) {
            assert_eq!(reported.moved, Some(MoveEvent { again: true, ..known.clone() }));
            assert_eq!((reported.event, reported.at.as_str()), (EventKind::Moved, "then"));
        }
    }
}
