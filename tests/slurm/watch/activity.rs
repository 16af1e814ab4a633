//! `gpumap activity` where it is used: in containers of real runtimes, each with a
//! driver's library of its own.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use gpumap::activity::{CountingOptions, ProcessScope, Session};
use serde_json::json;

use super::containers::mapped;
use super::host_with;
use crate::support::container::{Bundle, Container};
use crate::support::watching::Place;

/// All launches that the driver was called with.
fn launches(truth: &str) -> u64 {
    let streams = truth.lines().filter(|line| line.starts_with("stream "));
    streams.map(|line| line.split(' ').nth(3).unwrap().parse::<u64>().unwrap()).sum()
}

/// Make sure that the libraries of two containers, which are other files than each
/// other's and the node's, are found and counted apart.
#[test]
fn two_containers() {
    let Some(host) = host_with(&["runc", "crun", "busybox", "gcc", "nsenter"]) else { return };
    let place = Place::new(&host);
    let (linker, libc) = (mapped("ld-linux"), mapped("libc.so.6"));
    let name = linker.file_name().unwrap().to_str().unwrap();
    let driver = place.build("c/cuda/driver.c", "libcuda.so.1", "gcc -shared -fPIC -Wl,-soname,libcuda.so.1");
    let flags = format!("gcc {} -Wl,-rpath,/bin -Wl,--dynamic-linker=/bin/{name}", driver.display());
    let client = place.build("c/cuda/client.c", "client", &flags);
    let rules = json!([{ "allow": true, "access": "rwm" }]);
    let boxes = ["runc", "crun"].map(|runtime| {
        let programs = vec![linker.clone(), libc.clone(), driver.clone(), client.clone()];
        let bundle = Bundle { programs, ..Bundle::sleeping(&rules) };
        let container = Container::run(runtime, &bundle).unwrap_or_else(|log| panic!("{runtime}: {log}"));
        (runtime, container)
    });
    let cgroups = boxes.iter().map(|(_, container)| container.cgroup()).collect();
    let scope = ProcessScope { cgroups, ..ProcessScope::default() };
    let mut session = Session::start(&scope, Path::new("/proc"), CountingOptions::default()).unwrap();
    let started: Vec<u32> = (3..)
        .zip(&boxes)
        .map(|(number, (runtime, container))| {
            let launch = format!("launch:{number}");
            let words = ["/bin/client", "device:0", "sleep:4000", &launch, "memory:100", "sleep:1000"];
            container.exec(runtime, &["TRUTH=/out/truth"], &words)
        })
        .collect();
    let begun = Instant::now();
    let (mut ended, mut libraries) = (Vec::new(), 0);
    while ended.len() < 2 {
        let reading = session.read().unwrap();
        libraries = libraries.max(reading.libraries.len());
        ended.extend(reading.processes.into_iter().filter(|one| one.ended_ns.is_some()));
        assert!(begun.elapsed() < Duration::from_secs(60), "{ended:?}, {:?}", reading.uncovered);
        session.wait(Duration::from_millis(50), None).unwrap();
    }
    assert_eq!(libraries, 2);
    for ((number, pid), (runtime, container)) in (3..).zip(started).zip(&boxes) {
        let process = ended.iter().find(|process| process.pid == pid).unwrap();
        let counted: u64 = process.streams.iter().map(|stream| stream.launches).sum();
        let truth = fs::read_to_string(format!("/proc/{}/root/out/truth", container.pid())).unwrap();
        assert_eq!((counted, launches(&truth)), (number, number), "{runtime}: {truth}");
        assert!(process.partial, "the library was found when it was mapped");
    }
}
