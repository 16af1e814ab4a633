//! Tests users, states and ages of processes: names come from the node, and no name
//! service can keep gpumap from answering.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::support::cgroup::Cgroup;
use crate::support::host;
use crate::support::node::relative;
use crate::support::victim::{Scratch, Victim};
use crate::support::wait::within;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const GPUMAP: &str = env!("CARGO_BIN_EXE_gpumap");
/// No look may take longer than that, whatever a name service does.
const LONGEST: u64 = 20;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn pid(victim: &Victim) -> String {
    victim.pid().to_string()
}

/// The only process of a document.
fn process(output: &Output) -> Value {
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["cgroups"][0]["processes"][0].clone()
}

fn gpumap(args: &[&str]) -> Output {
    Command::new(GPUMAP).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A name service that knows one user and is silent about all others.
struct Service {
    scratch: Scratch,
    switch: PathBuf,
}

impl Service {
    fn new() -> Self {
        let scratch = Scratch::new();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/c/nss_slow.c");
        let module = scratch.path().join("libnss_slow.so.2");
        let built = Command::new("gcc").args(["-shared", "-fPIC", "-O1", source, "-o"]).arg(&module).output();
        let built = built.unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
        let switch = scratch.path().join("nsswitch.conf");
        std::fs::write(&switch, "passwd: files slow\n").unwrap();
        Self { scratch, switch }
    }

    /// Runs gpumap where this service is the node's.
    fn run(&self, args: &[&str]) -> Output {
        let script = "mount --bind \"$0\" /etc/nsswitch.conf && exec env \"LD_LIBRARY_PATH=$1\" \"${@:2}\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "--propagation", "private", "bash", "-c", script]);
        command.arg(&self.switch).arg(self.scratch.path()).arg(GPUMAP).args(args);
        command.stdin(Stdio::null()).output().unwrap()
    }
}

/// Make sure that a user whom `/etc/passwd` does not name has the name that the
/// name service gives, and a number where that is silent; and that silence
/// delays no answer.
#[test]
fn name_service() {
    let Some(_host) = host::shared() else { return };
    let service = Service::new();
    let program = service.scratch.build("gcc");
    let (known, silent) = (Victim::as_user(&program, 4242), Victim::as_user(&program, 4243));

    let output = service.run(&["pid", "--json", &pid(&known)]);
    let found = process(&output);
    assert_eq!((&found["user"], &found["uid"]), (&"alice".into(), &4242.into()), "{}", text(&output.stderr));
    let table = text(&service.run(&["pid", &pid(&known)]).stdout);
    assert!(table.contains("  user     alice (uid 4242)\n"), "{table}");

    let started = Instant::now();
    let output = service.run(&["pid", "--json", &pid(&silent)]);
    assert!(started.elapsed() < within(LONGEST), "{:?}", started.elapsed());
    let found = process(&output);
    assert_eq!((&found["user"], &found["uid"]), (&Value::Null, &4243.into()), "{}", text(&output.stderr));
    // The answer lacks nothing: no verdict rests on a name.
    assert_eq!(output.status.code(), gpumap(&["pid", "--json", &pid(&silent)]).status.code());

    // A saved node says the same where nobody can be asked.
    let place = Cgroup::new().unwrap();
    place.adopt(i32::try_from(known.pid()).unwrap()).unwrap();
    let saved = service.scratch.path().join("saved.json");
    let saved = saved.to_str().unwrap();
    service.run(&["snapshot", &relative(place.path()), "-o", saved]);
    let output = gpumap(&["--from", saved, "pid", "--json", &pid(&known)]);
    assert_eq!(process(&output)["user"], "alice", "{}", text(&output.stderr));
    // The JSON of a subtree names them too, although it tells no details.
    let output = service.run(&["cgroup", "-r", &relative(place.path()), "--json"]);
    assert_eq!(process(&output)["user"], "alice", "{}", text(&output.stderr));
    drop(known);
}

/// Make sure that a name of root comes from `/etc/passwd`, and that an age is
/// one.
#[test]
fn identity() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let victim = Victim::start(&scratch.build("gcc"), "wait");
    let found = process(&gpumap(&["pid", "--json", &pid(&victim)]));
    assert_eq!((&found["user"], &found["state"]), (&"root".into(), &"sleeping".into()), "{found}");
    assert!(found["age_seconds"].as_u64().is_some_and(|age| age < 3600), "{found}");
}

/// Make sure that states are told, in letters that are explained.
#[test]
fn states() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let victim = Victim::start(&scratch.build("gcc"), "wait");
    let number = Pid::from_raw(i32::try_from(victim.pid()).unwrap());
    kill(number, Signal::SIGSTOP).unwrap();
    let end = Instant::now() + within(LONGEST);
    let mut table = String::new();
    while Instant::now() < end && !table.contains("stopped") {
        table = text(&gpumap(&["pid", &pid(&victim)]).stdout);
    }
    assert!(table.contains("  state    T, stopped by a signal\n"), "{table}");
    kill(number, Signal::SIGCONT).unwrap();

    let mut child = Command::new("true").spawn().unwrap();
    let mut found = Value::Null;
    while Instant::now() < end && found["state"] != "zombie" {
        found = process(&gpumap(&["pid", "--json", &child.id().to_string()]));
    }
    child.wait().unwrap();
    assert_eq!(found["state"], "zombie", "{found}");
}
