//! The engines that notice changes: which is chosen, what it does with more cgroups
//! than it has room for, without rights, and in other namespaces.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::time::Instant;

use super::{ENGINES, deny, id, ids, one, settled, watch, watch_by, ways, with_engines};
use crate::support::bpf::{MULTI, attach, detach};
use crate::support::cgroup::Cgroup;
use crate::support::wait::within;
use crate::support::watching::Watch;
use crate::support::{host, node};
use gpumap::model::{EventKind, ProblemCode};
use gpumap::observe::monitor::cgroups::{ListSource, Notification};
use gpumap::report::PolicyEvent;
use gpumap::watch::policy::PolicyWatcher;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

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
        if !watcher.engine().ends_with(name.trim_start_matches("revision")) {
            host::skip(&format!("{name} does not work here"));
            continue;
        }
        if engine == Notification::Polling {
            assert!(readable(&watcher).is_none());
            continue;
        }
        let child = top.child("child").unwrap();
        assert_eq!(readable(&watcher), Some(true), "{name}");
        // Other tests make cgroups too: at some time it is quiet.
        let patience = Instant::now() + within(120);
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
    // What other tests make counts too.
    let Some(_host) = host::exclusive() else { return };
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
        return host::skip("there is no iterator over cgroups here");
    }
    assert!(watcher.check().is_empty());
    let children: Vec<Cgroup> = (0..500).map(|at| chain[1].child(&format!("c{at}")).unwrap()).collect();
    assert!(watcher.check().is_empty());
    for program in programs.iter().take(4) {
        detach(chain[0].dir(), program.as_fd()).unwrap();
        let events = settled(&mut watcher);
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
        // Beside 37 of its own it may have what other tests hold open in this moment.
        let script = r#"ulimit -Sn $((37 + $(ls /proc/$$/fd | wc -l))) &&
            exec "$0" --exact program_changes::engines::few_open_files --test-threads=1"#;
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
        assert_eq!(watcher.problems(), [], "{name}");
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
