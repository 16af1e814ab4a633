//! Processes that leave a cgroup and enter another while `gpumap watch` runs:
//! moved by root or by themselves, one thread of them, or born elsewhere. Needs
//! python3.

use crate::support::host::{self, Host};
use crate::support::programs;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::cgroup::Tree;
use crate::support::wait::until_it_sleeps;
use crate::support::watching::{Place, Watch};
use gpumap::model::{EventKind, GpuKey};
use gpumap::report::{Event, MoveEvent};

/// A hierarchy with a cgroup of a job, in which no device is allowed, and one
/// beside it, in which all are.
struct Scene {
    top: Tree,
    job: PathBuf,
    outside: PathBuf,
    _host: Host,
}

impl Scene {
    fn new() -> Option<Self> {
        let host = host::shared()?;
        let top = Tree::new(&host);
        let job = top.child("system.slice/slurmstepd.scope/job_7/step_0/user/task_0");
        let outside = top.child("outside");
        programs::attach(&File::open(top.path().join(JOB)).unwrap(), &programs::constant("deny", 0), 0);
        Some(Self { top, job, outside, _host: host })
    }

    fn arguments<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let root = ["--cgroup-root", self.top.path().to_str().unwrap()];
        [&root[..], &["--gpu-root", concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/gpu/four-h200")], more]
            .concat()
    }

    fn watch(&self, more: &[&str]) -> Watch {
        let watch = Watch::start(&self.arguments(more));
        watch.until(|event| event.event == EventKind::Ready);
        watch
    }

    /// The path of a cgroup as events have it.
    fn path(&self, cgroup: &Path) -> String {
        format!("/{}", cgroup.strip_prefix(self.top.path()).unwrap().display())
    }
}

const JOB: &str = "system.slice/slurmstepd.scope/job_7";

/// A process that is ended with the value.
struct Sleeper(Child);

impl Sleeper {
    fn new(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        Self(command.args(arguments).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn enter(&self, cgroup: &Path) {
        fs::write(cgroup.join("cgroup.procs"), self.pid().to_string()).unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The next move of a process.
fn moved(watch: &Watch, pid: u32) -> (Event, MoveEvent) {
    let of = |event: &Event| event.process.as_ref().is_some_and(|process| process.pid == pid);
    next_move(watch, of)
}

/// The next move that is one of these, with its GPUs: on a slow machine it is told first that
/// they are not known yet.
fn next_move(watch: &Watch, is_one: impl Fn(&Event) -> bool) -> (Event, MoveEvent) {
    let is_told = |event: &Event| {
        let moved = event.moved.as_ref().filter(|_| is_one(event));
        moved.is_some_and(|moved| moved.unknown.is_empty() || moved.again)
    };
    let event = watch.until(is_told).pop().unwrap();
    let moved = event.moved.clone().unwrap();
    (event, moved)
}

fn count(gpus: Option<&Vec<GpuKey>>) -> Option<usize> {
    gpus.map(Vec::len)
}

/// Make sure that a process which is moved out of its job is told with both
/// cgroups, both owners and the GPUs that it gained, and back again with those
/// that it lost: in a watch of the node, of the job, and of the process.
#[test]
fn out_of_a_job_and_back() {
    let Some(scene) = Scene::new() else { return };
    let sleeper = Sleeper::new("sleep", &["600"]);
    sleeper.enter(&scene.job);
    let pid = sleeper.pid().to_string();
    for scope in [&[][..], &["--job", "7"], &["--pid", &pid]] {
        println!("{scope:?}");
        let watch = scene.watch(scope);
        sleeper.enter(&scene.outside);
        let (event, out) = moved(&watch, sleeper.pid());
        assert_eq!(event.cgroup.as_deref(), Some("/outside"));
        assert_eq!(out.from, Some(scene.path(&scene.job)));
        assert_eq!((event.owner, out.from_owner.and_then(|owner| owner.job_id)), (None, Some(7)));
        assert_eq!(
            (out.left, count(out.gained.as_ref()), count(out.lost.as_ref())),
            (Some(true), Some(4), Some(0))
        );
        assert_eq!(
            (event.how.map(<&str>::from), out.thread, out.unknown),
            (Some("cgroup.procs"), None, vec![])
        );
        sleeper.enter(&scene.job);
        let (event, back) = moved(&watch, sleeper.pid());
        assert_eq!((event.cgroup, back.from.as_deref()), (Some(scene.path(&scene.job)), Some("/outside")));
        assert_eq!(event.owner.and_then(|owner| owner.job_id), Some(7));
        assert_eq!(
            (back.left, count(back.gained.as_ref()), count(back.lost.as_ref())),
            (Some(false), Some(0), Some(4))
        );
    }
}

/// Make sure that a process which moves itself is told although it was forked
/// after the watch began, and that one which goes nowhere is not.
#[test]
fn by_itself() {
    let Some(scene) = Scene::new() else { return };
    let watch = scene.watch(&["--cgroup", scene.top.path().to_str().unwrap()]);
    let procs = |cgroup: &Path| cgroup.join("cgroup.procs").display().to_string();
    let (job, outside) = (procs(&scene.job), procs(&scene.outside));
    let script =
        format!("echo $$ > {job}; echo $$ > {job}; (echo 0 > {job}; echo 0 > {outside}; exec sleep 600)");
    let sleeper = Sleeper::new("/bin/sh", &["-c", &script]);
    let (event, entered) = moved(&watch, sleeper.pid());
    assert_eq!(event.cgroup, Some(scene.path(&scene.job)));
    // It comes from outside of the hierarchy that is watched.
    assert_eq!((entered.from, entered.left), (None, None));
    let (next, left) = next_move(&watch, |_| true);
    let own = next.process.as_ref().unwrap().pid;
    assert_ne!(own, sleeper.pid());
    assert_eq!((next.cgroup.as_deref(), left.from), (Some("/outside"), Some(scene.path(&scene.job))));
    assert_eq!((left.left, count(left.gained.as_ref())), (Some(true), Some(4)));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(own.cast_signed()), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
}

/// Make sure that a child which begins in another cgroup than its parent is told:
/// nobody moves it.
#[test]
fn born_elsewhere() {
    let Some(scene) = Scene::new() else { return };
    let place = Place::new(&host::shared().unwrap());
    let program = place.build("clone_into.c", "clone_into", "gcc");
    let watch = scene.watch(&["--job", "7"]);
    let (program, job) = (program.to_str().unwrap(), scene.job.join("cgroup.procs"));
    let script = format!("echo $$ > {}; exec {program} {} 600", job.display(), scene.outside.display());
    let mut parent = Sleeper::new("/bin/sh", &["-c", &script]);
    moved(&watch, parent.pid());
    let (event, born) = next_move(&watch, |_| true);
    let child = event.process.unwrap().pid;
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.cast_signed()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    let mut output = String::new();
    parent.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_eq!(output.trim(), child.to_string());
    assert_eq!((event.how.map(<&str>::from), event.cgroup.as_deref()), (Some("clone3"), Some("/outside")));
    assert_eq!((born.from, born.left), (Some(scene.path(&scene.job)), Some(true)));
    assert_eq!(count(born.gained.as_ref()), Some(4));
}

/// Make sure that a thread which moves alone is told as that, and that its process
/// is not said to be elsewhere.
#[test]
fn one_thread() {
    let Some(scene) = Scene::new() else { return };
    let domain = scene.top.child("domain");
    let threaded = scene.top.child("domain/threaded");
    fs::write(threaded.join("cgroup.type"), "threaded").unwrap();
    let watch = scene.watch(&["--cgroup", domain.to_str().unwrap()]);
    let script = "import os, sys, threading, time\n\
                  def move():\n\
                  \x20   open(sys.argv[1], 'w').write(str(threading.get_native_id()))\n\
                  \x20   time.sleep(600)\n\
                  while '/domain\\n' not in open('/proc/self/cgroup').read():\n\
                  \x20   time.sleep(0.01)\n\
                  threading.Thread(target=move).start()";
    let threads = threaded.join("cgroup.threads");
    let python = Sleeper::new("/usr/bin/python3", &["-c", script, threads.to_str().unwrap()]);
    python.enter(&domain);
    moved(&watch, python.pid());
    let (event, thread) = moved(&watch, python.pid());
    assert_eq!(event.cgroup.as_deref(), Some("/domain/threaded"));
    assert!(thread.thread.is_some_and(|thread| thread != python.pid()), "{thread:?}");
    python.enter(&scene.outside);
    let (_, whole) = moved(&watch, python.pid());
    assert_eq!((whole.from.as_deref(), whole.thread), (Some("/domain"), None));
}

/// Make sure that a cgroup which is gone when the move is told has its name still
/// where it was seen, and is never taken for another one.
#[test]
fn gone() {
    let Some(scene) = Scene::new() else { return };
    let watch = scene.watch(&[]);
    let sleeper = Sleeper::new("sleep", &["600"]);
    let brief = scene.top.child("brief");
    sleeper.enter(&brief);
    sleeper.enter(&scene.outside);
    fs::remove_dir(&brief).unwrap();
    let (first, _) = moved(&watch, sleeper.pid());
    let (second, left) = moved(&watch, sleeper.pid());
    let is_brief = |path: &Option<String>| path.as_deref().is_none_or(|path| path == "/brief");
    assert!(is_brief(&first.cgroup) && is_brief(&left.from), "{first:?} {left:?}");
    assert_eq!(second.cgroup.as_deref(), Some("/outside"));
    assert!(first.cgroup.is_some() || first.why.is_some());
}

/// The lines of a watch of the whole node, in which `during` happens once it is
/// ready, up to the first that has `last` in it.
fn lines(scene: &Scene, more: &[&str], during: impl FnOnce(), last: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.arg("watch").args(scene.arguments(more)).args(["--for", "60s"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut read = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut lines = vec![read.next().unwrap()];
    during();
    for line in read {
        lines.push(line);
        if lines.last().is_some_and(|line| line.contains(last)) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    lines.join("\n")
}

/// Make sure that people read the move on one line, and that the beginning is two
/// lines: what serves, and that it is ready with the number of what is not
/// covered.
#[test]
fn for_people() {
    let Some(scene) = Scene::new() else { return };
    let sleeper = Sleeper::new("sleep", &["600"]);
    sleeper.enter(&scene.job);
    let place = Place::new(&host::shared().unwrap());
    let program = place.build("wait.c", "stripped", "gcc -static -s");
    let unseen = [0; 3].map(|_| Sleeper::new(program.to_str().unwrap(), &[]));
    unseen.iter().for_each(|one| until_it_sleeps(one.pid()));
    let pid = sleeper.pid().to_string();
    let text = lines(&scene, &[], || sleeper.enter(&scene.outside), ", gained nvidia0-3");
    // On a slow machine it was told before, without the GPUs.
    let is_known = |line: &&str| line.contains(&pid) && !line.contains("unknown on one side");
    let own = text.lines().filter(is_known).map(|line| line.trim_end_matches(" (not known before)"));
    let own: Vec<&str> = own.collect();
    let expected = format!(
        "{pid} sleep: left slurm job 7, step 0, task 0: moved from {} to /outside, gained nvidia0-3",
        scene.path(&scene.job)
    );
    assert!(own.len() == 1 && own[0].ends_with(&expected), "{text}");
    let start: Vec<&str> = text.lines().take(2).collect();
    assert!(start[0].contains("  watching with ") && start[0].contains("; ready after "), "{text}");
    assert!(start[1].contains("are not seen as they happen (-v says why)"), "{text}");
    assert!(!text.contains("stripped"), "{text}");
    let text = lines(&scene, &["-v"], || {}, "stripped");
    assert!(text.contains("  not covered: changes of ") && text.contains("stripped"), "{text}");
    drop(unseen);
}

/// Make sure that the start event has what is not covered, by reason, and that
/// `ready` counts the processes.
#[test]
fn beginning() {
    let Some(scene) = Scene::new() else { return };
    let place = Place::new(&host::shared().unwrap());
    let program = place.build("wait.c", "stripped", "gcc -static -s");
    let mut sleepers: Vec<Sleeper> = (0..3).map(|_| Sleeper::new(program.to_str().unwrap(), &[])).collect();
    sleepers.iter().for_each(|one| one.enter(&scene.job));
    sleepers.iter().for_each(|one| until_it_sleeps(one.pid()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(["watch", "--json"]).args(scene.arguments(&["--job", "7", "--for", "10ms"]));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let events: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is = |kind: EventKind| move |event: &&Event| event.event == kind;
    let own: Vec<&String> = events[0].not_seen.iter().filter(|one| one.contains("stripped")).collect();
    assert!(events[0].event == EventKind::Start && own.len() == 1, "{text}");
    assert!(own[0].starts_with("changes of 3 processes ("), "{own:?}");
    assert_eq!(events.iter().filter(is(EventKind::Uncovered)).count(), 3, "{text}");
    let ready = events.iter().find(is(EventKind::Ready)).unwrap();
    assert_eq!(ready.uncovered, Some(3));
    assert!(ready.ready_after_ms.is_some_and(|after| after > 0));
    sleepers.clear();
}
