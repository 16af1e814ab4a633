//! Attaches, replaces and removes programs on the running kernel, and compares the
//! events of `watch::policy` with that.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::asm::{Asm, alu, cond, helper, size};
use crate::support::bpf::{self, MULTI, OVERRIDE, attach, detach};
use crate::support::cgroup::Cgroup;
use crate::support::container::Container;
use crate::support::source::{MapKind, MapSpec};
use crate::support::watching::Watch;
use crate::support::{host, inspect, node};
use gpumap::model::Verdict;
use gpumap::model::{AttachFlag, EventKind, ProblemCode};
use gpumap::observe::monitor::cgroups::{ListSource, Notification};
use gpumap::observe::{CgroupTarget, Options};
use gpumap::render;
use gpumap::report::{Event, PolicyEvent};
use gpumap::watch::policy::PolicyWatcher;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

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
    let targets = [CgroupTarget { path: path.to_owned(), recursive }];
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
    let mut events = watcher.check();
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
            println!("skipped: {name} does not work here");
            continue;
        }
        assert!(watcher.check().is_empty() && watcher.problems().is_empty());
        test(&top, &mut watcher);
        drop(watcher);
    }
}

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
        assert!(!policy.attached[0].loaded_at.is_empty());
        assert_eq!((policy.lost.len(), policy.gained.len(), policy.equal), (1, 0, false));
        let rule = &policy.changes[0];
        assert_eq!((rule.to, rule.rule.major, rule.rule.minor), (Verdict::Deny, [195; 2], [0; 2]));
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
        let (_, policy) = one(watcher);
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
        assert!(!line.chars().any(char::is_control) && line.contains("lost nvidia2"), "{line}");
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
        let events = watcher.check();
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
        let events = watcher.check();
        assert_eq!(events.iter().filter(|event| event.event == EventKind::Lost).count(), 0);
        assert_eq!(events[0].policy.as_ref().unwrap().attached.len(), 60);
        if watcher.engine().starts_with("lists") {
            return;
        }
        detach(top.dir(), programs[0].as_fd()).unwrap();
        attach(top.dir(), &programs[0], MULTI, None).unwrap();
        let events = watcher.check();
        let lost: Vec<&Event> = events.iter().filter(|event| event.event == EventKind::Lost).collect();
        assert_eq!((events.len(), lost.len(), lost[0].lost), (1, 1, Some(2)), "{events:#?}");
        let line = render::policy_event(lost[0], &[]).unwrap();
        assert!(line.contains("2 times programs were attached here and gone again"), "{line}");
    });
}

/// A program that allows nvidia1 only in the cgroup whose id is in its map, and
/// that map.
fn keyed() -> (OwnedFd, OwnedFd) {
    let mut asm = Asm::new();
    let spec = MapSpec {
        kind: MapKind::Hash,
        key_size: 8,
        value_size: 4,
        max_entries: 8,
        flags: 0,
        freeze: false,
        entries: Vec::new(),
    };
    let (map, allow) = (asm.map(spec), asm.label());
    asm.ldx(size::W, 2, 1, 4);
    asm.jump_if(cond::NE, 2, 195, allow);
    asm.ldx(size::W, 2, 1, 8);
    asm.jump_if(cond::NE, 2, 1, allow);
    asm.call(helper::CGROUP_ID);
    asm.stx(size::DW, 10, -8, 0);
    asm.movr(2, 10);
    asm.op64(alu::ADD, 2, -8);
    asm.ld_map(1, map);
    asm.call(helper::MAP_LOOKUP);
    asm.jump_if(cond::NE, 0, 0, allow);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
    let mut loaded = bpf::load(&asm.finish("keyed by cgroup")).unwrap();
    (loaded.program, loaded.maps.remove(0))
}

/// Make sure that a change of what a program reads is a change of the cgroup
/// that it is about, and of no other.
#[test]
fn contents() {
    with_engines(|top, watcher| {
        let (program, map) = keyed();
        attach(top.dir(), &program, MULTI, None).unwrap();
        let (job, _other) = (top.child("job").unwrap(), top.child("other").unwrap());
        watcher.check();
        assert!(watcher.check().is_empty());
        let key = fs::metadata(job.path()).unwrap().ino().to_le_bytes();
        for (change, verdict) in [(true, "allow"), (false, "deny")] {
            if change { bpf::update(&map, &key, &[1; 4]) } else { bpf::delete(&map, &key) }.unwrap();
            let (event, policy) = one(watcher);
            assert_eq!(event.cgroup.as_deref(), Some(node::relative(job.path()).as_str()));
            assert!(policy.attached.is_empty() && policy.gone.is_empty() && !policy.equal);
            assert_eq!((policy.maps.len(), policy.also), (1, 0));
            let (lost, gained) = if change { (0, 1) } else { (1, 0) };
            assert_eq!((policy.lost.len(), policy.gained.len()), (lost, gained), "{policy:#?}");
            let changes: Vec<&str> = policy.changes.iter().map(|change| change.to.into()).collect();
            assert_eq!(changes, [verdict]);
            let line = render::policy_event(&event, watcher.gpus()).unwrap();
            assert!(line.contains("nvidia1: the contents of map"), "{line}");
        }
        // Another cgroup's entry, here not followed by anything.
        bpf::update(&map, &1_u64.to_le_bytes(), &[1; 4]).unwrap();
        assert!(watcher.check().is_empty());
    });
}

/// A program that jumps for nvidia1 to the first program of an array, and denies
/// it where there is none; and that array.
fn calling() -> (OwnedFd, OwnedFd) {
    let mut asm = Asm::new();
    let spec = MapSpec {
        kind: MapKind::ProgArray,
        key_size: 4,
        value_size: 4,
        max_entries: 1,
        flags: 0,
        freeze: false,
        entries: Vec::new(),
    };
    let (map, allow) = (asm.map(spec), asm.label());
    asm.ldx(size::W, 2, 1, 4);
    asm.jump_if(cond::NE, 2, 195, allow);
    asm.ldx(size::W, 2, 1, 8);
    asm.jump_if(cond::NE, 2, 1, allow);
    asm.ld_map(2, map);
    asm.mov(3, 0);
    asm.call(helper::TAIL_CALL);
    asm.verdict(0);
    asm.bind(allow);
    asm.verdict(1);
    let mut loaded = bpf::load(&asm.finish("calls a program")).unwrap();
    (loaded.program, loaded.maps.remove(0))
}

/// Make sure that a program that is put into an array of programs, and one that
/// is taken out again, is a change of the policy that jumps there.
#[test]
fn arrays_of_programs() {
    with_engines(|top, watcher| {
        let (program, array) = calling();
        attach(top.dir(), &program, MULTI, None).unwrap();
        watcher.check();
        assert!(watcher.check().is_empty());
        let target = deny(2);
        let entry = target.as_raw_fd().to_ne_bytes();
        for (change, verdict) in [(true, "unknown"), (false, "deny")] {
            if change { bpf::update(&array, &[0; 4], &entry) } else { bpf::delete(&array, &[0; 4]) }.unwrap();
            let (event, policy) = one(watcher);
            assert_eq!(event.cgroup.as_deref(), Some(node::relative(top.path()).as_str()));
            assert!(policy.attached.is_empty() && policy.gone.is_empty() && !policy.equal);
            assert_eq!(policy.maps.len(), 1, "{policy:#?}");
            let changes: Vec<&str> = policy.changes.iter().map(|change| change.to.into()).collect();
            assert!(!changes.is_empty() && changes.iter().all(|to| *to == verdict), "{policy:#?}");
        }
    });
}

/// Make sure that waiting ends when a cgroup comes, and that nothing stays
/// readable afterwards.
#[test]
fn waiting() {
    let Some(_host) = host::shared() else { return };
    for (engine, name) in ENGINES {
        let top = Cgroup::new().unwrap();
        let mut watcher = watch(top.path(), true, Some(engine));
        let readable = |watcher: &PolicyWatcher| {
            let mut fds = [PollFd::new(watcher.fd()?, PollFlags::POLLIN)];
            Some(poll(&mut fds, PollTimeout::from(50_u8)).unwrap() == 1)
        };
        if engine == Notification::Polling {
            assert!(readable(&watcher).is_none());
            continue;
        }
        let child = top.child("child").unwrap();
        assert_eq!(readable(&watcher), Some(true), "{name}");
        // Other tests make cgroups too: at some time it is quiet.
        let patience = Instant::now() + Duration::from_secs(120);
        let quiet = std::iter::repeat_with(|| {
            watcher.check();
            readable(&watcher) == Some(false)
        });
        assert!(quiet.take_while(|_| Instant::now() < patience).any(|quiet| quiet), "{name}");
        let grandchild = child.child("deep").unwrap();
        assert_eq!(readable(&watcher), Some(true), "{name}");
        drop((grandchild, child));
    }
}

/// Make sure that cgroups are seen that are made in another cgroup namespace,
/// through a mount of its own.
#[test]
fn other_namespace() {
    with_engines(|top, watcher| {
        let scratch = std::env::temp_dir().join(format!("gpumap-policies-{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        let script = r#"echo $$ > "$0/cgroup.procs" && exec unshare -C -m sh -c '
            mount -t cgroup2 none "$0" && mkdir "$0/inner"' "$1""#;
        let status = Command::new("sh").args(["-c", script]).arg(top.path()).arg(&scratch).status();
        assert!(status.unwrap().success());
        fs::remove_dir(&scratch).unwrap();
        let inner = Cgroup::open(top.path().join("inner")).unwrap();
        let program = deny(1);
        attach(inner.dir(), &program, MULTI, None).unwrap();
        let (event, policy) = one(watcher);
        assert_eq!(event.cgroup.unwrap(), node::relative(inner.path()));
        assert_eq!(ids(&policy.attached), [id(&program)]);
    });
}

/// Make sure that few cgroups are asked one by one and many by the iterator,
/// where it works, if nobody says otherwise.
#[test]
fn chosen() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().unwrap();
    let works = watch_by(top.path(), true, None, Some(ListSource::Iterator)).engine().contains("iterator");
    let uses = |source| watch_by(top.path(), true, None, source).engine().contains("iterator");
    assert!(!uses(None));
    let children: Vec<Cgroup> = (0..520).map(|at| top.child(&format!("c{at}")).unwrap()).collect();
    assert_eq!((uses(None), uses(Some(ListSource::Queries))), (works, false));
    drop(children);
}

/// Make sure that more cgroups than the iterator's ring has room for are asked
/// one by one, with the same events, and the iterator is not tried for ever.
#[test]
fn more_than_fit() {
    let Some(_host) = host::shared() else { return };
    let chain = Cgroup::chain(2).unwrap();
    let programs: Vec<OwnedFd> = (0..64).map(deny).collect();
    for cgroup in &chain {
        programs.iter().for_each(|one| attach(cgroup.dir(), one, MULTI, None).unwrap());
    }
    let mut watcher = watch_by(chain[0].path(), true, None, Some(ListSource::Iterator));
    if !watcher.engine().ends_with(", cgroup iterator") {
        println!("skipped: there is no iterator over cgroups here");
        return;
    }
    assert!(watcher.check().is_empty());
    let children: Vec<Cgroup> = (0..500).map(|at| chain[1].child(&format!("c{at}")).unwrap()).collect();
    assert!(watcher.check().is_empty());
    for program in programs.iter().take(4) {
        detach(chain[0].dir(), program.as_fd()).unwrap();
        let events = watcher.check();
        let policies: Vec<&PolicyEvent> = events.iter().filter_map(|event| event.policy.as_ref()).collect();
        assert_eq!(policies.iter().map(|policy| policy.also + 1).sum::<usize>(), 502);
        assert!(policies.iter().any(|policy| ids(&policy.gone) == [id(program)]), "{policies:#?}");
    }
    assert!(!watcher.engine().contains("iterator") && watcher.problems().is_empty());
    drop(children);
    assert!(watcher.check().is_empty());
    chain.into_iter().rev().for_each(drop);
}

/// Make sure that cgroups that cannot all be held open are followed all the
/// same: the test runs again in a process that may open few files.
#[test]
fn few_open_files() {
    let Some(_host) = host::shared() else { return };
    if std::env::var_os("GPUMAP_TEST_INSIDE").is_none() {
        let exe = std::env::current_exe().unwrap();
        let script = r#"ulimit -Sn 40 && exec "$0" --exact program_changes::few_open_files --test-threads=1"#;
        let mut command = Command::new("sh");
        let output = command.args(["-c", script]).arg(exe).env("GPUMAP_TEST_INSIDE", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    for (engine, source, name) in ways() {
        let top = Cgroup::new().unwrap();
        let path = |at: usize| top.path().join(format!("c{at:03}"));
        (0..80).for_each(|at| fs::create_dir(path(at)).unwrap());
        let mut watcher = watch_by(top.path(), true, Some(engine), Some(source));
        let (a, b) = (deny(0), deny(1));
        attach(&File::open(path(70)).unwrap(), &a, MULTI, None).unwrap();
        let (event, policy) = one(&mut watcher);
        assert!(event.cgroup.unwrap().ends_with("c070"), "{name}");
        assert_eq!(ids(&policy.attached), [id(&a)]);
        // Another cgroup of the same name.
        fs::remove_dir(path(70)).unwrap();
        fs::create_dir(path(70)).unwrap();
        attach(&File::open(path(70)).unwrap(), &b, MULTI, None).unwrap();
        let (_, policy) = one(&mut watcher);
        assert_eq!((ids(&policy.attached), ids(&policy.gone)), (vec![id(&b)], vec![id(&a)]));
        attach(top.dir(), &a, MULTI, None).unwrap();
        let also: usize = watcher.check().iter().map(|event| event.policy.as_ref().unwrap().also + 1).sum();
        assert_eq!(also, 81);
        (0..80).for_each(|at| fs::remove_dir(path(at)).unwrap());
        assert!(one(&mut watcher).1.removed);
        assert!(watcher.problems().is_empty());
    }
}

/// Make sure that a user without rights is told so, and that nothing is made
/// up then.
#[test]
#[allow(unsafe_code)]
fn without_rights() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().unwrap();
    let path = top.path().to_owned();
    let program = deny(0);
    let nobody = std::thread::spawn(move || {
        // SAFETY: the raw call changes this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0);
        let mut watcher = watch(&path, true, None);
        let problems = watcher.problems();
        assert!(problems.iter().any(|problem| problem.code == ProblemCode::NoRight), "{problems:#?}");
        assert!(watcher.engine().starts_with("lists+"), "{}", watcher.engine());
        (watcher, path)
    });
    let (mut watcher, path) = nobody.join().unwrap();
    // From here on the rights are there: what was refused is not asked again.
    attach(&File::open(path).unwrap(), &program, MULTI, None).unwrap();
    assert!(watcher.check().is_empty());
}

/// What a look at 5000 cgroups costs:
/// `cargo test --release --test watch program_changes -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost() {
    let top = Cgroup::new().unwrap();
    let path = |at: usize| top.path().join(format!("c{:02}", at / 100)).join(format!("d{:02}", at % 100));
    (0..5000).for_each(|at| fs::create_dir_all(path(at)).unwrap());
    for (engine, source, _) in ways() {
        let start = Instant::now();
        let mut watcher = watch_by(top.path(), true, Some(engine), Some(source));
        let started = start.elapsed();
        let start = Instant::now();
        (0..20).for_each(|_| drop(watcher.check()));
        let look = start.elapsed() / 20;
        let program = deny(0);
        attach(top.dir(), &program, MULTI, None).unwrap();
        let start = Instant::now();
        let events = watcher.check();
        println!(
            "{engine:?} {source:?} start {started:?} look {look:?} change of all {:?} {}",
            start.elapsed(),
            events[0].policy.as_ref().unwrap().also
        );
        detach(top.dir(), program.as_fd()).unwrap();
    }
    (0..5000).for_each(|at| fs::remove_dir(path(at)).unwrap());
    (0..50).for_each(|at| fs::remove_dir(top.path().join(format!("c{at:02}"))).unwrap());
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
        let policy = of(&watcher.check(), &path);
        assert!(!policy.attached.is_empty() && policy.gone.is_empty());
        assert!(
            policy.attached[0].writer.as_ref().is_some_and(|writer| writer.to_string().contains(runtime))
        );
        assert_eq!((policy.lost.len(), policy.equal), (3, false));
        // Its own update puts the same rules in force again, or nothing new.
        container.update(runtime);
        for event in watcher.check().iter().filter(|event| event.cgroup.as_ref() == Some(&path)) {
            let policy = event.policy.as_ref().unwrap();
            assert!(policy.equal && policy.lost.is_empty() && policy.changes.is_empty(), "{event:#?}");
        }
        // As daemon-reload does, or anybody behind the runtime's back.
        let program = deny(1);
        attach(&File::open(container.cgroup()).unwrap(), &program, MULTI, None).unwrap();
        let policy = of(&watcher.check(), &path);
        assert_eq!((policy.lost.len(), ids(&policy.attached)), (1, vec![id(&program)]));
        drop(container);
        let end = Instant::now() + Duration::from_secs(5);
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

fn of(events: &[Event], path: &str) -> PolicyEvent {
    let found = events.iter().find(|event| event.cgroup.as_deref() == Some(path));
    found.unwrap_or_else(|| panic!("{path}: {events:#?}")).policy.clone().unwrap()
}

/// Make sure that a user is told, once, that there are more cgroups than gpumap
/// follows.
#[test]
fn more_than_are_followed() {
    let Some(_host) = host::shared() else { return };
    let top = Cgroup::new().unwrap();
    let _children: Vec<Cgroup> = (0..20).map(|at| top.child(&format!("c{at}")).unwrap()).collect();
    let words = ["--cgroup", top.path().to_str().unwrap(), "--for", "4s"];
    let (watch, _) = Watch::start_in(Some(("GPUMAP_TEST_CGROUPS", "8")), &words);
    let events = watch.until(|event| event.event == EventKind::End);
    let problems: Vec<_> = events.iter().filter_map(|event| event.problem.as_ref()).collect();
    assert_eq!(problems.len(), 1, "{events:#?}");
    assert_eq!((problems[0].code.as_str(), problems[0].what.as_str()), ("too-many", "cgroups"));
    assert!(problems[0].why.starts_with("more cgroups than gpumap follows"), "{problems:#?}");
}
