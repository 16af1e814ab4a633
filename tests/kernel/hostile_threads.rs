//! Processes whose threads are in several cgroups, or have so many descriptors between
//! them that whoever lists all of them has no time for anything else.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use gpumap::observe::Options;
use gpumap::observe::scanner::{ScanMethod, start};
use gpumap::watch::ProcessScope;

use crate::support::attacker::{Attacker, build, gpumap, run};
use crate::support::cgroup::{self, Cgroup, Tree};
use crate::support::slurm::spec::write_openable;
use crate::support::victim::Scratch;
use crate::support::{host, node};

/// The device that a program denies.
const DENIED: &str = "c 195:0 rw";

/// Starts a program in a cgroup.
fn inside(cgroup: &Cgroup, program: &Path, words: &[&str]) -> Attacker {
    let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.path().display());
    Attacker::start(Command::new("/bin/sh").args(["-c", &script, "sh"]).arg(program).args(words))
}

fn json(arguments: &[&str]) -> (i32, Value) {
    let (code, text) = gpumap(&[arguments, &["--json"]].concat());
    (code, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Who has threads elsewhere, by the answer's problems.
fn threaded(answer: &Value) -> Vec<String> {
    let errors = answer["errors"].as_array().unwrap().iter();
    let errors = errors.filter(|error| error["code"] == "threaded-cgroup");
    errors.map(|error| error["what"].as_str().unwrap().to_owned()).collect()
}

/// Make sure that there is no definite answer about a process whose threads may open
/// different devices, and that threads elsewhere spoil no answer where the same programs
/// rule them.
#[test]
fn in_other_cgroups() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let threads = build(&scratch, "threads");
    let top = Cgroup::new().unwrap();
    let below = top.child("threads").unwrap();
    fs::write(below.path().join("cgroup.type"), "threaded").unwrap();
    let attacker = inside(&top, &threads, &["elsewhere", below.path().to_str().unwrap()]);
    let pid = attacker.pid().to_string();
    let place = top.path().to_str().unwrap();

    let (code, answer) = json(&["pid", &pid]);
    assert!(code == 0 && threaded(&answer).is_empty(), "{answer:#}");
    let (code, text) = gpumap(&["check", "--pid", &pid, DENIED]);
    assert_eq!((code, text.as_str()), (0, "allow\tc 195:0 rw\n"));
    assert!(threaded(&json(&["cgroup", "-r", place]).1).is_empty());

    node::attach_deny(&below, 195, 0, 0);
    let (code, answer) = json(&["pid", &pid]);
    assert_eq!((code, threaded(&answer)), (3, vec![format!("process {pid}")]), "{answer:#}");
    for command in ["check", "explain"] {
        let (code, answer) = json(&[command, "--pid", &pid, DENIED]);
        let why = answer["errors"][0]["why"].as_str().unwrap_or_default();
        assert!(code == 2 && why.contains("different device programs"), "{answer:#}");
    }
    let (code, answer) = json(&["cgroup", "-r", place]);
    assert_eq!((code, threaded(&answer)), (3, vec![node::relative(below.path())]), "{answer:#}");
    drop(attacker);
    // Without threads there is nobody to be ruled.
    assert!(threaded(&json(&["cgroup", "-r", place]).1).is_empty());
}

/// Make sure that a process is in the cgroup in which its threads are, although its main
/// thread ended in another one, or began to end there and never comes to its end.
#[test]
fn main_thread_ended_elsewhere() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let (threads, hidden) = (build(&scratch, "threads"), build(&scratch, "hidden"));
    let ways: [(&Path, &[&str]); 2] = [(&threads, &["ended"]), (&hidden, &["kept", "/dev/fuse"])];
    for (program, words) in ways {
        let (before, now) = (Cgroup::new().unwrap(), Cgroup::new().unwrap());
        node::attach_deny(&now, 195, 0, 0);
        let attacker = inside(&before, program, words);
        now.adopt(i32::try_from(attacker.pid()).unwrap()).unwrap();
        let pid = attacker.pid().to_string();
        let (_, answer) = json(&["pid", &pid]);
        assert_eq!(answer["cgroups"][0]["path"], node::relative(now.path()), "{words:?}: {answer:#}");
        let (code, text) = gpumap(&["check", "--pid", &pid, DENIED]);
        assert_eq!((code, text.as_str()), (1, "deny\tc 195:0 rw\n"), "{words:?}");
        let listed = |cgroup: &Cgroup| {
            let (code, answer) = json(&["cgroup", cgroup.path().to_str().unwrap()]);
            assert_eq!(code, 0, "{words:?}: {answer:#}");
            let mut all = answer["cgroups"][0]["processes"].as_array().unwrap().iter();
            all.any(|process| process["pid"] == attacker.pid())
        };
        assert_eq!((listed(&before), listed(&now)), (false, true), "{words:?}");
        let scope = ProcessScope { cgroups: vec![now.path().to_owned()], ..ProcessScope::default() };
        assert!(scope.processes(Path::new("/proc")).pids.contains(&attacker.pid()), "{words:?}");
        for engine in [ScanMethod::Proc, ScanMethod::Iterators] {
            let mut scanner = start(&Options::default(), Some(engine)).unwrap().scanner;
            let all = scanner.scan().unwrap();
            let seen = all.iter().find(|process| process.pid == attacker.pid());
            let seen = seen.unwrap_or_else(|| panic!("{words:?} {engine:?}"));
            assert_eq!(seen.cgroup, Some(now.id()), "{words:?} {engine:?}");
        }
    }
}

/// Make sure that a process is known whose main thread never comes to its end, and that one
/// whose threads are there for a moment only is told each time, with what is not known of it.
#[test]
fn threads_that_come_and_go() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let hidden = build(&scratch, "hidden");
    let mut known = 0;
    for (how, looks) in [("kept", 4), ("relay", 20)] {
        let cgroup = Cgroup::new().unwrap();
        let attacker = inside(&cgroup, &hidden, &[how, "/dev/fuse"]);
        let place = cgroup.path().to_str().unwrap();
        for look in 0..looks {
            for question in [&["pid", &attacker.pid().to_string()][..], &["cgroup", place]] {
                let (code, answer) = json(question);
                let mut all = answer["cgroups"].as_array().into_iter().flatten();
                let has = |it: &Value| {
                    let visible = &it["visible"];
                    it["pid"] == attacker.pid()
                        && visible["at_exec"]["raw"] == "0"
                        && visible["live"]["raw"] == "0"
                };
                let is_listed = all.any(|one| one["processes"].as_array().unwrap().iter().any(has));
                let is_known = code == 0 && is_listed;
                let is_told = code >= 2
                    && answer["complete"] == false
                    && answer.to_string().contains(&attacker.pid().to_string());
                assert!(is_known || how == "relay" && is_told, "{how} {look}: {answer:#}");
                known += u32::from(is_known);
            }
        }
    }
    println!("known in {known} of 48 looks");
}

/// Make sure that a process is seen that moves to and fro between two cgroups, so that
/// each may be read while it is in the other.
#[test]
fn to_and_fro() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let threads = build(&scratch, "threads");
    let tree = Tree::new(&cgroup::mount().unwrap());
    let [first, last] = ["a", "z"].map(|name| tree.child(name));
    for between in 0..200 {
        tree.child(format!("m{between}"));
    }
    let attacker = Attacker::start(Command::new(&threads).arg("hop").args([&first, &last]));
    for look in 0..24 {
        let (_, answer) = json(&["node"]);
        let mut cgroups = answer["cgroups"].as_array().unwrap().iter();
        let has =
            |one: &Value| one["processes"].as_array().unwrap().iter().any(|it| it["pid"] == attacker.pid());
        assert!(cgroups.any(has), "look {look} does not have it");
    }
}

/// Make sure that a process with so many groups that its `status` is long is a process
/// like others.
#[test]
fn as_many_groups_as_can_be() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let threads = build(&scratch, "threads");
    let attacker = Attacker::start(Command::new(&threads).arg("groups"));
    let pid = attacker.pid();
    let length = fs::read(format!("/proc/{pid}/status")).unwrap().len();
    assert!(length > 700_000, "{length}");
    let (code, answer) = json(&["pid", &pid.to_string()]);
    assert_eq!((code, &answer["cgroups"][0]["processes"][0]["pid"]), (0, &pid.into()), "{answer:#}");
}

/// Cgroups inside each other, until their path is longer than `/proc` shows. No system
/// call takes such a path, so one directory leads to the next.
struct Deep<'a> {
    tree: &'a Tree,
    name: &'a str,
}

impl<'a> Deep<'a> {
    const LEVELS: usize = 18;

    fn new(tree: &'a Tree, name: &'a str) -> Self {
        let deep = Self { tree, name };
        let words = format!("mkdir {name} && cd -P {name} || exit 1");
        assert!(deep.each(&words, "true"));
        deep
    }

    /// Runs a command of the shell's in the innermost one.
    fn run(&self, command: &str) {
        assert!(self.each(&format!("cd -P {} || exit 1", self.name), command), "{command}");
    }

    fn each(&self, words: &str, last: &str) -> bool {
        let (top, levels) = (self.tree.path().display(), Self::LEVELS);
        let script = format!("cd -P {top} || exit 1; for at in $(seq {levels}); do {words}; done; {last}");
        Command::new("sh").args(["-c", &script]).status().unwrap().success()
    }
}

impl Drop for Deep<'_> {
    fn drop(&mut self) {
        let (name, levels) = (self.name, Self::LEVELS);
        // A process that has just ended keeps its cgroup busy for a moment.
        let remove = format!("for try in $(seq 200); do rmdir {name} && break; sleep 0.01; done");
        let back = format!("for at in $(seq {levels}); do cd -P ..; {remove}; done");
        self.each(&format!("cd -P {name} || exit 1"), &back);
    }
}

/// Make sure that a process is found in a cgroup whose path is longer than `/proc` shows,
/// also where another cgroup is called as the part that it shows.
#[test]
fn long_paths() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let threads = build(&scratch, "threads");
    let tree = Tree::new(&cgroup::mount().unwrap());
    let name = "d".repeat(250);
    let deep = Deep::new(&tree, &name);
    let attacker = Attacker::start(Command::new(&threads).arg("idle"));
    let pid = attacker.pid();
    deep.run(&format!("echo {pid} > cgroup.procs"));
    let shown = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    if let Some(path) = shown.lines().find_map(|line| line.strip_prefix("0::/")) {
        println!("the kernel shows {} bytes", path.len() + 1);
    }
    let (_, answer) = json(&["node"]);
    let cgroups = answer["cgroups"].as_array().unwrap().iter();
    let holds = |one: &&Value| one["processes"].as_array().unwrap().iter().any(|it| it["pid"] == pid);
    let found: Vec<&Value> = cgroups.filter(holds).collect();
    assert_eq!(found.len(), 1, "{pid} is not in the answer");
    let path = found[0]["path"].as_str().unwrap();
    assert!(path.ends_with(&name) && path.len() > 18 * 250, "{path}");
    left_behind(&scratch, &tree, &deep);
    for command in [&["pid", &pid.to_string()][..], &["check", "--pid", &pid.to_string(), DENIED]] {
        let (code, answer) = json(command);
        let why = answer["errors"][0]["why"].as_str().unwrap_or_default();
        assert!(code == 2 && why.contains("longer than"), "{answer:#}");
    }
}

/// Make sure that what a job left in such a cgroup is found and ended.
fn left_behind(scratch: &Scratch, tree: &Tree, deep: &Deep<'_>) {
    const JOB: &str = "990109";
    const USER: &str = "65534";
    write_openable(scratch.path());
    let script = format!("SLURM_JOB_ID={JOB} exec setpriv --reuid={USER} --clear-groups sleep 600");
    let mut holder = Command::new("sh");
    let mut holder =
        holder.args(["-c", &script]).stdin(fs::File::open("/dev/full").unwrap()).spawn().unwrap();
    deep.run(&format!("echo {} > cgroup.procs", holder.id()));
    let mut line = node::command(&["--json", "--gpu-root"]);
    line.arg(scratch.path()).arg("--cgroup-root").arg(tree.path()).args([
        "leftovers",
        "--from-env",
        "--kill",
    ]);
    let gres = scratch.path().join("gres.conf");
    fs::write(&gres, "Name=gpu File=/dev/hl[0-3]\n").unwrap();
    line.arg("--gres-conf").arg(&gres).env("SLURM_JOB_ID", JOB).env("SLURM_JOB_UID", USER);
    line.env("SLURM_JOB_GPUS", "0").env("SLURM_JOB_START_TIME", "1");
    line.env("SLURM_SCRIPT_CONTEXT", "epilog_slurmd");
    let (code, text) = run(&mut line);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let one = &answer["leftovers"][0];
    assert_eq!((code, &one["pid"], &one["killed"]), (1, &holder.id().into(), &true.into()), "{answer:#}");
    assert!(!holder.wait().unwrap().success());
}

/// Make sure that a look at all processes ends, whether a process has thousands of tables
/// of descriptors, or thousands of threads share a table with thousands of them, and that
/// `watch` begins and ends in time.
#[test]
fn floods_of_descriptors() {
    let Some(_host) = host::exclusive() else { return };
    let scratch = Scratch::new();
    let (hidden, threads) = (build(&scratch, "hidden"), build(&scratch, "threads"));
    let words: [(&Path, &[&str]); 2] =
        [(&hidden, &["many", "4000", "250", "/dev/fuse"]), (&threads, &["shared", "2000", "16000"])];
    for (program, words) in words {
        let attacker = Attacker::start(Command::new(program).args(words));
        let mut watch = Command::new(env!("CARGO_BIN_EXE_gpumap"));
        let (code, text) = run(watch.args(["watch", "--for", "2s", "--json"]));
        assert!(code == 0 && text.lines().last().unwrap().contains("\"end\""), "{code}: {text}");
        drop(attacker);
    }
}
