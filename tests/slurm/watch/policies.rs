//! Device programs that other tools change, as the whole command tells it.

use gpumap::model::{Rule, RuleType};
use std::io::{BufRead as _, BufReader};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use gpumap::bytecode::Insn;
use gpumap::report::{Change, Event, PolicyEvent};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::containers::signal;
use super::host_with;
use crate::support::bpf::{self, MULTI, attach};
use crate::support::cgroup::Cgroup;
use crate::support::container::{Bundle, Container};
use crate::support::source::Source;
use crate::support::watching::Watch;
use crate::support::{captures, inspect, node};

/// A watch of a cgroup on a node with four GPUs.
fn watch(cgroup: &str) -> Watch {
    Watch::start(&["--cgroup", cgroup, "--gpu-root", node::four_gpus().to_str().unwrap()])
}

/// The next change of a cgroup's programs.
fn next(watch: &Watch, cgroup: &str) -> PolicyEvent {
    let own = |event: &Event| event.policy.is_some() && event.cgroup.as_deref() == Some(cgroup);
    watch.until(own).pop().unwrap().policy.unwrap()
}

/// Each changed verdict: `char 195-195:2-2 rwm deny`.
fn exactly(policy: &PolicyEvent) -> Vec<String> {
    let line = |change: &Change| {
        let Rule { kind, major, minor, requests, .. } = change.rule.rule;
        let kind = RuleType::from(kind);
        let (major, minor) = ((major.first, major.last), (minor.first, minor.last));
        format!("{kind} {}-{}:{}-{} {requests} {}", major.0, major.1, minor.0, minor.1, change.to)
    };
    policy.changes.iter().map(line).collect()
}

fn bpftool(words: &[&str]) {
    let output = Command::new("bpftool").args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Make sure that what bpftool attaches and detaches is told as the exact
/// difference.
#[test]
fn by_bpftool() {
    let Some(_host) = host_with(&["bpftool"]) else { return };
    let top = Cgroup::new().unwrap();
    let (path, relative) = (top.path().to_str().unwrap(), node::relative(top.path()));
    let watch = watch(path);
    let program = node::deny(195, 2);
    let id = inspect::program(&program).unwrap().id;
    let named = ["device", "id", &id.to_string()];
    bpftool(&[&["cgroup", "attach", path][..], &named, &["multi"]].concat());
    let policy = next(&watch, &relative);
    assert_eq!(exactly(&policy), ["char 195-195:2-2 rwm deny"]);
    assert_eq!(policy.attached.iter().map(|one| one.place.id).collect::<Vec<_>>(), [id]);
    assert_eq!((policy.lost.len(), policy.gone.len()), (1, 0));
    bpftool(&[&["cgroup", "detach", path][..], &named].concat());
    let policy = next(&watch, &relative);
    assert_eq!(exactly(&policy), ["char 195-195:2-2 rwm allow"]);
    assert_eq!(policy.gone.iter().map(|one| one.place.id).collect::<Vec<_>>(), [id]);
    assert_eq!((policy.gained.len(), policy.attached.len()), (1, 0));
}

/// Rules that allow one GPU to be opened.
fn one_gpu(minor: u32) -> Value {
    json!([
        { "allow": false, "access": "rwm" },
        { "allow": true, "type": "c", "major": 195, "minor": minor, "access": "rw" },
    ])
}

const EXCHANGE: [&str; 2] = ["char 195-195:1-1 rw deny", "char 195-195:2-2 rw allow"];

/// Make sure that a container's update to another GPU is told as that exchange.
#[test]
fn crun_update() {
    let Some(_host) = host_with(&["crun", "busybox", "nsenter"]) else { return };
    let bundle = Bundle::sleeping(&one_gpu(1));
    let container = Container::run("crun", &bundle).unwrap_or_else(|log| panic!("crun: {log}"));
    let watch = watch(container.cgroup().to_str().unwrap());
    signal(&watch, Signal::SIGSTOP);
    container.update_to("crun", &json!({ "devices": one_gpu(2) }));
    signal(&watch, Signal::SIGCONT);
    let policy = next(&watch, &node::relative(&container.cgroup()));
    assert_eq!(exactly(&policy), EXCHANGE);
    assert_eq!((policy.lost.len(), policy.gained.len()), (1, 1));
}

/// Make sure that a container that is made anew with another GPU between two
/// looks is told as that exchange; runc's update leaves devices alone.
#[test]
fn runc_anew() {
    let Some(_host) = host_with(&["runc", "busybox", "nsenter"]) else { return };
    let bundle = |minor| Bundle::sleeping(&one_gpu(minor));
    let container = Container::run("runc", &bundle(1)).unwrap_or_else(|log| panic!("runc: {log}"));
    let watch = watch(container.root().to_str().unwrap());
    signal(&watch, Signal::SIGSTOP);
    container.remake("runc", &bundle(2));
    signal(&watch, Signal::SIGCONT);
    let policy = next(&watch, &node::relative(&container.cgroup()));
    assert_eq!(exactly(&policy), EXCHANGE);
    assert!(!policy.removed && policy.attached.len() == 1 && policy.gone.len() == 1, "{policy:#?}");
}

/// A captured program, loaded again.
fn captured(name: &str) -> OwnedFd {
    let all = captures::all(&captures::directory());
    let one = all.into_iter().find(|capture| capture.name == name).unwrap();
    let bytes = one.program.xlated.known().unwrap().0.clone();
    let (insns, gpl) = (Insn::parse_all(&bytes).unwrap(), one.program.gpl_compatible);
    bpf::load(&Source { insns, gpl, ..Source::default() }).unwrap().program
}

/// Make sure that what `systemctl daemon-reload` does to a running container is
/// one line for people: whose it is, which GPU is lost, and by which program.
#[test]
fn daemon_reload() {
    let Some(_host) = host_with(&[]) else { return };
    let top = Cgroup::new().unwrap();
    let slice = top.child("system.slice").unwrap();
    let scope = slice.child("container.scope").unwrap();
    attach(scope.dir(), &captured("252-runc-nvidia1"), MULTI, None).unwrap();
    let mut command =
        node::command(&["watch", "--color", "never", "--for", "30s", "--until-change", "--cgroup-root"]);
    command
        .arg(top.path())
        .arg("--cgroup")
        .arg(scope.path())
        .arg("--gpu-root")
        .arg(node::four_gpus())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains("watching with"));
    let program = captured("252-runc-nvidia1-after-daemon-reload-2");
    attach(scope.dir(), &program, MULTI, None).unwrap();
    let lines: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let id = inspect::program(&program).unwrap().id;
    let expected = format!(
        "Z policy  unit container.scope  lost nvidia0: program {id} attached (systemd), \
         195:0 195:255 510:0 rw now denied"
    );
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0].get(8..), Some(expected.as_str()));
    assert_eq!(lines[1].get(8..), Some("Z  end"));
    drop((scope, slice, top));
}
