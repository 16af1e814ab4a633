//! Programs that are attached, replaced and removed, one by one and in bursts, by
//! gpumap's tests and by container runtimes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::{deny, id, ids, next, one, settled, soon, watch, with_engines};
use crate::support::bpf::{self, MULTI, OVERRIDE, attach, detach};
use crate::support::cgroup::Cgroup;
use crate::support::container::Container;
use crate::support::kernel::counts_changes;
use crate::support::wait::within;
use crate::support::{host, node};
use gpumap::model::{AttachFlag, EventKind, Numbers, Verdict};
use gpumap::render;
use gpumap::report::{Event, PolicyEvent};
use serde_json::json;

/// Make sure that attach, both ways of replacing, and detach are seen with the
/// exact difference.
#[test]
fn attach_replace_detach() {
    with_engines(|top, watcher| {
        let (a, b) = (deny(0), deny(1));
        attach(top.dir(), &a, MULTI, None).unwrap();
        let (event, policy) = one(watcher);
        assert_eq!(event.cgroup.unwrap(), node::relative(top.path()));
        assert_eq!((ids(&policy.attached), policy.gone.len()), (vec![id(&a)], 0));
        assert_eq!(policy.attached[0].place.flags, [AttachFlag::Multi]);
        assert!(policy.attached[0].loaded_at.is_known());
        assert_eq!((policy.lost.len(), policy.gained.len(), policy.equal), (1, 0, false));
        let (to, rule) = (policy.changes[0].to, policy.changes[0].rule.rule);
        assert_eq!((to, rule.major, rule.minor), (Verdict::Deny, Numbers::one(195), Numbers::one(0)));
        assert_eq!((policy.changes.len(), policy.also), (1, 0));

        attach(top.dir(), &b, MULTI, Some(&a)).unwrap();
        let (_, policy) = one(watcher);
        assert_eq!((ids(&policy.attached), ids(&policy.gone)), (vec![id(&b)], vec![id(&a)]));
        assert_eq!((policy.lost.len(), policy.gained.len(), policy.changes.len()), (1, 1, 2));

        detach(top.dir(), b.as_fd()).unwrap();
        let (_, policy) = one(watcher);
        assert_eq!((ids(&policy.attached), ids(&policy.gone)), (vec![], vec![id(&b)]));
        assert_eq!((policy.lost.len(), policy.gained.len()), (0, 1));

        // As Slurm does: another program with the same content.
        attach(top.dir(), &a, OVERRIDE, None).unwrap();
        assert_eq!(one(watcher).1.attached[0].place.flags, [AttachFlag::Override]);
        let same = deny(0);
        attach(top.dir(), &same, OVERRIDE, None).unwrap();
        let (event, policy) = one(watcher);
        assert_eq!((ids(&policy.attached), ids(&policy.gone)), (vec![id(&same)], vec![id(&a)]));
        assert!(policy.equal && policy.changes.is_empty() && policy.lost.is_empty());
        let event = Event { policy: Some(policy), ..event };
        let line = render::policy_event(&event, watcher.gpus()).unwrap();
        assert!(line.contains("nothing else is allowed than before"), "{line}");
        assert!(watcher.check().is_empty());
    });
}

/// Make sure that links are seen to come and to go with their owner.
#[test]
fn links() {
    with_engines(|top, watcher| {
        let (a, b) = (deny(0), deny(1));
        let link = bpf::link(top.dir(), &a, 0).unwrap();
        let (_, policy) = one(watcher);
        assert_eq!(policy.attached[0].place.flags, [AttachFlag::Multi, AttachFlag::Link]);
        bpf::update_link(&link, &b).unwrap();
        let (_, policy) = one(watcher);
        assert_eq!((ids(&policy.attached), ids(&policy.gone)), (vec![id(&b)], vec![id(&a)]));
        drop(link);
        let (_, policy) = soon(watcher);
        assert_eq!((ids(&policy.gone), policy.gained.len()), (vec![id(&b)], 1));
    });
}

/// Make sure that cgroups that come with programs and go with them are seen,
/// and those without say nothing; a hostile name is only a name.
#[test]
fn come_and_go() {
    with_engines(|top, watcher| {
        let quiet = top.child("quiet").unwrap();
        assert!(watcher.check().is_empty());
        let bytes = b"a\r\x1b[2J\xff";
        let path = quiet.path().join(OsStr::from_bytes(bytes));
        fs::create_dir(&path).unwrap();
        let hostile = Cgroup::open(path).unwrap();
        let program = deny(2);
        attach(hostile.dir(), &program, MULTI, None).unwrap();
        let (event, policy) = one(watcher);
        assert!(event.cgroup_hex.as_ref().unwrap().ends_with("610d1b5b324aff"));
        assert_eq!((ids(&policy.attached), policy.lost.len()), (vec![id(&program)], 1));
        let line = render::policy_event(&event, watcher.gpus()).unwrap();
        assert!(!line.chars().any(char::is_control) && line.contains("may not open nvidia2"), "{line}");
        drop(hostile);
        drop(quiet);
        let (_, policy) = one(watcher);
        assert!(policy.removed && policy.equal && policy.lost.is_empty());
        assert_eq!(ids(&policy.gone), [id(&program)]);
        assert!(watcher.check().is_empty());
    });
}

/// Make sure that one change at the top of a subtree is one event, and that
/// what is below with programs of its own is told apart.
#[test]
fn subtree() {
    with_engines(|top, watcher| {
        let children: Vec<Cgroup> = (0..49).map(|at| top.child(&format!("c{at}")).unwrap()).collect();
        assert!(watcher.check().is_empty());
        let (own, program) = (deny(0), deny(0));
        attach(children[7].dir(), &own, MULTI, None).unwrap();
        assert_eq!(one(watcher).1.also, 0);
        attach(top.dir(), &program, MULTI, None).unwrap();
        let events = watcher.check();
        let policies: Vec<&PolicyEvent> = events.iter().map(|event| event.policy.as_ref().unwrap()).collect();
        assert_eq!(events[0].cgroup.as_deref().unwrap(), node::relative(top.path()));
        assert_eq!(
            policies.iter().map(|policy| (policy.also, policy.equal)).collect::<Vec<_>>(),
            [(48, false), (0, true)]
        );
        drop(children);
        assert!(one(watcher).1.removed);
        let made: Vec<Cgroup> = (0..9).map(|at| top.child(&format!("d{at}")).unwrap()).collect();
        assert!(watcher.check().is_empty());
        detach(top.dir(), program.as_fd()).unwrap();
        let (_, policy) = one(watcher);
        assert_eq!((policy.also, policy.gained.len()), (9, 1));
        drop(made);
    });
}

/// Make sure that a target that is alone is seen to lose what is attached
/// above it, and that its neighbours say nothing.
#[test]
fn ancestors() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().unwrap();
    let (inner, other) = (top.child("inner").unwrap(), top.child("other").unwrap());
    let mut watcher = watch(inner.path(), false, None);
    let program = deny(0);
    attach(other.dir(), &program, MULTI, None).unwrap();
    assert!(watcher.check().is_empty());
    let above = deny(3);
    attach(top.dir(), &above, MULTI, None).unwrap();
    let (event, policy) = one(&mut watcher);
    assert_eq!(event.cgroup.unwrap(), node::relative(inner.path()));
    assert_eq!(policy.attached[0].place.attached_at, node::relative(top.path()));
    assert_eq!(policy.also, 0);
    // It may be made anew, as units are.
    let path: PathBuf = inner.path().to_owned();
    drop(inner);
    watcher.check();
    fs::create_dir(&path).unwrap();
    let inner = Cgroup::open(path).unwrap();
    watcher.check();
    attach(inner.dir(), &program, MULTI, None).unwrap();
    assert_eq!(ids(&one(&mut watcher).1.attached), [id(&program)]);
    drop((inner, other));
}

/// Make sure that none of a hundred attachments at once is lost, whether on a
/// hundred cgroups or on one, and that what came and went is counted.
#[test]
fn bursts() {
    with_engines(|top, watcher| {
        let programs: Vec<OwnedFd> = (0..100).map(deny).collect();
        let children: Vec<Cgroup> = (0..100).map(|at| top.child(&format!("c{at}")).unwrap()).collect();
        for (child, program) in children.iter().zip(&programs) {
            attach(child.dir(), program, MULTI, None).unwrap();
        }
        let events = settled(watcher);
        assert_eq!(events.len(), 100);
        let mut seen: Vec<u32> =
            events.iter().flat_map(|event| ids(&event.policy.as_ref().unwrap().attached)).collect();
        seen.sort_unstable();
        let mut expected: Vec<u32> = programs.iter().map(id).collect();
        expected.sort_unstable();
        assert_eq!(seen, expected);
        for program in programs.iter().take(60) {
            attach(top.dir(), program, MULTI, None).unwrap();
        }
        let events = settled(watcher);
        assert_eq!(events.iter().filter(|event| event.event == EventKind::Lost).count(), 0);
        assert_eq!(events[0].policy.as_ref().unwrap().attached.len(), 60);
        if watcher.engine().starts_with("lists") || !counts_changes() {
            return;
        }
        detach(top.dir(), programs[0].as_fd()).unwrap();
        attach(top.dir(), &programs[0], MULTI, None).unwrap();
        let events = settled(watcher);
        let (lost, others): (Vec<&Event>, Vec<&Event>) =
            events.iter().partition(|event| event.event == EventKind::Lost);
        assert_eq!((lost.len(), lost[0].lost), (1, Some(2)), "{events:#?}");
        // Where decoding took long, it was said that something changed.
        assert!(others.iter().all(|event| event.policy.as_ref().unwrap().equal), "{events:#?}");
        let line = render::policy_event(lost[0], &[]).unwrap();
        assert!(line.contains("2 times programs were attached here and gone again"), "{line}");
    });
}

/// Make sure that a container's start, its update and its end are seen.
#[test]
fn containers() {
    for runtime in ["runc", "crun"] {
        let Some(_host) = host::shared().filter(|_| host::is_installed(runtime)) else { continue };
        let mut watcher = watch(Path::new("/"), true, None);
        let rules = json!([
            { "allow": false, "access": "rwm" },
            { "allow": true, "type": "c", "major": 195, "minor": 1, "access": "rw" },
        ]);
        let container = match Container::start(runtime, &rules) {
            Ok(container) => container,
            Err(why) => panic!("{runtime}: {why}"),
        };
        let path = node::relative(&container.cgroup());
        let policy = next(&mut watcher, &path);
        assert!(!policy.attached.is_empty() && policy.gone.is_empty());
        assert!(
            policy.attached[0].writer.as_ref().is_some_and(|writer| writer.to_string().contains(runtime))
        );
        assert_eq!((policy.lost.len(), policy.equal), (3, false));
        // Its own update puts the same rules in force again, or nothing new.
        container.update(runtime);
        for event in settled(&mut watcher).iter().filter(|event| event.cgroup.as_ref() == Some(&path)) {
            let policy = event.policy.as_ref().unwrap();
            assert!(policy.equal && policy.lost.is_empty() && policy.changes.is_empty(), "{event:#?}");
        }
        // As daemon-reload does, or anybody behind the runtime's back.
        let program = deny(1);
        attach(&File::open(container.cgroup()).unwrap(), &program, MULTI, None).unwrap();
        let policy = next(&mut watcher, &path);
        assert_eq!((policy.lost.len(), ids(&policy.attached)), (1, vec![id(&program)]));
        drop(container);
        let end = Instant::now() + within(5);
        let gone = loop {
            let events = watcher.check();
            let removed = |event: &Event| event.policy.as_ref().is_some_and(|policy| policy.removed);
            let gone = events.iter().any(|event| event.cgroup.as_ref() == Some(&path) && removed(event));
            if gone || Instant::now() > end {
                break gone;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(gone, "{runtime}");
    }
}
