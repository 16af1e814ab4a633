//! Attaches, replaces and removes programs on the running kernel, and compares the
//! events of `watch::policy` with that.

mod attached;
mod contents;
mod engines;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::cgroup::Cgroup;
use crate::support::wait::patience;
use crate::support::{host, inspect, node};
use gpumap::model::EventKind;
use gpumap::observe::monitor::cgroups::{ListSource, Notification};
use gpumap::observe::{CgroupTarget, Options};
use gpumap::report::{Event, PolicyEvent};
use gpumap::watch::policy::PolicyWatcher;

const ENGINES: [(Notification, &str); 3] = [
    (Notification::Fanotify, "revision+fanotify"),
    (Notification::Inotify, "revision+inotify"),
    (Notification::Polling, "polling"),
];

/// Where lists are read, with what the engine's name says of it.
const SOURCES: [(ListSource, &str); 2] =
    [(ListSource::Queries, ""), (ListSource::Iterator, ", cgroup iterator")];

fn watch(path: &Path, recursive: bool, engine: Option<Notification>) -> PolicyWatcher {
    watch_by(path, recursive, engine, None)
}

fn watch_by(
    path: &Path,
    recursive: bool,
    engine: Option<Notification>,
    source: Option<ListSource>,
) -> PolicyWatcher {
    let options = Options { gpu_root: node::four_gpus(), ..Options::default() };
    let targets = [CgroupTarget::typed(path, recursive)];
    PolicyWatcher::start_with(&options, &targets, engine, source).unwrap()
}

/// Every engine with every source.
fn ways() -> impl Iterator<Item = (Notification, ListSource, String)> {
    ENGINES.into_iter().flat_map(|(engine, name)| {
        SOURCES.map(|(source, suffix)| (engine, source, format!("{name}{suffix}")))
    })
}

fn id(program: &OwnedFd) -> u32 {
    inspect::program(program).unwrap().id
}

fn deny(minor: i32) -> OwnedFd {
    node::deny(195, minor)
}

/// The one event there must be.
fn one(watcher: &mut PolicyWatcher) -> (Event, PolicyEvent) {
    only(watcher.check())
}

/// The one event that there will be: a child that another test has just forked has copies of
/// this process's descriptors until it executes its program, so that what is closed here may
/// live a moment longer.
fn soon(watcher: &mut PolicyWatcher) -> (Event, PolicyEvent) {
    let began = Instant::now();
    loop {
        let events = watcher.check();
        if !events.is_empty() || began.elapsed() > patience() {
            return only(events);
        }
        sleep(Duration::from_millis(10));
    }
}

fn only(mut events: Vec<Event>) -> (Event, PolicyEvent) {
    assert_eq!(events.len(), 1, "{events:#?}");
    let event = events.remove(0);
    assert_eq!(
        (event.schema.as_str(), event.command.as_str(), event.event),
        ("gpumap/1", "watch", EventKind::Policy)
    );
    let policy = event.policy.clone().unwrap();
    (event, policy)
}

fn ids(programs: &[gpumap::report::PolicyProgram]) -> Vec<u32> {
    programs.iter().map(|program| program.place.id).collect()
}

/// Runs a test with every engine and source; those that do not work here are
/// said.
fn with_engines(test: impl Fn(&Cgroup, &mut PolicyWatcher)) {
    let Some(_host) = host::shared() else { return };
    for (engine, source, name) in ways() {
        let top = Cgroup::new().unwrap();
        let mut watcher = watch_by(top.path(), true, Some(engine), Some(source));
        if ![name.clone(), name.replace("revision", "lists")].contains(&watcher.engine()) {
            host::skip(&format!("{name} does not work here"));
            continue;
        }
        assert!(watcher.check().is_empty() && watcher.problems().is_empty());
        test(&top, &mut watcher);
        drop(watcher);
    }
}

/// The events of a check. A busy machine decodes large policies beside it, and says so: their
/// events are waited for.
fn settled(watcher: &mut PolicyWatcher) -> Vec<Event> {
    let mut events = watcher.check();
    let mut waiting = events.extract_if(.., |event| event.event == EventKind::Decoding).count();
    let began = Instant::now();
    while waiting > 0 {
        assert!(began.elapsed() < patience(), "{waiting} cgroups are still being decoded");
        sleep(Duration::from_millis(10));
        let late = watcher.check();
        waiting = if late.is_empty() { waiting } else { 0 };
        events.extend(late);
    }
    events
}

/// The next change of a cgroup, which a busy machine may decode beside its check, and after
/// changes of others.
fn next(watcher: &mut PolicyWatcher, path: &str) -> PolicyEvent {
    let began = Instant::now();
    loop {
        let events = watcher.check();
        let is_it = |event: &&Event| event.cgroup.as_deref() == Some(path) && event.policy.is_some();
        if let Some(event) = events.iter().find(is_it) {
            return event.policy.clone().unwrap();
        }
        assert!(began.elapsed() < patience(), "{path}: {events:#?}");
        sleep(Duration::from_millis(10));
    }
}
