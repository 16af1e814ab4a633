//! Containers whose libraries lie below an overlay, as those of docker, podman and
//! containerd do: what their processes do is seen, and once, however many containers show
//! the same image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use gpumap::model::EventKind;

use crate::activity::bench::{Bench, best_mode, compare};
use crate::environments::every_mode;
use crate::support::host;
use crate::support::kernel::needs;
use crate::support::wait::eventually;
use crate::support::watching::{Place, Watch, is_probed};

/// A user who is not root.
const USER: &str = "65534";

/// Overlays of one image, unmounted with the value.
struct Containers {
    image: PathBuf,
    roots: Vec<PathBuf>,
}

impl Containers {
    /// As many containers of an image with these files.
    fn new(place: &Path, count: usize, files: &[&Path]) -> Self {
        let image = place.join("image");
        fs::create_dir(&image).unwrap();
        let containers = Self { image, roots: Vec::new() };
        for file in files {
            fs::copy(file, containers.image.join(file.file_name().unwrap())).unwrap();
        }
        (0..count).fold(containers, |containers, number| containers.with(&place.join(number.to_string())))
    }

    fn with(mut self, layers: &Path) -> Self {
        let [upper, work, root] = ["upper", "work", "root"].map(|name| layers.join(name));
        for directory in [&upper, &work, &root] {
            fs::create_dir_all(directory).unwrap();
        }
        let [lower, upper, work] = [&self.image, &upper, &work].map(|path| path.to_str().unwrap());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mount = ["-t", "overlay", "-o", &options, "container", root.to_str().unwrap()];
        assert!(Command::new("mount").args(mount).status().unwrap().success());
        self.roots.push(root);
        self
    }

    fn file(&self, container: usize, file: &Path) -> PathBuf {
        self.roots[container].join(file.file_name().unwrap())
    }
}

impl Drop for Containers {
    fn drop(&mut self) {
        for root in &self.roots {
            let _ = Command::new("umount").arg("-l").arg(root).status();
        }
    }
}

/// The C library and the loader that this test runs with.
fn c_library() -> [PathBuf; 2] {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = |begins: &str| {
        let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let of_name = |path: &&str| path.rsplit('/').next().unwrap().starts_with(begins);
        PathBuf::from(paths.into_iter().find(of_name).unwrap())
    };
    [mapped("libc.so.6"), mapped("ld-linux")]
}

/// A script that runs a program with the loader and the C library beside it.
fn script(place: &Place, loader: &Path, program: &Path) -> PathBuf {
    let script = place.directory.join("run");
    let [loader, program] = [loader, program].map(|path| path.to_str().unwrap());
    let directory = Path::new(program).parent().unwrap().to_str().unwrap();
    fs::write(&script, format!("#!/bin/sh\nexec {loader} --library-path {directory} {program} \"$@\"\n"))
        .unwrap();
    assert!(Command::new("chmod").arg("755").arg(&script).status().unwrap().success());
    script
}

/// Make sure that a watch sees every change of processes whose C library lies below an
/// overlay, in two containers of one image, each change once.
#[test]
fn environments() {
    let Some(root) = host::shared() else { return };
    let place = Place::new(&root);
    let program = place.build("watch.c", "program", "gcc");
    let [library, loader] = c_library();
    let containers = Containers::new(&place.directory, 2, &[&program, &library, &loader]);
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    for container in 0..2 {
        let [loader, program] = [&loader, &program].map(|file| containers.file(container, file));
        let program = script(&place, &loader, &program);
        // A library that is new to the watch is probed while its first process runs.
        let mut first = place.stopped(&[program.to_str().unwrap(), ""]);
        eventually("the library is probed", || is_probed(first.id(), |file| file.ends_with("/libc.so.6")));
        every_mode(&place, &watch, &program);
        first.kill().unwrap();
        first.wait().unwrap();
    }
}

/// Make sure that each call of a driver's library is counted once where several
/// containers show the same one, and for the process that made it; also where few launches
/// are timed.
#[test]
fn activity() {
    let Some(root) = host::shared() else { return };
    if !needs(5, 15, "counting calls") {
        return;
    }
    let bench = Bench::new(&root);
    let driver = bench.driver.to_str().unwrap();
    let client = bench.build("c/cuda/client.c", "contained", &format!("gcc -O2 {driver} -Wl,-rpath,$ORIGIN"));
    let directory = bench.driver.parent().unwrap();
    let containers = Containers::new(directory, 3, &[&client, &bench.driver]);
    let mode = best_mode();
    let hold = |container| bench.hold_as(&containers.file(container, &client));
    let held: Vec<_> = (0..3).map(hold).collect();
    for every in [64, 1] {
        let mut session = bench.session(mode, every);
        for container in 0..3 {
            let words = ["device:0", "launch:150", "copies:10", "memory:50"];
            let (process, truth) = bench.run_in(&mut session, &containers.file(container, &client), &words);
            compare(&process, &truth, &format!("container {container}, one of {every} timed"));
        }
    }
    drop(held);
    let mut session = bench.session(mode, 1);
    // A copy that a container's root changed is a file of its own.
    let copy = containers.file(0, &bench.driver);
    assert!(Command::new("chmod").arg("700").arg(copy).status().unwrap().success());
    let held = hold(0);
    eventually("the copy is probed", || {
        session.wait(Duration::from_millis(5), None).unwrap();
        is_probed(held.pid(), |file| file.ends_with("/libcuda.so.1"))
    });
    let words = ["device:0", "launch:9"];
    let (process, truth) = bench.run_in(&mut session, &containers.file(0, &client), &words);
    compare(&process, &truth, "a copy");
}

/// Make sure that nothing is read of an overlay that a user made, of file systems that may
/// never answer, and that its processes are said to be uncovered.
#[test]
fn of_a_user() {
    let Some(root) = host::shared() else { return };
    if !needs(5, 11, "overlays of users") {
        return;
    }
    let place = Place::new(&root);
    let program = place.build("wait.c", "program", "gcc");
    let [library, loader] = c_library();
    let image = place.directory.join("image");
    fs::create_dir(&image).unwrap();
    for file in [&program, &library, &loader] {
        fs::copy(file, image.join(file.file_name().unwrap())).unwrap();
    }
    let [image, name, loader] =
        [image.to_str(), program.file_name().unwrap().to_str(), loader.file_name().unwrap().to_str()]
            .map(Option::unwrap);
    let run = format!(
        "mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work /mnt/root && \
         mount -t overlay -o lowerdir={image},upperdir=/mnt/upper,workdir=/mnt/work,userxattr none /mnt/root && \
         exec /mnt/root/{loader} --library-path /mnt/root /mnt/root/{name}"
    );
    let watch = Watch::start(&["--cgroup", place.cgroup.to_str().unwrap()]);
    let user = ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "unshare", "-Urm", "sh", "-c"];
    let mut child = place.command(&[&user[..], &[&run]].concat()).spawn().unwrap();
    let is_told = |event: &gpumap::report::Event| {
        let process = event.process.as_ref().is_some_and(|process| process.pid == child.id());
        process && event.event == EventKind::Uncovered
    };
    let events =
        watch.until(|event| is_told(event) && event.why.as_ref().is_some_and(|why| why.contains("overlay")));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        events.iter().any(|event| event.why.as_ref().is_some_and(|why| why.contains("that a user made")))
    );
}
