//! Lists processes by `/proc` and by BPF iterators: both must give the same answer.

use crate::support::cgroup::Tree;
use crate::support::host;
use crate::support::threads;
use gpumap::model::DeviceType;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::victim::{Scratch, Victim};
use gpumap::observation::HeldDevice;
use gpumap::observe::Options;
use gpumap::observe::scanner::{ChosenScanner, ProcessSummary, ScanMethod, Scanner, start};
use nix::sys::stat::{Mode, SFlag, makedev, mknod};

const CUDA: &str = "CUDA_VISIBLE_DEVICES";
/// About what the kernel's buffer for iterators takes: no limit here any more.
const ROOM: usize = 31 << 10;

/// A program, and a block device's node, which is never opened.
struct Stage {
    _scratch: Scratch,
    program: PathBuf,
    block: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let scratch = Scratch::new();
        let program = scratch.path().join("crowd");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/crowd.c");
        let built = Command::new("gcc").args(["-O1", "-w", "-pthread", source, "-o"]).arg(&program).status();
        assert!(built.unwrap().success());
        let block = scratch.path().join("block");
        mknod(&block, SFlag::S_IFBLK, Mode::from_bits_truncate(0o600), makedev(7, 300)).unwrap();
        Self { _scratch: scratch, program, block }
    }

    fn command(&self, mode: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(mode).arg(&self.block).env_clear();
        command
    }

    /// One in a mode, with a small environment.
    fn member(&self, mode: &str) -> Victim {
        Victim::with_env(self.command(mode).env("FIRST", "x").env(CUDA, "0,1"))
    }

    /// One with exactly so many bytes of environment, which its last entry
    /// ends.
    fn sized(&self, bytes: usize) -> Victim {
        // No single entry may be longer than 128 KiB.
        let mut left = bytes - format!("{CUDA}=7\0").len();
        let mut command = self.command("");
        for index in 0.. {
            let name = format!("A{index:03}");
            let take = left.min(100_000);
            left -= take;
            command.env(&name, "x".repeat(take - name.len() - 2));
            if left == 0 {
                break;
            }
        }
        Victim::with_env(command.env(CUDA, "7"))
    }
}

fn engine(engine: ScanMethod) -> Box<dyn Scanner> {
    let ChosenScanner { scanner, refused } = start(&Options::default(), Some(engine)).unwrap();
    assert_eq!((scanner.engine(), refused), (engine, None));
    scanner
}

fn scan(scanner: &mut dyn Scanner) -> BTreeMap<u32, ProcessSummary> {
    let found = scanner.scan().unwrap();
    assert!(found.is_sorted_by(|one, other| one.pid < other.pid));
    found.into_iter().map(|glimpse| (glimpse.pid, glimpse)).collect()
}

/// Both answers, of a moment in which nothing has changed: every process that
/// is the same before and after must be the same for both.
fn both() -> (BTreeMap<u32, ProcessSummary>, usize) {
    let (mut proc, mut iterators) = (engine(ScanMethod::Proc), engine(ScanMethod::Iterators));
    let before = scan(proc.as_mut());
    let found = scan(iterators.as_mut());
    let after = scan(proc.as_mut());
    let still = scan(iterators.as_mut());
    let own = std::process::id();
    let mut compared = 0;
    for (pid, glimpse) in before.iter().filter(|(pid, glimpse)| after.get(*pid) == Some(*glimpse)) {
        // This process opens the scanners' own files.
        if *pid != own && still.get(pid) == found.get(pid) {
            assert_eq!(found.get(pid), Some(glimpse), "{pid}");
            compared += 1;
        }
    }
    let more: Vec<_> = still
        .iter()
        .filter(|(pid, glimpse)| found.get(*pid) == Some(*glimpse))
        .map(|(pid, _)| *pid)
        .collect();
    // It was there before and after the second look by `/proc`.
    for pid in more {
        assert!(after.contains_key(&pid), "{pid} is seen by iterators alone");
    }
    (found, compared)
}

fn device(kind: DeviceType, major: u32, minor: u32, fds: u32) -> HeldDevice {
    HeldDevice { kind, major, minor, fds, mapped: false }
}

/// `/dev/null` and `/dev/zero`. Two descriptors of `/dev/null` are the standard
/// ones: input and errors.
fn null_zero(nulls: u32, zeros: u32) -> Vec<HeldDevice> {
    let zeros = (zeros > 0).then(|| device(DeviceType::Char, 1, 5, zeros));
    std::iter::once(device(DeviceType::Char, 1, 3, nulls)).chain(zeros).collect()
}

/// Make sure that descriptors are counted in every table of a process once,
/// and that both ways count the same.
#[test]
fn descriptors() {
    let Some(_host) = host::shared() else { return };
    let stage = Stage::new();
    let expected = [
        ("", null_zero(2, 0)),
        // `/dev/null` and a block device are named (O_PATH) as well, which opens nothing.
        ("devices", null_zero(42, 1)),
        ("threads", null_zero(2, 0)),
        ("dead", null_zero(3, 2)),
        // A copy of the first table with its own: 2 + 1 and 2 + 1 + 3.
        ("tables", null_zero(9, 1)),
        // The same, and the first got one and two more afterwards.
        ("dead-tables", null_zero(10, 3)),
    ];
    let members: Vec<Victim> = expected.iter().map(|(mode, _)| stage.member(mode)).collect();
    let (found, compared) = both();
    println!("{compared} processes are the same");
    for ((mode, devices), member) in expected.iter().zip(&members) {
        assert_eq!(found[&member.pid()].devices.known(), Some(devices), "{mode}");
    }
    assert!(compared >= members.len());
}

/// Make sure that environments are read whole by both, however long they are,
/// and that titles are told.
#[test]
fn environments() {
    let Some(_host) = host::shared() else { return };
    let stage = Stage::new();
    let lengths = [ROOM - 1, ROOM, ROOM + 1, 32 << 10, 33_000, 200_000];
    let members: Vec<Victim> = lengths.iter().map(|length| stage.sized(*length)).collect();
    let none = Victim::with_env(&mut stage.command(""));
    let title = stage.member("title");
    let strange = Victim::with_env(
        stage.command("").env(OsStr::from_bytes(b"A\xff"), "1").env(CUDA, OsStr::from_bytes(b"0\xff\n1")),
    );
    let many = Victim::with_env(stage.command("").envs((0..2000).map(|n| (format!("V{n}"), ""))));
    let (found, compared) = both();
    println!("{compared} processes are the same");
    let value = |pid: u32| {
        let environment = found[&pid].at_exec.known().unwrap();
        assert_eq!(environment.cut, None);
        environment.get(CUDA).map(|variable| variable.value.as_bytes().to_vec())
    };
    for (length, member) in lengths.iter().zip(&members) {
        let path = format!("/proc/{}/environ", member.pid());
        assert_eq!(fs::read(path).unwrap().len(), *length);
        assert_eq!(value(member.pid()).as_deref(), Some(&b"7"[..]), "{length}");
    }
    assert_eq!((value(none.pid()), value(many.pid())), (None, None));
    assert_eq!(value(strange.pid()).as_deref(), Some(&b"0\xff\n1"[..]));
    assert!(found[&title.pid()].at_exec.missing().is_some_and(|why| why.contains("title")));
    assert!(compared >= lengths.len() + 4);
}

/// Make sure that both say who a process is, where it is, and leave out what
/// has ended.
#[test]
fn identities() {
    let Some(root) = host::shared() else { return };
    let stage = Stage::new();
    let cgroups = Tree::new(&root);
    let inner = cgroups.child("inner");
    let member = stage.member("");
    fs::write(inner.join("cgroup.procs"), member.pid().to_string()).unwrap();
    let user = Victim::with_env(stage.command("").uid(65534));
    let dead = stage.member("dead");
    let named = stage.member("namespace");
    let mut zombie = stage.member("");
    zombie.kill();
    let (found, _) = both();
    let id = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    assert_eq!(found[&member.pid()].cgroup, Some(id(&inner)));
    assert_eq!((found[&user.pid()].uid, found[&member.pid()].uid), (65534, 0));
    assert!(found.contains_key(&dead.pid()) && !found.contains_key(&zombie.pid()));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", named.pid())).unwrap();
    let child: u32 = children.trim().parse().unwrap();
    assert_eq!(found[&child].devices.known(), Some(&null_zero(4, 2)));
    assert_eq!(found[&child].comm.as_bytes(), b"crowd");
}

/// Make sure that the iterators are not used where they cannot be, and that it
/// is said why.
#[test]
fn falls_back() {
    let Some(_host) = host::shared() else { return };
    let ChosenScanner { scanner, refused } = start(&Options::default(), None).unwrap();
    assert_eq!((scanner.engine(), refused), (ScanMethod::Iterators, None));
    let (name, refused, seen) = threads::as_nobody(|| {
        let ChosenScanner { mut scanner, refused } = start(&Options::default(), None).unwrap();
        let own = scanner.scan().unwrap().into_iter().any(|glimpse| glimpse.pid == std::process::id());
        (scanner.engine().name(), refused, own)
    });
    assert_eq!((name, seen), ("proc", true));
    assert!(refused.is_some_and(|why| why.contains("refuses")));
    // A tree that stands for another node's processes.
    let elsewhere = Scratch::new();
    let options = Options { proc: elsewhere.path().into(), ..Options::default() };
    let ChosenScanner { mut scanner, refused } = start(&options, None).unwrap();
    assert_eq!((scanner.engine(), scanner.scan().unwrap()), (ScanMethod::Proc, Vec::new()));
    assert!(refused.is_some_and(|why| why.contains("another pid")));
}
