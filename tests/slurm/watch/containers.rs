//! Containers with a root file system of their own, so with a C library that is
//! another file than the node's.

use std::fs;
use std::path::{Path, PathBuf};

use gpumap::model::EventKind;
use gpumap::report::Event;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::{CUDA, host_with, is_of, of};
use crate::support::container::{Bundle, Container};
use crate::support::watching::{Place, Watch, changes};

/// An id as container engines make them, and a pod's.
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const POD: &str = "3a5b1c7e-1111-2222-3333-444455556666";

/// The path of a library that this test maps itself.
pub fn mapped(name: &str) -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let name = |path: &&str| Path::new(path).file_name().unwrap().to_str().unwrap().starts_with(name);
    paths.into_iter().find(name).unwrap().into()
}

/// The actor with a C library beside it.
fn libraries(place: &Place, library: &str) -> Vec<PathBuf> {
    let (files, compiler) = match library {
        "glibc" => (vec![mapped("ld-linux"), mapped("libc.so.6")], "gcc -Wl,-rpath,/bin"),
        _ => (vec![musl()], "musl-gcc"),
    };
    let linker = files[0].file_name().unwrap().to_str().unwrap();
    let actor = place.build("c/actor.c", "actor", &format!("{compiler} -Wl,--dynamic-linker=/bin/{linker}"));
    files.into_iter().chain([actor]).collect()
}

/// musl's one file, by the name that programs are linked with.
fn musl() -> PathBuf {
    let entries = fs::read_dir("/lib").unwrap().flatten().map(|entry| entry.path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("ld-musl-");
    entries.into_iter().find(name).unwrap()
}

/// A container that waits, and whom to watch: it, or the whole node.
fn start(runtime: &str, cgroup: &str, programs: Vec<PathBuf>, whole: bool) -> (Container, Watch) {
    let rules = json!([{ "allow": true, "access": "rwm" }]);
    let bundle = Bundle { cgroup: cgroup.into(), programs, ..Bundle::sleeping(&rules) };
    let container = Container::run(runtime, &bundle).unwrap_or_else(|log| panic!("{runtime}: {log}"));
    let (root, path) = (container.root().to_owned(), container.cgroup());
    let scoped = ["--cgroup-root", root.to_str().unwrap(), "--cgroup", path.to_str().unwrap()];
    let watch = Watch::start(if whole { &scoped[..2] } else { &scoped });
    (container, watch)
}

/// A change is its process's, with the pid on the node, in the container's
/// cgroup, and the container's.
fn assert_belongs(events: &[Event], cgroup: &str, kind: &str) {
    for event in events.iter().filter(|event| event.event == EventKind::Visible) {
        assert!(event.cgroup.as_ref().unwrap().ends_with(cgroup), "{event:?}");
        let owner = event.owner.as_ref().unwrap();
        assert_eq!((owner.kind.to_string().as_str(), owner.container.as_deref()), (kind, Some(ID)));
    }
}

/// Sends a signal to the command.
pub fn signal(watch: &Watch, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(watch.child.id()).unwrap()), signal).unwrap();
}

/// The first process of a library that the node does not know changes its
/// variable before anybody can watch it, which is found in memory; the next one
/// is seen by its calls.
fn changes_inside(runtime: &str, cgroup: &str, kind: &str, library: &str, whole: bool) {
    let Some(host) = host_with(&[runtime, "busybox", "gcc", "musl-gcc", "nsenter"]) else { return };
    let place = Place::new(&host);
    let (container, watch) = start(runtime, cgroup, libraries(&place, library), whole);
    let run = |words: &[&str]| {
        let words: Vec<&str> = ["/bin/actor"].into_iter().chain(words.iter().copied()).collect();
        (container.exec(runtime, &["CUDA_VISIBLE_DEVICES=0"], &words), "actor")
    };
    // Held up until it is done, so that it is surely too late.
    signal(&watch, Signal::SIGSTOP);
    let first = run(&["setenv", CUDA, "1", "ready", "/out/first"]);
    container.wait_for("/out/first");
    signal(&watch, Signal::SIGCONT);
    let events = watch.until(|event| is_of(event, first) && event.event == EventKind::Visible);
    let own = of(&events, first);
    assert_eq!(changes(&own), [("memory".to_owned(), CUDA.to_owned(), "1".to_owned())]);
    assert_eq!(own.last().unwrap().old.as_ref().unwrap().raw.as_deref(), Some("0"));
    assert_belongs(&own, cgroup, kind);

    let text = format!("{CUDA}=2,3");
    let second = run(&["setenv", CUDA, "1", "putenv", &text, "unsetenv", CUDA]);
    let events = watch.until(|event| is_of(event, second) && event.how.map(<&str>::from) == Some("unsetenv"));
    let own = of(&events, second);
    let expected = [("setenv", CUDA, "1"), ("putenv", CUDA, "2,3"), ("unsetenv", CUDA, "unset")];
    let expected = expected.map(|(how, name, value)| (how.to_owned(), name.to_owned(), value.to_owned()));
    assert_eq!(changes(&own), expected);
    let old: Vec<_> = own.iter().filter_map(|event| event.old.as_ref()?.raw.clone()).collect();
    assert_eq!(old, ["0", "1", "2,3"]);
    assert_belongs(&own, cgroup, kind);
    let uncovered = |event: &Event| {
        event.event == EventKind::Uncovered && [first, second].iter().any(|runs| is_of(event, *runs))
    };
    assert!(!events.iter().any(uncovered), "{events:#?}");
}

/// Make sure that a container with a copy of glibc is watched.
#[test]
fn glibc_in_docker() {
    changes_inside("runc", &format!("/docker/{ID}"), "docker", "glibc", false);
}

/// Make sure that a container with musl is watched.
#[test]
fn musl_in_pod() {
    let cgroup = format!("/kubepods/burstable/pod{POD}/{ID}");
    changes_inside("crun", &cgroup, "pod", "musl", false);
}

/// Make sure that both are seen when the whole node is watched.
#[test]
fn whole_node() {
    changes_inside("runc", &format!("/docker/{ID}"), "docker", "musl", true);
    changes_inside("crun", &format!("/kubepods/pod{POD}/{ID}"), "pod", "glibc", true);
}

/// Make sure that a static program without symbols is named as one whose
/// changes are not seen, and that what it gives to a program that it executes is
/// seen all the same.
#[test]
fn static_busybox() {
    let Some(_host) = host_with(&["runc", "busybox", "nsenter"]) else { return };
    let (container, watch) = start("runc", &format!("/docker/{ID}"), Vec::new(), false);
    let script = format!("export {CUDA}=7; exec /bin/busybox sleep 600");
    let pid = container.exec("runc", &["CUDA_VISIBLE_DEVICES=0"], &["/bin/busybox", "sh", "-c", &script]);
    let runs = (pid, "busybox");
    let events = watch.until(|event| is_of(event, runs) && event.event == EventKind::Uncovered);
    let own = of(&events, runs);
    let why = own.last().unwrap().why.clone().unwrap();
    assert!(why.contains("static executable") && why.contains("cannot be read again either"), "{why}");
    let executed = own.iter().rfind(|event| event.event == EventKind::Process).unwrap();
    let asked = &executed.asked.as_ref().unwrap().variables;
    assert_eq!(asked.iter().map(|one| one.value.as_str()).collect::<Vec<_>>(), ["7"]);
    assert!(changes(&own).is_empty());
}
