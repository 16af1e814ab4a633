//! Runs `gpumap watch` among users whose files are hostile: libraries that change
//! while they are read, that lie, that cannot be read, that are many, huge or
//! deleted.

use crate::support::elf;
use crate::support::host;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::wait::{eventually, within};
use crate::support::watching::{CUDA, Place, Watch, is_probed};
use gpumap::model::EventKind;
use gpumap::report::Event;
use nix::unistd::{SysconfVar, sysconf};

/// A user who is not root.
const USER: &str = "65534";
/// Resident memory of a watch at most, in KiB.
const MEMORY: u64 = 128 << 10;

/// A scratch directory, a directory in it that is the user's, a watch.
struct Scene {
    place: Place,
    user: PathBuf,
    mapper: PathBuf,
    watch: Watch,
}

impl Scene {
    fn new() -> Option<Self> {
        let place = Place::new(&host::shared()?);
        let user = place.directory.join("user");
        fs::create_dir(&user).unwrap();
        let id = USER.parse().unwrap();
        chown(&user, Some(id), Some(id)).unwrap();
        let mapper = place.build("c/mapper.c", "mapper", "gcc");
        let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
        Some(Self { place, user, mapper, watch })
    }

    /// A process of the user's in the watched cgroup.
    fn user(&self, words: &[&str]) -> Running {
        self.run(&[&["uid", USER], words].concat())
    }

    /// One of root's there.
    fn run(&self, words: &[&str]) -> Running {
        let words = [&[self.mapper.to_str().unwrap()], words].concat();
        Running(self.place.command(&words).spawn().unwrap())
    }

    /// One of root's outside of the cgroup.
    fn outside(&self, words: &[&str]) -> Running {
        let child = Command::new(&self.mapper).args(words).spawn().unwrap();
        let running = Running(child);
        self.wait_for(words.last().unwrap());
        running
    }

    fn wait_for(&self, file: &str) {
        eventually(&format!("{file} is not there"), || Path::new(file).exists());
    }

    fn path(&self, name: &str) -> String {
        self.place.directory.join(name).to_str().unwrap().to_owned()
    }

    /// A file of the user's, which is a copy.
    fn given(&self, from: &Path, name: &str) -> String {
        let path = self.user.join(name);
        fs::copy(from, &path).unwrap();
        let id = USER.parse().unwrap();
        chown(&path, Some(id), Some(id)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A library that says that it has the functions, and one that has none.
    fn libraries(&self) -> (PathBuf, PathBuf) {
        // The second page, which `mapper` maps, has the code, whatever the linker would do.
        let page = sysconf(SysconfVar::PAGE_SIZE).unwrap().unwrap();
        let flags = format!(
            "gcc -shared -fPIC -nostdlib -Wl,--build-id=none -Wl,-z,separate-code -Wl,-z,max-page-size={page}"
        );
        let lying = self.place.build("c/lying.c", "lying", &flags);
        (lying, self.place.build("c/lying.c", "libc.so.victim", &format!("{flags} -DVICTIM")))
    }

    /// Makes sure that a program that nobody knew is watched: by its calls, not
    /// by what is found in memory.
    fn assert_watches(&self, program: &Path) {
        let words = [program.to_str().unwrap(), "repeat"];
        let running = Running(self.place.command(&words).spawn().unwrap());
        let by_call = |event: &Event| {
            is_of(event, running.0.id()) && event.how.map(<&str>::from) == Some("setenv") && of_cuda(event)
        };
        self.watch.until(by_call);
    }
}

/// A process, ended with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_of(event: &Event, pid: u32) -> bool {
    event.process.as_ref().is_some_and(|process| process.pid == pid)
}

fn of_cuda(event: &Event) -> bool {
    event.variable.as_deref() == Some(CUDA)
}

fn is_untouched(process: &Running, file: &str) -> bool {
    !is_probed(process.0.id(), |mapped| mapped.ends_with(file))
}

/// Make sure that a file that takes another's place while it is looked at gets
/// no probe at the place that the first one names.
#[test]
fn swapped() {
    let Some(scene) = Scene::new() else { return };
    let (lying, victim) = scene.libraries();
    let lying = scene.given(&lying, "lying");
    let victim = victim.to_str().unwrap();
    let other = scene.outside(&["map", victim, "ready", &scene.path("other")]);
    let user = scene.user(&[
        "swap",
        &lying,
        scene.user.to_str().unwrap(),
        victim,
        "60",
        "ready",
        &user_file(&scene),
    ]);
    let mut touched = false;
    eventually("it does not end", || {
        touched |= !is_untouched(&other, victim);
        Path::new(&user_file(&scene)).exists()
    });
    thread::sleep(Duration::from_secs(1));
    assert!(!touched && is_untouched(&other, victim), "a breakpoint is in another file");
    drop(user);
}

fn user_file(scene: &Scene) -> String {
    scene.user.join("ready").to_str().unwrap().to_owned()
}

/// Make sure that probes in a library that a user owns are in the processes
/// that are followed alone, and in what they fork.
#[test]
fn lying() {
    let Some(scene) = Scene::new() else { return };
    let library = scene.given(&scene.libraries().0, "libc.so.6");
    let other = scene.outside(&["map", &library, "ready", &scene.path("other")]);
    let user = scene.user(&["map", &library, "ready", &user_file(&scene)]);
    eventually("the user's own process is not watched", || !is_untouched(&user, &library));
    assert!(is_untouched(&other, &library), "another user's process has probes");
    // A library of root's is watched in all of them.
    let shared = scene.path("libc.so.6");
    fs::copy(&library, &shared).unwrap();
    let second = scene.outside(&["map", &shared, "ready", &scene.path("second")]);
    let roots = scene.run(&["map", &shared, "ready", &scene.path("roots")]);
    eventually("root's own is not watched", || !is_untouched(&roots, &shared));
    assert!(!is_untouched(&second, &shared));
    drop(user);
}

/// Make sure that what a process forks is watched too, where its library is a
/// user's.
#[test]
fn forked() {
    let Some(scene) = Scene::new() else { return };
    let program = scene.place.build("watch.c", "static", "gcc -static -DSTATIC");
    let program = scene.given(&program, "program");
    let script = format!("exec setpriv --reuid {USER} --clear-groups {program} repeat-fork");
    let child = Running(scene.place.command(&["/bin/sh", "-c", &script]).spawn().unwrap());
    let by_child = |event: &Event| {
        let own = event.process.as_ref().is_some_and(|process| process.comm == "program");
        own && !is_of(event, child.0.id()) && event.how.map(<&str>::from) == Some("setenv") && of_cuda(event)
    };
    scene.watch.until(by_child);
}

/// Make sure that a lease on a library holds nobody up.
#[test]
fn leased() {
    let Some(scene) = Scene::new() else { return };
    let library = scene.given(&scene.libraries().0, "libc.so.6");
    let begun = Instant::now();
    let user = scene.user(&["lease", &library, "ready", &user_file(&scene)]);
    let events = scene.watch.until(|event| event.event == EventKind::Uncovered && is_of(event, user.0.id()));
    let why = events.last().unwrap().why.clone().unwrap();
    // The kernel takes a lease away after 45 seconds, lease-break-time.
    assert!(why.contains("lease") && begun.elapsed() < within(40), "{why}");
}

/// Make sure that a device that is mapped under a library's name is not opened.
#[test]
fn device() {
    let Some(scene) = Scene::new() else { return };
    let device = scene.path("libc.so.6");
    let zero = nix::sys::stat::makedev(1, 5);
    let (kind, mode) = (nix::sys::stat::SFlag::S_IFCHR, nix::sys::stat::Mode::from_bits_truncate(0o666));
    nix::sys::stat::mknod(Path::new(&device), kind, mode, zero).unwrap();
    let user = scene.user(&["map", &device, "ready", &user_file(&scene)]);
    let events = scene.watch.until(|event| event.event == EventKind::Uncovered && is_of(event, user.0.id()));
    assert!(events.last().unwrap().why.as_ref().unwrap().contains("no regular file"), "{events:#?}");
}

/// Make sure that a file whose server never answers holds nobody up.
#[test]
fn served() {
    let Some(scene) = Scene::new() else { return };
    let library = scene.given(&scene.libraries().0, "libc.so.6");
    let user = scene.run(&["stuck", &library, "ready", &user_file(&scene)]);
    let events = scene.watch.until(|event| event.event == EventKind::Uncovered && is_of(event, user.0.id()));
    assert!(events.last().unwrap().why.as_ref().unwrap().contains("fuse"), "{events:#?}");
    scene.assert_watches(&scene.place.build("watch.c", "static", "gcc -static -DSTATIC"));
}

/// Make sure that a user's junk does not end coverage for others.
#[test]
fn junk() {
    let Some(scene) = Scene::new() else { return };
    let words = ["junk", scene.user.to_str().unwrap(), "500", "10", "ready", &user_file(&scene)];
    let user = scene.user(&words);
    scene.wait_for(&user_file(&scene));
    let events = scene.watch.until(|event| event.event == EventKind::Uncovered && is_of(event, user.0.id()));
    println!("{:?}", events.last().unwrap().why);
    scene.assert_watches(&scene.place.build("watch.c", "static", "gcc -static -DSTATIC"));
}

/// Make sure that a library is let go of with its last process, so that its
/// file system can be unmounted.
#[test]
fn let_go() {
    let Some(scene) = Scene::new() else { return };
    let point = scene.place.directory.join("mounted");
    fs::create_dir(&point).unwrap();
    let point = point.to_str().unwrap();
    let run = |words: &[&str]| Command::new(words[0]).args(&words[1..]).status().unwrap().success();
    assert!(run(&["mount", "-t", "tmpfs", "none", point]));
    let program = scene.place.build("watch.c", "mounted/static", "gcc -static -DSTATIC");
    scene.assert_watches(&program);
    fs::remove_file(program).unwrap();
    let gone = (0..40).any(|_| {
        thread::sleep(Duration::from_millis(250));
        run(&["umount", point])
    });
    assert!(gone || !run(&["umount", "--lazy", point]), "it is kept");
}

/// Make sure that a file is looked at again when its number was used before
/// for one that cannot be watched.
#[test]
fn numbered_again() {
    let Some(scene) = Scene::new() else { return };
    let stripped = scene.place.build("wait.c", "stripped", "gcc -static -s");
    let symbols = scene.place.build("watch.c", "symbols", "gcc -static -DSTATIC");
    let again = (0..20).any(|number| {
        let old = scene.place.directory.join(format!("old{number}"));
        fs::copy(&stripped, &old).unwrap();
        let inode = fs::metadata(&old).unwrap().ino();
        let mut first = Running(scene.place.command(&[old.to_str().unwrap()]).spawn().unwrap());
        let pid = first.0.id();
        scene.watch.until(|event| event.event == EventKind::Uncovered && is_of(event, pid));
        first.0.kill().unwrap();
        first.0.wait().unwrap();
        fs::remove_file(&old).unwrap();
        let new = scene.place.directory.join(format!("new{number}"));
        fs::copy(&symbols, &new).unwrap();
        let same = fs::metadata(&new).unwrap().ino() == inode;
        if same {
            scene.assert_watches(&new);
        }
        same
    });
    println!("a number was used again: {again}");
}

/// Make sure that symbol tables of any size, with names that overlap, take
/// little memory and little time.
#[test]
fn huge_tables() {
    let Some(scene) = Scene::new() else { return };
    let program = scene.place.build("wait.c", "plain", "gcc -static -s");
    let count: u32 = 400_000;
    let symbol = |index: u32| {
        let mut symbol = [0; 24];
        symbol[..4].copy_from_slice(&index.to_ne_bytes());
        symbol[4..8].copy_from_slice(&[0x12, 0, 1, 0]);
        symbol
    };
    let symbols: Vec<u8> = (0..count).flat_map(symbol).collect();
    let strings = vec![b'a'; count as usize + 5000];
    let [names, sparse] = ["names", "sparse"].map(|name| scene.place.directory.join(name));
    let sizes = [symbols.len() as u64, strings.len() as u64];
    elf::with_tables(&program, &names, &symbols, &strings, sizes);
    elf::with_tables(&program, &sparse, b"", b"", [24 << 30, 1 << 40]);
    let begun = Instant::now();
    // The one of these limits that is reached first.
    for (output, reasons) in [(names, ["static executable", "second"]), (sparse, ["64 MiB", "second"])] {
        let running = Running(scene.place.command(&[output.to_str().unwrap()]).spawn().unwrap());
        let pid = running.0.id();
        let events = scene.watch.until(|event| event.event == EventKind::Uncovered && is_of(event, pid));
        let why = events.last().unwrap().why.clone().unwrap();
        assert!(reasons.iter().any(|reason| why.contains(reason)), "{why}");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", scene.watch.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    println!("{peak} KiB at most, {:?}", begun.elapsed());
    assert!(peak < MEMORY, "{peak} KiB");
    assert!(begun.elapsed() < within(60));
}
