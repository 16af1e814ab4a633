//! Libraries and programs in every form in which they come: replaced while they are in
//! use, with another library in between, opened by stripped programs, called
//! by NVIDIA's Python bindings.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpumap::activity::Mode;

use super::bench::{self, Bench, compare, compare_threads, launches};
use crate::support::skips;

/// Make sure that a library that takes the place of another one, as a package manager
/// puts it there, is counted beside the old one, which is in use still.
#[test]
fn replaced() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    for mode in bench::modes() {
        let mut old = bench.start(&bench.client, &["device:0", "stop", "launch:3"]);
        bench::read_line(&mut old, "stopped");
        let mut session = bench.session(mode, 1);
        let new = bench.driver.with_file_name("new");
        fs::copy(&bench.driver, &new).unwrap();
        fs::rename(&new, &bench.driver).unwrap();

        // The first user of the new one waits until it was found.
        let mut first = bench.start(&bench.client, &["stop", "device:0", "launch:4", "stop"]);
        bench::libraries_until(&mut session, 2);
        bench::go_on(&mut first);
        let (process, truth) = bench.run_in(&mut session, &bench.client, &["device:0", "launch:5"]);
        compare(&process, &truth, "the new one");
        assert!(!process.partial);
        bench::go_on(&mut old);
        assert!(old.wait().unwrap().success());
        let process = bench::read(&mut session, old.id());
        assert_eq!((launches(&process), process.partial), (3, true), "{mode:?}");
        bench::go_on(&mut first);
        assert!(first.wait().unwrap().success());
        let process = bench::read(&mut session, first.id());
        assert_eq!((launches(&process), process.partial), (4, true), "{mode:?}");
        assert!(session.read().unwrap().uncovered.is_empty());
    }
}

/// How a program is linked and stripped, and how it finds the functions: by dlsym, in
/// the library's own table of symbols, by the driver's cuGetProcAddress. Some hold a C
/// library of their own beside the one that the driver's library loads.
const FORMS: [&str; 9] = [
    "",
    "-s",
    "-no-pie -s",
    "-static-libgcc -s",
    "-DLOOKUP",
    "-DBY_ADDRESS -s",
    "-static",
    "-static -s -DLOOKUP",
    "-static -s -DBY_ADDRESS",
];

/// Make sure that programs that open the library themselves, as a runtime does that is
/// linked statically, are counted alike, however they are linked, stripped or not.
#[test]
fn opened_and_stripped() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let open = format!("open={}", bench.driver.to_str().unwrap());
    for mode in bench::modes() {
        let mut session = bench.session(mode, 1);
        for flags in FORMS {
            let opener = bench.opener("opener", flags);
            let (process, truth) = bench.run_in(&mut session, &opener, &[&open, "launch=5", "thread=6"]);
            compare(&process, &truth, flags);
            assert_eq!((launches(&process), process.partial), (11, false), "{mode:?}, {flags}");
        }
    }
}

/// Make sure that with a library in between, such as HAMi's, a call counts once, and
/// not at all if it is refused before it comes to the driver.
#[test]
fn in_between() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let between = bench.build("c/cuda/between.c", "libvgpu.so", "gcc -shared -fPIC -ldl");
    let _held = bench.hold();
    for mode in bench::modes() {
        let mut session = bench.session(mode, 1);
        let words = ["-t", "2", "device:1", "stream", "launch:100", "memory:1000", "churn:20", "waits:2"];
        let mut command = bench.command(&bench.client, &words);
        command.env("LD_PRELOAD", &between);
        let (process, truth) = bench.finish(&mut session, command.spawn().unwrap());
        compare_threads(&process, &truth, 2, &format!("{mode:?}"));
        assert_eq!(launches(&process), 150, "{mode:?}");
    }
}

/// Make sure that calls of NVIDIA's own bindings are counted as the driver says, from
/// the library's first call on.
#[test]
fn python_bindings() {
    let Some(root) = bench::shared() else { return };
    let packages = match bindings() {
        Ok(packages) => packages,
        Err(why) => return skips::unreachable(&format!("NVIDIA's Python bindings cannot be had: {why}")),
    };
    let bench = Bench::new(&root);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/c/cuda/bindings.py");
    for (mode, held) in [(bench::best_mode(), true), (Mode::Pair, true), (bench::best_mode(), false)] {
        let _held = held.then(|| bench.hold());
        let mut session = bench.session(mode, 1);
        let mut command = bench.command(Path::new("/usr/bin/python3"), &[script, "200"]);
        command.env("PYTHONPATH", &packages).env("LD_LIBRARY_PATH", bench.driver.parent().unwrap());
        let mut child = command.spawn().unwrap();
        bench::libraries_until(&mut session, 1);
        bench::go_on(&mut child);
        let (process, truth) = bench.finish(&mut session, child);
        if held {
            compare(&process, &truth, &format!("{mode:?}"));
        }
        // The library is found when Python opens it, within a moment.
        assert_eq!(process.partial, !held, "{mode:?}");
    }
}

/// The directory of the bindings; they are fetched once.
fn bindings() -> Result<PathBuf, String> {
    const PACKAGE: &str = "cuda-bindings==12.9.4";
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join(PACKAGE);
    if into.join("cuda/bindings").is_dir() {
        return Ok(into);
    }
    let part = into.with_extension(std::process::id().to_string());
    let mut pip = Command::new("/usr/bin/python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(&part).arg(PACKAGE);
    let output = pip.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let _ = fs::remove_dir_all(&part);
        return Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned());
    }
    let _ = fs::rename(&part, &into);
    Ok(into)
}
