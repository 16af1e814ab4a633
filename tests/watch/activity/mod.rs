//! `gpumap::activity` with what a stand-in driver says was really called.

pub(super) mod bench;
mod by_context;
mod command;
mod coverage;
mod floods;
mod hip;
mod interception;
mod libraries;
mod limits;
mod totals;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bench::{Bench, compare_threads};
use gpumap::observation::GpuApi;

/// Every kind of call that the client makes.
const ALL: &[&str] = &[
    "device:1",
    "uuid:1",
    "stream",
    "launch:100",
    "legacy:4",
    "own:5",
    "config:6",
    "together:7",
    "function:3",
    "graph:4",
    "copies:10",
    "planes:7",
    "batch:3",
    "fills:9",
    "memory:1000",
    "churn:50",
    "waits:3",
    "brief:3",
    "push:2",
    "launch:11",
    "memory:2000",
    "pop",
    "launch:1",
    "current",
    "fork",
    "contexts:9",
    "short:5",
    "bad:2",
];

/// Ends of contexts that threads have in common: of one thread.
const ENDS: &[&str] = &["device:2", "memory:300", "reset:2", "memory:50", "release:2", "nothing", "launch:2"];

/// Make sure that every sum is what the driver says, for every function that is counted,
/// whatever the probes, the variant of the functions and the number of threads.
#[test]
fn every_call() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    for mode in bench::modes() {
        let mut all = BTreeSet::new();
        // Pairs of probes are taken out one by one, which takes a minute: once.
        let mut session = bench.session(mode, 1);
        for (client, threads) in [(&bench.client, "1"), (&bench.own, "3"), (&bench.client, "8")] {
            let ends = if threads == "1" { ENDS } else { &[] };
            let words = [&["-t", threads], ALL, ends].concat();
            let (process, truth) = bench.run_in(&mut session, client, &words);
            session.nothing_missing();
            let what = format!("{mode:?}, {threads} threads");
            compare_threads(&process, &truth, threads.parse().unwrap(), &what);
            all.extend(bench::called(&truth));
            assert!(!process.partial && !process.executed && process.ended_ns.is_some());
            let device = &process.devices[0];
            assert_eq!((device.ordinal, device.names_instance), (1, true));
            assert_eq!(device.uuid, "21212121-2121-2121-2121-212121212121");
        }
        bench::assert_all_called(GpuApi::Cuda, &all);
    }
}

/// Make sure that this is so for each number of threads, with children that are forked
/// meanwhile, and for several processes at the same time.
#[test]
fn threads_and_processes() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let _held = bench.hold();
    let words = ["device:1", "stream", "launch:200", "fork", "graph:3", "short:3", "copies:10", "churn:30"];
    for mode in bench::modes() {
        let mut session = bench.session(mode, 1);
        let run = |threads: u64, number: u64| {
            let truth = bench.client.with_file_name(format!("truth.{number}"));
            let _ = std::fs::remove_file(&truth);
            let threads = threads.to_string();
            let mut command = bench.command(&bench.client, &[&["-t", &threads], &words[..]].concat());
            (command.env("TRUTH", &truth).spawn().unwrap(), truth)
        };
        for threads in 1..=8 {
            let (child, truth) = run(threads, 0);
            let (process, _) = bench.finish_with(&mut session, child, &truth);
            let truth = std::fs::read_to_string(&truth).unwrap();
            compare_threads(&process, &truth, threads, &format!("{threads} threads"));
        }
        let mut all: Vec<_> = (1..=6).map(|number| run(1 + number % 3, number)).collect();
        assert!(all.iter_mut().all(|(child, _)| bench::ends(&mut session, child).success()));
        let pids: Vec<u32> = all.iter().map(|(child, _)| child.id()).collect();
        let counted = bench::read_each(&mut session, &pids);
        for ((child, truth), number) in all.into_iter().zip(1_u64..) {
            let process = counted.iter().find(|process| process.pid == child.id()).unwrap();
            let truth = std::fs::read_to_string(&truth).unwrap();
            compare_threads(process, &truth, 1 + number % 3, &format!("one of six, {mode:?}"));
        }
        assert_eq!(bench::lost(&session.read().unwrap()), []);
    }
}

/// Make sure that launches are counted whole where few of them are timed.
#[test]
fn sampled() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    for mode in bench::modes() {
        let (process, truth) =
            bench.run(mode, 64, &bench.client, &["-t", "4", "device:0", "stream", "launch:1280", "graph:2"]);
        compare_threads(&process, &truth, 4, &format!("{mode:?}"));
        for stream in process.streams.iter().filter(|stream| stream.launches == 1280) {
            let timed: u64 = stream.durations.iter().sum();
            assert!((20..60).contains(&timed), "{timed} calls were timed");
        }
    }
}

/// Make sure that what was called before counting began is not made up: contexts
/// are unknown until they are named, and a free of an unknown block takes nothing
/// away.
#[test]
fn late() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    for mode in bench::modes() {
        let words = ["device:1", "launch:50", "stop", "launch:3", "current", "launch:4", "churn:2"];
        let mut client = bench.start(&bench.client, &words);
        bench::read_line(&mut client, "stopped");
        let mut session = bench.session(mode, 1);
        bench::go_on(&mut client);
        let pid = client.id();
        assert!(client.wait().unwrap().success());
        let process = bench::read(&mut session, pid);
        assert!(process.partial && process.since_ns > 0, "{process:?}");
        let mut launches: Vec<(bool, u64)> =
            process.streams.iter().map(|stream| (stream.context != 0, stream.launches)).collect();
        launches.sort_unstable();
        assert_eq!(launches, [(false, 3), (true, 4)], "{mode:?}");
        let context = process.contexts.iter().find(|context| context.context != 0).unwrap();
        assert_eq!((context.allocations, context.frees, context.bytes), (2, 2, 0));
    }
}

/// Make sure that a process that executes a program is another one from then on,
/// and that one that is killed has ended with what it did.
#[test]
fn ends() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    for mode in bench::modes() {
        let _held = bench.hold();
        let mut session = bench.session(mode, 1);
        let mut client = bench.start(&bench.client, &["device:0", "memory:100", "launch:5", "exec"]);
        let pid = client.id();
        assert!(client.wait().unwrap().success());
        let both = bench::read_all(&mut session, pid);
        let seen: BTreeMap<bool, u64> = both
            .iter()
            .map(|process| (process.executed, process.streams.iter().map(|stream| stream.launches).sum()))
            .collect();
        assert_eq!(seen, BTreeMap::from([(true, 5), (false, 7)]), "{mode:?}: {both:?}");
        assert_ne!(both[0].id, both[1].id);

        let mut client = bench.start(&bench.client, &["device:0", "memory:100", "launch:9", "stop"]);
        bench::read_line(&mut client, "stopped");
        let pid = client.id();
        client.kill().unwrap();
        client.wait().unwrap();
        let process = bench::read(&mut session, pid);
        assert_eq!(process.streams.iter().map(|stream| stream.launches).sum::<u64>(), 9);
        assert!(process.ended_ns.is_some() && process.contexts.iter().any(|context| context.bytes > 0));
        session.wait(Duration::from_millis(1), None).unwrap();
        let again = session.read().unwrap();
        assert!(again.processes.iter().all(|process| process.pid != pid), "it ended twice");
        assert_eq!(bench::lost(&again), []);
    }
}

/// Make sure that a process with more streams than are kept apart loses none of
/// its launches.
#[test]
fn many_streams() {
    let Some(root) = bench::shared() else { return };
    let bench = Bench::new(&root);
    let (process, _) = bench.run(bench::best_mode(), 1, &bench.client, &["device:0", "streams:3000"]);
    assert_eq!(process.streams.iter().map(|stream| stream.launches).sum::<u64>(), 3000);
    let others = process.streams.iter().find(|stream| stream.stream == 3).unwrap();
    assert!(others.launches >= 900 && process.streams.len() <= 2049, "{others:?}");
}
