//! Facts of processes on a node that a test makes up.

use std::cell::RefCell;
use std::rc::Rc;

use jiff::Timestamp;

use super::*;
use crate::model::{EventCause, EventKind};
use crate::observation::{Answer, Text, Variable};
use crate::observe::processes::environment_poll::PolledEnvironments;
use crate::probing::driver::Drivers;
use crate::watch::NewValue;
use crate::watch::node::{CgroupReach, OwnedCgroup};

const A: &str = "CUDA_VISIBLE_DEVICES";
/// Of a process with this value the environment cannot be read.
const UNREAD: &str = "no descriptors are left";
const B: &str = "HIP_VISIBLE_DEVICES";

/// A node without cgroups, where these processes have these values of one
/// variable.
#[derive(Clone, Debug, Default)]
struct MadeUp(Rc<RefCell<BTreeMap<u32, &'static str>>>);

impl NodeReader for MadeUp {
    fn environments(&mut self, pids: &[u32]) -> PolledEnvironments {
        let is_unread = |pid: &u32| self.0.borrow().get(pid) == Some(&UNREAD);
        let unread: Vec<u32> = pids.iter().copied().filter(is_unread).collect();
        let read = pids.iter().filter(|pid| !unread.contains(pid));
        let read = read.filter_map(|pid| self.environment_at_exec(*pid)).collect();
        PolledEnvironments { read, unread: unread.into_iter().map(|pid| (pid, UNREAD.to_owned())).collect() }
    }

    fn environment_at_exec(&mut self, pid: u32) -> Option<PolledEnvironment> {
        let value = *self.0.borrow().get(&pid)?;
        let variables = vec![Variable { name: A.to_owned(), value: value.into(), cut: false }];
        let environment = Answer::Known(Environment { variables, cut: None });
        let comm = Text::default();
        Some(PolledEnvironment { pid, start_time: 1, uid: 0, comm, env_end: 0, environment })
    }

    fn mapped_drivers(&mut self, _pid: u32) -> Option<Drivers> {
        None
    }

    fn has_ended(&mut self, pid: u32) -> bool {
        !self.0.borrow().contains_key(&pid)
    }

    fn cgroup_of(&mut self, _subject: &EventSubject) -> Option<Rc<OwnedCgroup>> {
        None
    }

    fn cgroup(&mut self, _id: u64) -> Option<Rc<OwnedCgroup>> {
        None
    }

    fn reach(&mut self, _subject: &EventSubject, _cgroup: &OwnedCgroup) -> Option<Rc<CgroupReach>> {
        None
    }

    fn reach_without_cgroup(&mut self, _subject: &EventSubject) -> Option<CgroupReach> {
        None
    }

    fn gpus(&self) -> &[Gpu] {
        &[]
    }

    fn now(&self) -> u64 {
        100
    }

    fn time(&mut self, at: u64) -> Timestamp {
        Timestamp::from_nanosecond(at.into()).unwrap()
    }
}

fn tracker() -> Tracker {
    Tracker::of(Box::new(MadeUp::default()))
}

/// Make sure that what a process had when the watch began is what a change
/// replaces, and that a change without a call is found when the environment is
/// polled.
#[test]
fn polled() {
    let node = MadeUp::default();
    let mut tracker = Tracker::of(Box::new(node.clone()));
    node.0.borrow_mut().insert(7, "0,1");
    let polled = node.clone().environments(&[7]);
    tracker.learn_portion(Portion { begun: 100, ended: 100, polled });
    let change = |tracker: &mut Tracker, at, value: &str| {
        let value = NewValue::Value { bytes: value.into(), cut: false };
        let (subject, how) = (process(7), EventCause::Setenv);
        tracker.take(Fact::Set { at, subject, how, name: A, value, keep: false })
    };
    assert_eq!(values(&change(&mut tracker, 101, "2")), (Some("0,1"), Some("2")));
    node.0.borrow_mut().insert(7, "3");
    let reread = tracker.reread();
    let events = tracker.compare(reread);
    assert_eq!(values(&events), (Some("2"), Some("3")));
    assert_eq!(
        (events[0].how, events[0].at.as_str()),
        (Some(EventCause::Memory), "1970-01-01T00:00:00.0000001Z")
    );
    // A poll that a call has overtaken says nothing.
    node.0.borrow_mut().insert(7, "4");
    let reread = tracker.reread();
    change(&mut tracker, 102, "5");
    assert!(tracker.compare(reread).is_empty());
    // Nor does one of a program that executed another one meanwhile.
    let execute = |tracker: &mut Tracker, at| {
        let variables = vec![Variable { name: A.to_owned(), value: "6".into(), cut: false }];
        let environment = Some(Environment { variables, cut: None });
        tracker.take(Fact::Exec { at, subject: process(7), env_end: 0, environment });
    };
    execute(&mut tracker, 103);
    let reread = tracker.reread();
    execute(&mut tracker, 104);
    assert!(tracker.compare(reread).is_empty());
    assert_eq!(values(&change(&mut tracker, 105, "7")), (Some("6"), Some("7")));
}

/// Make sure that a process that cannot be read is reported once, whether it was read before or
/// not, and is not taken for gone.
#[test]
fn unread() {
    let node = MadeUp::default();
    let mut tracker = Tracker::of(Box::new(node.clone()));
    node.0.borrow_mut().extend([(7, "0,1"), (8, UNREAD)]);
    let polled = node.clone().environments(&[7, 8]);
    tracker.learn_portion(Portion { begun: 100, ended: 100, polled });
    node.0.borrow_mut().insert(7, UNREAD);
    let compare = |tracker: &mut Tracker| {
        let reread = tracker.reread();
        tracker.compare(reread)
    };
    let events = compare(&mut tracker);
    let [event] = &events[..] else { panic!("{events:?}") };
    assert_eq!(event.event, EventKind::Uncovered);
    let why = event.why.as_deref().unwrap();
    assert!(why.contains("process 7 and 1 others") && why.contains(UNREAD), "{why}");
    assert!(compare(&mut tracker).is_empty());
    // It was followed all the time, and is said again after it was read.
    node.0.borrow_mut().insert(7, "3");
    assert_eq!(values(&compare(&mut tracker)), (Some("0,1"), Some("3")));
    node.0.borrow_mut().insert(7, UNREAD);
    assert_eq!(compare(&mut tracker).len(), 1);
    let event = tracker.take(Fact::Uncovered { pid: 7, why: "no library".to_owned() });
    assert!(event[0].why.as_deref().is_some_and(|why| why.contains("no library") && why.contains(UNREAD)));
}

fn process(pid: u32) -> EventSubject {
    EventSubject { pid, start_time: 1, account: Some(1000), ..EventSubject::default() }
}

fn set(tracker: &mut Tracker, pid: u32, name: &'static str, value: &str) -> Vec<Event> {
    let value = NewValue::Value { bytes: value.into(), cut: false };
    tracker.take(Fact::Set {
        at: 1,
        subject: process(pid),
        how: EventCause::Setenv,
        name,
        value,
        keep: false,
    })
}

/// The values before and after of the one event.
fn values(events: &[Event]) -> (Option<&str>, Option<&str>) {
    let [event] = events else { panic!("{events:?}") };
    let old = event.old.as_ref().and_then(|value| value.raw.as_deref());
    (old, event.new.as_ref().and_then(|value| value.raw.as_deref()))
}

/// Make sure that a change tells the one before it, but not across a loss, and
/// that one that changes nothing is none.
#[test]
fn values_before() {
    let mut tracker = tracker();
    assert_eq!(values(&set(&mut tracker, 7, A, "1")), (None, Some("1")));
    assert_eq!(values(&set(&mut tracker, 7, A, "2")), (Some("1"), Some("2")));
    assert!(set(&mut tracker, 7, A, "2").is_empty());
    assert_eq!(values(&set(&mut tracker, 7, B, "0")), (None, Some("0")));
    assert!(tracker.take(Fact::Gap { at: 2, account: Some(1000) }).is_empty());
    assert_eq!(values(&set(&mut tracker, 7, A, "2")), (None, Some("2")));
    let lost = tracker.take(Fact::Lost(vec![(Some(1000), 2), (None, 1)])).remove(0);
    assert_eq!((lost.lost, lost.lost_by.len(), lost.lost_by[0].uid), (Some(3), 2, Some(1000)));
    assert_eq!(values(&set(&mut tracker, 7, A, "3")), (Some("2"), Some("3")));
}

/// Make sure that a child has what its parent had, and another process with
/// the same pid has not.
#[test]
fn children() {
    let mut tracker = tracker();
    set(&mut tracker, 7, A, "1");
    let fork = |pid, parent_start| Fact::Fork { at: 1, subject: process(pid), parent: 7, parent_start };
    assert!(tracker.take(fork(8, 1)).is_empty());
    assert_eq!(values(&set(&mut tracker, 8, A, "2")), (Some("1"), Some("2")));
    assert_eq!(values(&set(&mut tracker, 7, A, "3")), (Some("1"), Some("3")));
    // The parent is another process than the one that is known by its pid.
    tracker.take(fork(9, 2));
    assert_eq!(values(&set(&mut tracker, 9, A, "4")), (None, Some("4")));
    let other = EventSubject { start_time: 2, ..process(8) };
    assert!(tracker.state(&other).unwrap().environment.is_none());
}

/// Make sure that a process is not kept after its end, be that reported or found.
#[test]
fn ends() {
    let mut tracker = tracker();
    for pid in [7, 8] {
        set(&mut tracker, pid, A, "1");
    }
    let events = tracker.take(Fact::Exit { at: 2, subject: process(7) });
    assert_eq!((events[0].event, &events[0].why), (EventKind::Exit, &None));
    let reread = tracker.reread();
    let events = tracker.compare(reread);
    assert_eq!((events.len(), events[0].event), (1, EventKind::Exit));
    assert!(events[0].why.is_some() && tracker.processes.is_empty());
}

/// Make sure that what one user lost puts nothing of another's in doubt, and
/// that a process that changes its user is both.
#[test]
fn losses_of_others() {
    let mut tracker = tracker();
    set(&mut tracker, 7, A, "1");
    tracker.take(Fact::Gap { at: 2, account: Some(2000) });
    assert_eq!(values(&set(&mut tracker, 7, A, "2")), (Some("1"), Some("2")));
    let other = EventSubject { account: Some(2000), ..process(7) };
    assert!(tracker.state(&other).unwrap().environment.is_none());
    set(&mut tracker, 8, A, "1");
    let other = EventSubject { account: Some(3000), ..process(8) };
    assert!(tracker.state(&other).unwrap().environment.is_some());
    tracker.take(Fact::Gap { at: 2, account: None });
    assert_eq!(values(&set(&mut tracker, 8, A, "2")), (None, Some("2")));
}

/// Make sure that after a change of a variable whose name could not be read
/// nothing is said of what was before, and that the process is read again.
#[test]
fn unnamed() {
    let mut tracker = tracker();
    set(&mut tracker, 7, A, "1");
    let unnamed = |pid| Fact::Unnamed { at: 2, subject: process(pid), how: EventCause::Setenv };
    assert!(tracker.take(unnamed(7)).is_empty());
    assert!(tracker.last_set().is_empty());
    assert_eq!(values(&set(&mut tracker, 7, A, "2")), (None, Some("2")));
    assert_eq!(tracker.doubtful.next(9).len(), 1);
    // It ends before that: this is said.
    let events = tracker.take(Fact::Exit { at: 3, subject: process(7) });
    assert!(events[0].why.is_some() && tracker.doubtful.next(9).is_empty());
}

/// Make sure that one user's processes, however many, leave room for another's,
/// and that what of them is not is reported.
#[test]
fn too_many_processes() {
    let mut tracker = tracker();
    for pid in 1..=u32::try_from(EACH).unwrap() + 7 {
        let subject = EventSubject { account: Some(2000), ..process(pid) };
        tracker.take(Fact::Fork { at: 1, subject, parent: 1, parent_start: 1 });
    }
    assert_eq!(tracker.processes.len(), EACH);
    assert_eq!(values(&set(&mut tracker, 100_000, A, "1")), (None, Some("1")));
    let reread = tracker.reread();
    let events = tracker.compare(reread);
    let lost: Vec<_> = events.iter().flat_map(|event| &event.lost_by).collect();
    assert_eq!((lost.len(), lost[0].uid, lost[0].events), (1, Some(2000), 7));
}
