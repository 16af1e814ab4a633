//! Runs `gpumap watch` among users who want it to hang, to end or to report what is
//! false: with memory that never comes, with floods of events, with output that
//! nobody reads.

use crate::support::host;
use crate::support::wait::{is_emulated, within};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::watching::{Place, Watch, left_out, modes};
use gpumap::model::EventKind;
use gpumap::report::Event;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Users that nobody is on the machine.
const HOSTILE: u32 = 54_321;
const CALM: u32 = 54_322;

/// A program that stays until its standard input ends, and says what it does.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
    /// The words behind `ready`.
    ready: Vec<u32>,
}

impl Program {
    fn start(place: &Place, words: &[&str]) -> Self {
        let mut command = place.command(words);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { child, input, output, ready: Vec::new() };
        let line = program.line();
        let mut said = line.split_whitespace();
        assert_eq!(said.next(), Some("ready"), "{words:?}");
        program.ready = said.map(|word| word.parse().unwrap()).collect();
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn say(&mut self, byte: u8) {
        self.input.as_mut().unwrap().write_all(&[byte]).unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.input.take());
        sleep(Duration::from_millis(50));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

/// The exit code of a process that ends within a time; ended the hard way if it
/// does not.
fn ends(child: &mut Child, within: Duration) -> Option<i32> {
    let end = Instant::now() + within;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    None
}

/// Ids of loaded programs of this name.
fn loaded() -> BTreeSet<u64> {
    let output = Command::new("bpftool").args(["prog", "show", "-j"]).output().unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = ["session_environ", "on_exec", "on_fork", "on_exit", "leave_any", "enter_setenv"];
    let all = all.as_array().unwrap().iter();
    let ours =
        all.filter(|one| names.iter().any(|name| one["name"].as_str().is_some_and(|one| one == *name)));
    ours.filter_map(|one| one["id"].as_u64()).collect()
}

/// Tells that the value of a variable was changed to this.
fn is_change(event: &Event, value: &str) -> bool {
    event.event == EventKind::Visible
        && event.new.as_ref().is_some_and(|new| new.raw.as_deref() == Some(value))
}

/// Waits until a process waits for something: for memory that never comes, if that is what
/// it was started for.
fn waits(process: &Child) {
    let end = Instant::now() + within(10);
    let mut looks = 0;
    while looks < 5 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        looks = if matches!(state, Some('S' | 'D')) { looks + 1 } else { 0 };
        assert!(Instant::now() < end, "it goes on: {stat}");
        sleep(Duration::from_millis(20));
    }
}

/// One process with memory that never comes, and a watch that is begun before or
/// after: it tells of others, it ends, and the kernel's RCU goes on.
fn stuck(place: &Place, mode: &str, kind: &str, how: &str, first: bool) {
    println!("{mode} {kind} {how}, watched {}", if first { "from then on" } else { "before" });
    let (program, flood) =
        (place.build("c/stuck.c", "stuck", "gcc"), place.build("c/flood.c", "flood", "gcc"));
    let words = [program.to_str().unwrap(), kind, how];
    let before = loaded();
    let early = first.then(|| Program::start(place, &words));
    let cgroup = place.cgroup.to_str().unwrap();
    let (mut watch, _) = Watch::start_with(Some(mode), &["--cgroup", cgroup]);
    let victim = early.unwrap_or_else(|| Program::start(place, &words));
    waits(&victim.child);
    let uid = CALM.to_string();
    let mut other = Program::start(place, &[flood.to_str().unwrap(), &uid, "calm", "6"]);
    other.say(b'x');
    watch.until(|event| is_change(event, "6"));
    // Another watch begins and ends, which waits for the kernel's RCU.
    let mut second = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    second.env("GPUMAP_TEST_PROBES", mode).args(["watch", "--cgroup", cgroup, "--for", "100ms"]);
    let mut second = second.stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(ends(&mut second, within(30)), Some(0), "another watch does not end");
    signal(&watch.child, Signal::SIGTERM);
    assert_eq!(ends(&mut watch.child, within(30)), Some(0), "it does not end");
    let gone = (0..200).any(|_| {
        sleep(Duration::from_millis(50));
        loaded().is_subset(&before)
    });
    drop((victim, other));
    assert!(gone, "programs are left");
}

/// Make sure that pages that never come, under what a function is given, keep
/// neither the watch nor the kernel waiting, with every kind of probes.
#[test]
fn arguments() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    for (mode, _) in modes() {
        for kind in ["fuse", "userfault"] {
            for how in ["setenv-name", "setenv-value", "putenv-name"] {
                stuck(&place, mode, kind, how, false);
            }
        }
    }
}

/// Make sure that the same holds for a value that only user space can look for.
#[test]
fn values() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    for (mode, _) in modes() {
        stuck(&place, mode, "fuse", "putenv-value", false);
    }
}

/// Make sure that the same holds for environments that are read again.
#[test]
fn environments() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let mode = modes()[0].0;
    for how in ["environ-string", "environ-array", "environ-area"] {
        for first in [true, false] {
            stuck(&place, mode, "fuse", how, first);
        }
    }
}

/// Whether a process can be forked, with a copy of its memory, in a moment.
fn forks() -> bool {
    let mut shell = Command::new("sh").args(["-c", "( : ) && ( : )"]).spawn().unwrap();
    ends(&mut shell, within(10)) == Some(0)
}

/// Make sure that a process that holds the lock of its memory map keeps neither
/// a watch that begins or ends nor the node waiting, and that it is named.
#[test]
fn held_maps() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let program = place.build("c/stuck.c", "stuck", "gcc");
    let words = [program.to_str().unwrap(), "fuse", "lock"];
    let cgroup = place.cgroup.to_str().unwrap();
    for (mode, _) in modes() {
        println!("{mode}, held before");
        let mut holder = Program::start(&place, &words);
        let other = place.command(&["sleep", "60"]).spawn().unwrap();
        let (mut watch, _) = Watch::start_with(Some(mode), &["--cgroup", cgroup]);
        assert!(forks(), "the node stands still");
        let named = format!("process {}", holder.ready[0]);
        watch.until(|event| {
            event.event == EventKind::Uncovered
                && event.process.as_ref().is_some_and(|process| process.pid == other.id())
                && event.why.as_ref().is_some_and(|why| why.contains(&named))
        });
        drop(holder);
        signal(&watch.child, Signal::SIGTERM);
        assert_eq!(ends(&mut watch.child, within(30)), Some(0), "it does not end");

        println!("{mode}, held at the end");
        let (mut watch, _) = Watch::start_with(Some(mode), &["--cgroup", cgroup]);
        holder = Program::start(&place, &words);
        signal(&watch.child, Signal::SIGTERM);
        sleep(Duration::from_secs(1));
        assert!(forks(), "the node stands still");
        drop(holder);
        assert_eq!(ends(&mut watch.child, within(30)), Some(0), "it does not end");
        let mut other = other;
        let _ = other.kill();
        let _ = other.wait();
    }
}

/// What users lost, and the calm ones that were told.
#[derive(Debug, Default)]
struct Told {
    values: BTreeSet<String>,
    lost: BTreeMap<Option<u32>, u64>,
    /// How often the kernel left the watch's programs out.
    left_out: u64,
}

impl Told {
    /// Takes in an event: what was lost, and changes of the calm user to what
    /// begins like that.
    fn take(&mut self, event: &Event, prefix: &str) {
        for lost in &event.lost_by {
            *self.lost.entry(lost.uid).or_default() += lost.events;
        }
        let new = event.new.as_ref().and_then(|new| new.raw.clone()).unwrap_or_default();
        if event.event == EventKind::Visible && new.starts_with(prefix) {
            assert_eq!(event.how.map(<&str>::from), Some("setenv"), "{event:?}");
            assert_eq!(event.process.as_ref().unwrap().uid, Some(CALM));
            self.values.insert(new);
        }
    }
}

/// A flood of one user, and twenty processes of another that change a variable
/// once each meanwhile.
fn flood(kind: &str) -> Option<Told> {
    let place = Place::new(&host::exclusive()?);
    let program = place.build("c/flood.c", "flood", "gcc");
    let program = program.to_str().unwrap();
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    let hostile = Program::start(&place, &[program, &HOSTILE.to_string(), kind]);
    sleep(Duration::from_secs(2));
    let uid = CALM.to_string();
    let mut calm: Vec<Program> = (0..20)
        .map(|number| {
            let value = format!("calm-{number}");
            let mut one = Program::start(&place, &[program, &uid, "calm", &value]);
            one.say(b'x');
            assert_eq!(one.line(), "done\n");
            one
        })
        .collect();
    sleep(Duration::from_secs(1));
    drop(hostile);
    // The last that is told: its end is after all of these.
    let mut told = Told::default();
    let last = calm.pop().unwrap();
    let pid = last.child.id();
    drop((last, calm));
    watch.each(|event| {
        told.take(&event, "calm-");
        event.event == EventKind::Exit && event.process.as_ref().is_some_and(|one| one.pid == pid)
    });
    told.left_out = left_out(&watch.child.id().to_string());
    println!("{kind}: {} told, lost {:?}, {} left out", told.values.len(), told.lost, told.left_out);
    Some(told)
}

/// Make sure that one user's changes, however many, make none of another's
/// vanish, and that what is lost is named as that user's.
#[test]
fn flood_of_changes() {
    let Some(told) = flood("setenv") else { return };
    loses_its_own(&told);
}

/// Makes sure that a flood lost changes of its own, and nobody else's. An emulated machine
/// may be too slow for a flood that loses any.
fn loses_its_own(told: &Told) {
    assert_eq!(told.values.len(), 20);
    let lost = told.lost.get(&Some(HOSTILE)).copied().unwrap_or(0);
    assert!(lost > 0 || is_emulated(), "{:?}", told.lost);
    loses_no_others(told);
}

/// Makes sure that nothing was lost of anybody else. Whose events they were is not known of
/// those that the kernel left out, and of no more.
fn loses_no_others(told: &Told) {
    let of_nobody = told.lost.get(&None).copied().unwrap_or(0);
    assert!(of_nobody <= told.left_out, "{:?}, {} left out", told.lost, told.left_out);
    assert!(told.lost.keys().flatten().all(|uid| *uid == HOSTILE), "{:?}", told.lost);
}

/// Make sure that the users of a namespace are one with who made it.
#[test]
fn flood_from_namespace() {
    let Some(told) = flood("space") else { return };
    loses_its_own(&told);
}

/// Make sure that processes that begin and end as fast as they can do no harm
/// either.
#[test]
fn flood_of_processes() {
    for kind in ["fork", "exec"] {
        let Some(told) = flood(kind) else { return };
        assert_eq!(told.values.len(), 20, "{kind}");
        loses_no_others(&told);
    }
}

/// A watch whose output nobody reads yet, with what fills it.
fn unread(place: &Place, arguments: &[&str]) -> (Child, Program) {
    let program = place.build("c/flood.c", "flood", "gcc");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(["watch", "--json", "--cgroup", place.cgroup.to_str().unwrap()]).args(arguments);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    // Its first line is read, to know that it watches.
    let mut byte = [0];
    while byte[0] != b'\n' {
        watch.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    }
    let flood = Program::start(place, &[program.to_str().unwrap(), &HOSTILE.to_string(), "setenv"]);
    sleep(Duration::from_secs(2));
    (watch, flood)
}

/// Make sure that a watch whose output is not read ends by a signal and when its
/// time is over, writes its state, and says that not all was told.
#[test]
fn unread_output() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let state = place.directory.join("state");
    for lasting in ["60m", "3s"] {
        let _ = std::fs::remove_file(&state);
        let (mut watch, flood) = unread(&place, &["--for", lasting, "--state", state.to_str().unwrap()]);
        let _ = std::fs::remove_file(&state);
        if lasting == "60m" {
            signal(&watch, Signal::SIGTERM);
        }
        assert_eq!(ends(&mut watch, within(60)), Some(3), "{lasting}");
        assert!(state.exists());
        drop(flood);
    }
}

/// Make sure that a reader that was away while one user flooded gets whole lines
/// when it comes back, with what others did meanwhile, and that what was lost is
/// counted as that user's.
#[test]
fn stopped_reader() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let (mut watch, flood) = unread(&place, &[]);
    let program = place.directory.join("flood");
    let calm: Vec<Program> = (0..5)
        .map(|number| {
            let words = [program.to_str().unwrap(), &CALM.to_string(), "calm", &format!("away-{number}")];
            let mut one = Program::start(&place, &words);
            one.say(b'x');
            assert_eq!(one.line(), "done\n");
            one
        })
        .collect();
    sleep(Duration::from_secs(1));
    drop((flood, calm));
    let lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let (sender, has_all) = channel();
    let reader = std::thread::spawn(move || {
        let mut told = Told::default();
        for line in lines {
            told.take(&serde_json::from_str(&line.unwrap()).unwrap(), "away-");
            if told.values.len() == 5 && !told.lost.is_empty() {
                let _nobody_waits_any_more = sender.send(());
            }
        }
        told
    });
    has_all.recv_timeout(within(30)).expect("what others did, and what was lost");
    signal(&watch, Signal::SIGTERM);
    assert_eq!(ends(&mut watch, within(60)), Some(0));
    let told = reader.join().unwrap();
    assert_eq!(told.values.len(), 5, "{told:?}");
    assert!(told.lost[&Some(HOSTILE)] > 0 && told.lost.len() == 1, "{:?}", told.lost);
}

/// What may be printed for one user at once, with room for the others, and what in each
/// second after that.
const OUTPUT: usize = 136 << 20;
const OUTPUT_EACH_SECOND: usize = 64 << 10;

/// Makes sure that no more was printed than one user may cause in the time since a moment.
fn is_bounded(bytes: usize, begun: Instant) {
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!(bytes < OUTPUT + OUTPUT_EACH_SECOND * seconds, "{bytes} bytes within {seconds} s");
}

/// Make sure that one user's changes, however long, do not fill the disk that
/// the output is kept on, that others' are told all the same, and that the rest
/// is counted.
#[test]
fn flood_of_output() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let program = place.build("c/flood.c", "flood", "gcc");
    let program = program.to_str().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpumap"));
    command.args(["watch", "--json", "--cgroup", place.cgroup.to_str().unwrap()]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(watch.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let _hostile = Program::start(&place, &[program, &HOSTILE.to_string(), "large"]);
    let (mut bytes, mut lost) = (0, false);
    let begun = Instant::now();
    while !lost {
        line.clear();
        bytes += output.read_line(&mut line).unwrap();
        is_bounded(bytes, begun);
        assert!(begun.elapsed() < within(400), "{bytes} bytes and none is left out");
        lost = line.contains("a user may cause");
    }
    println!("{bytes} bytes within {:?}: {line}", begun.elapsed());
    let event: Event = serde_json::from_str(&line).unwrap();
    assert!(event.lost_by.iter().all(|lost| lost.uid == Some(HOSTILE)), "{line}");
    let mut calm = Program::start(&place, &[program, &CALM.to_string(), "calm", "still"]);
    calm.say(b'x');
    while !line.contains("still") {
        line.clear();
        bytes += output.read_line(&mut line).unwrap();
        is_bounded(bytes, begun);
    }
    signal(&watch, Signal::SIGTERM);
    std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    assert_eq!(ends(&mut watch, within(60)), Some(0));
}

/// Make sure that very many processes with very long values take little memory.
#[test]
fn wide_environments() {
    let Some(root) = host::exclusive() else { return };
    let place = Place::new(&root);
    let program = place.build("c/flood.c", "flood", "gcc");
    let program = program.to_str().unwrap();
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    let hostile = Program::start(&place, &[program, &HOSTILE.to_string(), "wide", "5000"]);
    let mut calm = Program::start(&place, &[program, &CALM.to_string(), "calm", "beside"]);
    calm.say(b'x');
    watch.until(|event| is_change(event, "beside"));
    sleep(Duration::from_secs(2));
    let status = std::fs::read_to_string(format!("/proc/{}/status", watch.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("{peak} KiB at most");
    drop(hostile);
    assert!(peak < 128 << 10, "{peak} KiB");
}
