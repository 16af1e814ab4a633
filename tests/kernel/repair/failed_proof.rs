//! A proof that fails for real: an agent changes something in the moment between the
//! replacement and the proof. The old program goes back, or gpumap's goes away, or
//! gpumap says who was faster; nothing of the agent's is lost.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Output;

use gpumap::sys::bpf::{ListKind, query};
use serde_json::Value;

use super::scene::{MISSING, NARROW, Rooms, effective, ids, named, program, relative};
use crate::support::bpf::{self, MULTI};
use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::programs::{attach, prog_id};

/// Cgroups below, which the proof looks at one after another: time for the agent.
const BELOW: usize = 64;
/// How often an agent may be too late.
const ATTEMPTS: u32 = 60;

/// A cgroup with the old program and many below it.
struct Scene {
    below: Vec<Cgroup>,
    cgroup: Cgroup,
    old: OwnedFd,
    rooms: Rooms,
}

impl Scene {
    fn new() -> Self {
        let cgroup = Cgroup::new().unwrap();
        let old = program(NARROW);
        attach(cgroup.dir(), &old, MULTI);
        let below = (0..BELOW).map(|number| cgroup.child(&format!("c{number:02}")).unwrap()).collect();
        Self { below, cgroup, old, rooms: Rooms::new() }
    }

    /// Runs gpumap while an agent waits for its program, and acts as soon as it is
    /// there.
    fn raced(&self, act: impl Fn(&OwnedFd)) -> Output {
        let path = relative(&self.cgroup);
        let words = ["--json", "repair", "--cgroup", &path, "--allow", MISSING, "--direct", "--apply"];
        let mut child = self.rooms.command(&words).spawn().unwrap();
        let old = prog_id(&self.old);
        loop {
            let now = query(self.cgroup.dir().as_fd(), ListKind::Own).unwrap().ids;
            if let Some(ours) = now.iter().find(|id| **id != old) {
                act(&gpumap::sys::bpf::program_by_id(*ours).unwrap());
                break;
            }
            if child.try_wait().unwrap().is_some() {
                break;
            }
        }
        child.wait_with_output().unwrap()
    }

    /// Takes back what was proved before the agent came.
    fn again(&self, output: &Output, clean: impl Fn()) -> bool {
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        if !document["repair"]["applied"].is_object() {
            return false;
        }
        clean();
        let (told, status) = self.rooms.repair(&["--undo", &self.rooms.journal_name()]);
        assert_eq!((status, effective(&self.cgroup)), (0, ids(&[&self.old])), "{told:#}");
        true
    }
}

fn why(output: &Output) -> String {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(2), "{document:#}");
    document["errors"].to_string()
}

/// Make sure that the old program goes back where the policy of a cgroup below is
/// another than before, and that the agent's program stays.
#[test]
fn a_cgroup_below_changes() {
    let Some(_host) = host::shared() else { return };
    let scene = Scene::new();
    let agents = named("agent", "deny a *:* rwm\nallow c 1:3 rwm");
    let last = scene.below.last().unwrap();
    for _ in 0..ATTEMPTS {
        let output = scene.raced(|_| attach(last.dir(), &agents, MULTI));
        if scene.again(&output, || bpf::detach(last.dir(), agents.as_fd()).unwrap()) {
            continue;
        }
        let why = why(&output);
        assert!(why.contains("the change was taken back: "), "{why}");
        assert!(why.contains(&relative(last)), "{why}");
        assert_eq!(effective(&scene.cgroup), ids(&[&scene.old]), "the same program is back");
        assert_eq!(effective(last), ids(&[&agents, &scene.old]), "the agent's stays");
        assert_eq!(scene.rooms.kept(), (vec![], vec![]));
        return;
    }
    panic!("the agent was always too late");
}

/// Make sure that where a second program comes beside gpumap's, the old one is not put
/// back beside it: gpumap's goes where no verdict depends on it, and stays and is told
/// where one does. Whose the second one is stands in the message.
#[test]
fn a_second_program_comes() {
    let Some(_host) = host::shared() else { return };
    for (rules, goes) in [(NARROW, true), ("allow a *:* rwm", false)] {
        let scene = Scene::new();
        let agents = named("agent", rules);
        let is_done = (0..ATTEMPTS).any(|_| {
            let output = scene.raced(|_| attach(scene.cgroup.dir(), &agents, MULTI));
            if scene.again(&output, || bpf::detach(scene.cgroup.dir(), agents.as_fd()).unwrap()) {
                return false;
            }
            let (why, now) = (why(&output), effective(&scene.cgroup));
            let title = format!("program {} \\\\\\\"agent\\\\\\\", loaded by uid 0", prog_id(&agents));
            assert!(why.replace('\\', "").contains(&title.replace('\\', "")), "{why}");
            if goes {
                assert!(why.contains("the old program is not back"), "{why}");
                assert_eq!((now, scene.rooms.kept()), (ids(&[&agents]), (vec![], vec![])));
            } else {
                assert!(why.contains("could not be taken back") && why.contains("stays"), "{why}");
                assert_eq!((now.len(), now[1]), (2, prog_id(&agents)));
                assert_eq!(scene.rooms.kept().0.len(), 1, "what is needed to undo it is kept");
            }
            true
        });
        assert!(is_done, "the agent was always too late");
    }
}

/// Make sure that where the agent has replaced gpumap's program, gpumap stops, leaves
/// the agent's alone and says whose it is.
#[test]
fn another_replaces() {
    let Some(_host) = host::shared() else { return };
    let scene = Scene::new();
    let agents = named("agent", "deny a *:* rwm\nallow c 1:3 rwm");
    for _ in 0..ATTEMPTS {
        let output = scene.raced(|ours| bpf::attach(scene.cgroup.dir(), &agents, MULTI, Some(ours)).unwrap());
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        if document["repair"]["applied"].is_object() {
            bpf::attach(scene.cgroup.dir(), &scene.old, MULTI, Some(&agents)).unwrap();
            continue;
        }
        let why = why(&output);
        assert!(why.contains("another was faster"), "{why}");
        assert!(why.contains(&format!("program {} ", prog_id(&agents))) && why.contains("agent"), "{why}");
        assert_eq!(effective(&scene.cgroup), ids(&[&agents]));
        assert_eq!(scene.rooms.kept(), (vec![], vec![]));
        return;
    }
    panic!("the agent was always too late");
}
