//! Notices processes that are in another cgroup than before: moved there by somebody who
//! wrote into its `cgroup.procs`, or born there.

use std::rc::Rc;

use super::Tracker;
use super::undecided::BeforeAndAfter;
use crate::analyse::left_owner;
use crate::model::{EventCause, EventKind};
use crate::report::{Event, MoveEvent};
use crate::watch::EventSubject;
use crate::watch::node::OwnedCgroup;

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
            state.told = true;
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

    /// Where it was: what the kernel told, or where it was seen last.
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
    reach.map_or_else(|| event.clone(), |reach| reach.told(&event))
}
