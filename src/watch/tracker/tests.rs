//! Facts of processes that are nowhere: what events say without `/proc`.

use std::path::PathBuf;

use super::*;
use crate::watch::{How, NewValue};

const A: &str = "CUDA_VISIBLE_DEVICES";
const B: &str = "HIP_VISIBLE_DEVICES";

fn tracker() -> Tracker {
    Tracker::new(Options { proc: PathBuf::from("/nonexistent"), ..Options::default() })
}

fn process(pid: u32) -> Subject {
    Subject { pid, start_time: 1, ..Subject::default() }
}

fn set(tracker: &mut Tracker, pid: u32, name: &'static str, value: &str) -> Vec<Event> {
    let value = NewValue::Value { bytes: value.into(), cut: false };
    tracker.take(Fact::Set { at: 1, subject: process(pid), how: How::Setenv, name, value, keep: false })
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
    assert!(tracker.take(Fact::Gap { at: 2 }).is_empty());
    assert_eq!(values(&set(&mut tracker, 7, A, "2")), (None, Some("2")));
    assert_eq!(tracker.take(Fact::Lost(3))[0].lost, Some(3));
    assert_eq!(values(&set(&mut tracker, 7, A, "3")), (Some("2"), Some("3")));
}

/// Make sure that a child has what its parent had, and another process with
/// the same pid has not.
#[test]
fn children() {
    let mut tracker = tracker();
    set(&mut tracker, 7, A, "1");
    assert!(tracker.take(Fact::Fork { at: 1, subject: process(8), parent: 7 }).is_empty());
    assert_eq!(values(&set(&mut tracker, 8, A, "2")), (Some("1"), Some("2")));
    assert_eq!(values(&set(&mut tracker, 7, A, "3")), (Some("1"), Some("3")));
    let other = Subject { start_time: 2, ..process(8) };
    assert!(tracker.state(&other).unwrap().environment.is_none());
}

/// Make sure that a process is not kept after its end, be that told or found.
#[test]
fn ends() {
    let mut tracker = tracker();
    for pid in [7, 8] {
        set(&mut tracker, pid, A, "1");
    }
    let events = tracker.take(Fact::Exit { at: 2, subject: process(7) });
    assert_eq!((events[0].event.as_str(), &events[0].why), ("exit", &None));
    let reread = tracker.reread();
    let events = tracker.compare(reread);
    assert_eq!((events.len(), events[0].event.as_str()), (1, "exit"));
    assert!(events[0].why.is_some() && tracker.processes.is_empty());
}
