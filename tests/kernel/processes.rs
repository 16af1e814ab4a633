//! Compares what processes ask for and hold with real processes.

use crate::support::cgroup::Tree;
use crate::support::threads;
use crate::support::{elf, host};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use gpumap::model::{DeviceType, ProblemCode};
use gpumap::observation::{Answer, Detail, Environment, HeldDevice, Observation, Process};
use gpumap::observe::{self, CgroupTarget, ObserveError, Options};

use crate::support::victim::{Scratch, Victim};
use crate::support::wait::{is_emulated, patience};

const PIC: &str = "gcc -fPIC -pie";
const CUDA: &str = "CUDA_VISIBLE_DEVICES";

fn look(pids: &[u32]) -> Observation {
    observe::processes(&Options { detail: true, ..Options::default() }, pids).unwrap()
}

fn process(pid: u32) -> Process {
    let seen = look(&[pid]);
    assert_eq!(seen.processes.len(), 1);
    seen.processes.into_iter().next().unwrap()
}

fn detail(victim: &Victim) -> Detail {
    process(victim.pid()).detail.unwrap()
}

fn values(environment: &Answer<Environment>) -> Vec<String> {
    let environment = environment.known().unwrap_or_else(|| panic!("{environment:?}"));
    assert_eq!(environment.cut, None);
    let variables = environment.variables.iter();
    variables.inspect(|one| assert_eq!(one.name, CUDA)).map(|one| one.value.lossy().into_owned()).collect()
}

/// Make sure that every way to change the environment is seen.
fn every_change(program: &Path) {
    let changes: [(&str, &[&str]); 9] = [
        ("", &["0"]),
        ("setenv", &["1"]),
        ("putenv", &["2"]),
        ("unsetenv", &[]),
        ("clearenv", &[]),
        ("direct", &["3"]),
        ("swap", &["4", "5"]),
        ("null", &[]),
        ("million", &["first", "last"]),
    ];
    for (mode, expected) in changes {
        let detail = detail(&Victim::start(program, mode));
        assert_eq!(values(&detail.at_exec), ["0"], "{program:?} {mode}");
        assert_eq!(values(&detail.live), expected, "{program:?} {mode}");
        assert_eq!(detail.exe.known().unwrap().as_bytes(), program.as_os_str().as_encoded_bytes());
    }
}

/// Make sure that `environ` is found where the GOT leads to the C library,
/// where a copy relocation puts it into the executable, and where there is no
/// C library.
#[test]
fn programs() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    for flags in [PIC, "gcc", "gcc -no-pie -fno-pie", "gcc -static", "gcc -static-pie", "gcc -m32"] {
        if flags == "gcc -m32" && !Path::new("/usr/include/gnu/stubs-32.h").exists() {
            host::skip("no 32-bit C library to compile with");
            continue;
        }
        every_change(&scratch.build(flags));
    }
    every_change(&scratch.build("gcc -no-pie -fno-pie -Wl,-Ttext-segment=0x10000000"));
    every_change(&scratch.build("gcc -fPIC -pie -s"));
}

/// Make sure that musl's `environ` is found.
#[test]
fn musl() {
    let Some(_host) = host::shared() else { return };
    if Command::new("musl-gcc").arg("--version").output().is_err() {
        return host::skip("musl-gcc is missing (package musl-tools)");
    }
    let scratch = Scratch::new();
    for flags in ["musl-gcc", "musl-gcc -fPIC -pie", "musl-gcc -static"] {
        every_change(&scratch.build(flags));
    }
}

/// Make sure that what cannot be found is missing with the reason.
#[test]
fn stripped() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let detail = detail(&Victim::start(&scratch.build("gcc -static -s"), "setenv"));
    assert_eq!(values(&detail.at_exec), ["0"]);
    let why = "static executable without symbols: the environ array cannot be found";
    assert_eq!(detail.live.missing(), Some(why));
}

/// Make sure that a process whose C library is not set up yet is not said to have an empty
/// environment.
#[test]
fn not_set_up() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let detail = detail(&Victim::start(&scratch.build("gcc -static -DEARLY -Wl,-e,early"), ""));
    assert_eq!(values(&detail.at_exec), ["0"]);
    assert!(detail.live.missing().unwrap().contains("not set it up yet"), "{detail:?}");
}

/// Make sure that changes by an interpreter are seen.
#[test]
fn python() {
    let Some(_host) = host::shared() else { return };
    let code = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '1,2'; print('ready', flush=True); \
                import time; time.sleep(600)";
    let python = ["/usr/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    let Some(python) = python else { return host::skip("python3 is missing") };
    let detail = detail(&Victim::run(Command::new(python).args(["-c", code])));
    assert_eq!((values(&detail.at_exec), values(&detail.live)), (vec!["0".into()], vec!["1,2".into()]));
}

/// Make sure that the size of nothing is trusted, and that bytes stay bytes.
#[test]
fn hostile_environments() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    let live = |mode: &str| detail(&Victim::start(&program, mode)).live;
    let huge = live("huge").known().unwrap().clone();
    assert!(huge.cut.is_none() && huge.variables[0].cut);
    assert_eq!(huge.variables[0].value.as_bytes(), [b'7'; 16 << 10]);
    assert_eq!(live("bytes").known().unwrap().get(CUDA).unwrap().value.as_bytes(), b"\xff\x1b");
    let many = live("toomany").known().unwrap().clone();
    assert_eq!(many.variables.len(), 1);
    assert!(many.cut.unwrap().contains("1048576"));
    assert!(live("wild").missing().unwrap().contains("cannot be read"));
    let broken = live("broken").known().unwrap().clone();
    let kept: Vec<_> = broken.variables.iter().map(|one| one.value.lossy()).collect();
    assert!(kept == ["1"] && broken.cut.is_some(), "{broken:?}");
    let endless = live("endless").known().unwrap().clone();
    assert!(endless.get(CUDA).is_some() && endless.cut.is_some());
}

/// Make sure that a title over the environment is not taken for an
/// environment without variables.
#[test]
fn titles() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let detail = detail(&Victim::start(&scratch.build(PIC), "title"));
    assert!(detail.at_exec.missing().unwrap().contains("title"), "{detail:?}");
    assert!(detail.title.is_empty(), "arguments are not kept");
}

/// Make sure that a value is one of those that were written, or missing.
#[test]
fn races() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    for (mode, values) in
        [("race", ["a".repeat(40), "b".repeat(1999)]), ("swaprace", ["aaaa".into(), "bbbb".into()])]
    {
        let victim = Victim::start(&program, mode);
        std::thread::sleep(Duration::from_millis(20));
        let mut seen = 0;
        for _ in 0..200 {
            let live = detail(&victim).live;
            let Some(environment) = live.known() else {
                let why = live.missing().unwrap();
                // On an emulated machine one look may take longer than its reader waits.
                let is_slow = ["it takes too long to read", "its memory does not answer"];
                let is_late = is_emulated() && is_slow.iter().any(|slow| why.starts_with(slow));
                assert!(is_late || why == "it changes while it is read", "{why}");
                continue;
            };
            let value = environment.get(CUDA).unwrap().value.lossy().into_owned();
            assert!(values.contains(&value), "{mode}: {value}");
            assert_eq!(environment.variables.len(), 1);
            seen += 1;
        }
        println!("{mode}: {seen} of 200 were known");
    }
}

/// Make sure that a process that executes itself over and over is never read
/// half.
#[test]
fn executing() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    // The kernel writes the addresses of an environment one by one: many
    // variables give it something to do.
    for (others, looks) in [(0, 200), (20_000, 2_000)] {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; exec \"$0\" exec"]).arg(&program);
        command.envs((0..others).map(|number| (format!("OTHER_{number}"), "x")));
        let victim = Victim::run(&mut command);
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..looks {
            never_half(&detail(&victim));
        }
    }
}

/// Every value is the only one or not known.
fn never_half(detail: &Detail) {
    for answer in [&detail.at_exec, &detail.live] {
        let Some(environment) = answer.known() else { continue };
        assert!(environment.variables.len() <= 1, "{detail:?}");
    }
    if let Some(at_exec) = detail.at_exec.known() {
        assert_eq!(at_exec.variables.len(), 1, "{detail:?}");
    }
}

/// Make sure that files that are gone, and those of another root, are found.
#[test]
fn other_roots() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    let root = scratch.path().join("root");
    let list = Command::new("ldd").arg(&program).output().unwrap().stdout;
    let list = String::from_utf8(list).unwrap();
    for file in list.split_whitespace().filter(|word| word.starts_with('/')) {
        let copy = root.join(&file[1..]);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, copy).unwrap();
    }
    fs::copy(&program, root.join("victim")).unwrap();
    let mut command = Command::new("/usr/bin/unshare");
    command.arg("-m").arg(format!("-R{}", root.display())).args(["/victim", "setenv"]);
    let victim = Victim::run(&mut command);
    assert_eq!(values(&detail(&victim).live), ["1"]);
    fs::remove_dir_all(&root).unwrap();
    let detail = detail(&victim);
    assert_eq!(values(&detail.live), ["1"]);
    assert!(detail.exe.known().unwrap().lossy().ends_with(" (deleted)"));
}

/// Make sure that a program that the dynamic linker was told to run is not
/// taken for the linker.
#[test]
fn started_by_hand() {
    let Some(_host) = host::shared() else { return };
    let loader = Path::new(elf::LOADER);
    if !loader.exists() {
        return host::skip(&format!("{} is missing", loader.display()));
    }
    let scratch = Scratch::new();
    for flags in [PIC, "gcc"] {
        let program = scratch.build(flags);
        let victim = Victim::run(Command::new(loader).arg(&program).arg("setenv"));
        assert_eq!(values(&detail(&victim).live), ["1"], "{flags}");
    }
}

/// Make sure that devices are told by number, each once.
#[test]
fn devices() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    let null = |detail: &Detail| {
        let held = detail.devices.known().unwrap().iter();
        held.filter(|held| (held.major, held.minor) == (1, 3)).map(|held| held.fds).sum::<u32>()
    };
    let before = null(&detail(&Victim::start(&program, "")));
    let detail = detail(&Victim::start(&program, "devices"));
    let device = |minor, fds, mapped| HeldDevice { kind: DeviceType::Char, major: 1, minor, fds, mapped };
    let held = detail.devices.known().unwrap();
    let memory: Vec<_> = held.iter().filter(|held| held.major == 1).copied().collect();
    assert_eq!(memory, [device(3, before + 3, false), device(5, 1, true)]);
    assert!(held.is_sorted());
}

/// Make sure that a process goes on without its main thread, and that one
/// that has ended holds nothing.
#[test]
fn ends() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    let alive = detail(&Victim::start(&program, "thread"));
    assert_eq!(values(&alive.live), ["1"]);
    assert!(alive.devices.known().unwrap().iter().any(|held| (held.major, held.minor) == (1, 3)));
    let mut victim = Victim::start(&program, "devices");
    assert_ne!(detail(&victim).devices, Answer::Known(Vec::new()));
    victim.kill();
    let dead = detail(&victim);
    assert_eq!(dead.devices, Answer::Known(Vec::new()));
    assert!(dead.live.missing().is_some() && dead.at_exec.missing().is_some());
}

/// Make sure that without rights everything is missing, told once with a
/// count, and that one's own processes are read all the same.
#[test]
fn without_rights() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    let others = [Victim::start(&program, ""), Victim::start(&program, "")];
    let own = Victim::as_user(&program, 65534);
    let pids: Vec<u32> = others.iter().chain([&own]).map(Victim::pid).collect();
    let seen = threads::as_nobody(move || look(&pids));
    for process in &seen.processes[..2] {
        let detail = process.detail.as_ref().unwrap();
        for why in [detail.at_exec.missing(), detail.live.missing(), detail.devices.missing()] {
            assert!(why.unwrap().contains("CAP_SYS_PTRACE"), "{detail:?}");
        }
        assert!(detail.exe.missing().is_some());
    }
    let detail = seen.processes[2].detail.as_ref().unwrap();
    assert_eq!(values(&detail.at_exec), ["0"]);
    let is_guarded = yama_guards_memory();
    if is_guarded {
        assert!(detail.live.missing().unwrap().contains("CAP_SYS_PTRACE"), "{detail:?}");
    } else if libraries_have_one_number() {
        assert_eq!(values(&detail.live), ["0"]);
    } else {
        assert!(detail.live.missing().unwrap().contains("needs CAP_CHECKPOINT_RESTORE"), "{detail:?}");
    }
    assert!(detail.title.is_empty() && detail.devices.known().is_some());
    let told: Vec<_> = seen.errors.iter().filter(|one| one.what.starts_with("/proc/PID/")).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told.iter().all(|one| one.code == ProblemCode::NoRight));
    let of_three = told.iter().filter(|one| one.what.ends_with("of 3 processes")).count();
    let of_two = told.iter().filter(|one| one.what.ends_with("of 2 processes")).count();
    assert_eq!((of_two, of_three), if is_guarded { (3, 1) } else { (4, 0) }, "{told:?}");
}

/// Whether Yama lets a process read, without the right, only the memory of those that it
/// started itself (`ptrace_scope` 1, as kernels of Ubuntu begin with) or of none at all.
/// gpumap's helpers started none.
fn yama_guards_memory() -> bool {
    fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.trim() != "0")
}

/// Whether a C library has the same numbers in `maps` and for stat(2). Below an overlay of
/// several file systems it may not, and only `map_files`, which takes a right, leads to it.
fn libraries_have_one_number() -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains("/libc.so")).expect("a C library");
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let stat = fs::metadata(fields[5]).unwrap();
    let device = format!("{:02x}:{:02x}", libc::major(stat.dev()), libc::minor(stat.dev()));
    (fields[3], fields[4]) == (device.as_str(), stat.ino().to_string().as_str())
}

/// Make sure that only the processes that are asked for are read.
#[test]
fn by_number() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let program = scratch.build(PIC);
    let victims = [Victim::start(&program, "setenv"), Victim::start(&program, "")];
    let (first, second) = (victims[0].pid(), victims[1].pid());
    let seen = look(&[second, first, second]);
    let pids: Vec<u32> = seen.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [second, first]);
    assert_eq!(seen.pids, [second, first, second]);
    assert!(seen.cgroups.iter().any(|cgroup| cgroup.path == seen.processes[0].cgroup));
    assert_eq!(seen.cgroups[0].path.as_bytes(), b"/");
    let plain = observe::processes(&Options::default(), &[first]).unwrap();
    assert_eq!((plain.processes.len(), plain.processes[0].detail.clone()), (1, None));
    let seen = look(&[4_194_303, first]);
    assert!(seen.processes.len() == 1 && seen.errors.iter().any(|one| one.code == ProblemCode::NoProcess));
    let gone = observe::processes(&Options::default(), &[4_194_303]);
    assert!(matches!(gone, Err(ObserveError::NoSuchProcess { pid: 4_194_303, .. })));
}

/// Make sure that a thread is no process, and that the kernel's own have no
/// details.
#[test]
fn threads() {
    let Some(_host) = host::shared() else { return };
    let scratch = Scratch::new();
    let victim = Victim::start(&scratch.build(PIC), "race");
    let tasks = fs::read_dir(format!("/proc/{}/task", victim.pid())).unwrap();
    let tasks = tasks.map(|one| one.unwrap().file_name().to_string_lossy().parse::<u32>().unwrap());
    let thread = tasks.max().unwrap();
    let found = observe::processes(&Options::default(), &[thread]);
    assert!(matches!(found, Err(ObserveError::NoSuchProcess { .. })), "{found:?}");
    if fs::read_to_string("/proc/2/comm").is_ok_and(|comm| comm == "kthreadd\n") {
        assert_eq!(process(2).detail, None);
    }
}

/// CPU time of this process.
fn used() -> Duration {
    let used = nix::time::clock_gettime(nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    used.into()
}

/// Measures many ordinary processes, asked for by cgroup and by number:
/// `cargo test --release --test kernel processes -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost() {
    let Some(root) = host::shared() else { return };
    let scratch = Tree::new(&root);
    let sleepers: Vec<_> = (0..2000)
        .map(|_| Victim::with_env(Command::new("sh").args(["-c", "echo ready; exec sleep 600"])))
        .collect();
    let pids: Vec<u32> = sleepers.iter().map(Victim::pid).collect();
    for pid in &pids {
        fs::write(scratch.path().join("cgroup.procs"), pid.to_string()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(500));
    let target = observe::CgroupTarget::typed(scratch.path(), false);
    for detail in [false, true] {
        let options = Options { detail, ..Options::default() };
        let by_cgroup = || observe::cgroups(&options, std::slice::from_ref(&target)).unwrap();
        measure(&format!("a cgroup of 2000, detail {detail}"), by_cgroup, 2000);
        for count in [1, 2000] {
            let by_number = || observe::processes(&options, &pids[..count]).unwrap();
            measure(&format!("{count} by number, detail {detail}"), by_number, count);
        }
    }
    drop(sleepers);
}

fn measure(what: &str, look: impl Fn() -> Observation, count: usize) {
    let best = (0..9).map(|_| {
        let (start, used) = (Instant::now(), used());
        assert_eq!(look().processes.len(), count);
        (start.elapsed(), self::used() - used)
    });
    println!("{what}: {:?} (wall, CPU)", best.min().unwrap());
}

/// Make sure that a process that has ended in a cgroup that is gone, and that nobody waits
/// for, takes nothing from an answer about the whole node: it has nothing open.
#[test]
fn ended_in_a_removed_cgroup() {
    let Some(_host) = host::shared() else { return };
    let tree = Tree::new(&crate::support::cgroup::mount().unwrap());
    let place = tree.child("gone");
    let script = format!("echo $$ > {}/cgroup.procs", place.display());
    let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    // It is left unwaited for; its cgroup can go as soon as it has ended.
    let end = Instant::now() + patience();
    while fs::remove_dir(&place).is_err() {
        assert!(Instant::now() < end, "its cgroup does not go");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The young may have begun while the cgroups were read, and are left out in any case.
    std::thread::sleep(Duration::from_secs(6));
    let seen = observe::cgroups(&Options::default(), &[CgroupTarget::all()]).unwrap();
    let pid = child.id().to_string();
    let about =
        seen.errors.iter().find(|problem| problem.why.contains("left out") && problem.why.contains(&pid));
    assert_eq!(about, None);
    child.wait().unwrap();
}
